//! Ways of doing the same by turns: machines change within minutes, so that only these compare.

use std::time::{Duration, Instant};

use tilewright::Result;

/// What ways of doing the same took, turn by turn.
#[derive(Debug)]
pub struct Turns {
    /// For each way, what it took in each turn.
    times: Vec<Vec<Duration>>,
}

impl Turns {
    /// Of so many ways, one or more; none has had its turn.
    pub fn new(ways: usize) -> Turns {
        Turns { times: vec![Vec::new(); ways.max(1)] }
    }

    /// How many turns there were.
    pub fn taken(&self) -> usize {
        self.times[0].len()
    }

    /// One turn: `run` is called with the number of each way, `batch` times, at least once. Each way is the first in some turn: what runs behind
    /// something else has its caches.
    ///
    /// # Errors
    /// As `run`.
    pub fn take(&mut self, batch: u32, mut run: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let (ways, turn, batch) = (self.times.len(), self.taken(), batch.max(1));
        for i in 0..ways {
            let way = (i + turn) % ways;
            let start = Instant::now();
            for _ in 0..batch {
                run(way)?;
            }
            self.times[way].push(start.elapsed() / batch);
        }
        Ok(())
    }

    /// The shortest time of the first way; no end of time where there was no turn.
    pub fn shortest(&self) -> Duration {
        self.times[0].iter().copied().min().unwrap_or(Duration::MAX)
    }

    /// How many times as fast as the first each other way was: the median of all turns, of which there is one at least.
    pub fn speeds(&self) -> Vec<f64> {
        let [first, others @ ..] = &self.times[..] else { return Vec::new() };
        let speed = |times: &Vec<Duration>| {
            let mut speeds: Vec<f64> = first
                .iter()
                .zip(times)
                .map(|(first, time)| first.as_secs_f64() / time.as_secs_f64().max(1e-9))
                .collect();
            speeds.sort_by(f64::total_cmp);
            speeds.get(speeds.len() / 2).copied().unwrap_or(1.0)
        };
        others.iter().map(speed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_the_first_in_some_turn() {
        let mut turns = Turns::new(3);
        let mut order = Vec::new();
        for _ in 0..3 {
            turns
                .take(1, |way| {
                    order.push(way);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        assert_eq!(turns.taken(), 3);
    }

    #[test]
    fn speeds_are_medians_of_what_the_first_way_took() {
        let ms = |times: [u64; 3]| times.map(Duration::from_millis).to_vec();
        let turns = Turns { times: vec![ms([20, 40, 20]), ms([10, 10, 20]), ms([40, 80, 80])] };
        assert_eq!(turns.speeds(), [2.0, 0.5]);
        assert_eq!(turns.shortest(), Duration::from_millis(20));
    }
}

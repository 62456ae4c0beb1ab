//! `tilewright tune`: the numbers that suit this machine, measured, and kept as a profile.

use std::path::Path;
use std::time::Duration;

use tilewright::run::{AlignedBuffer, Pool};
use tilewright::tune::{Answer, tune};
use tilewright::tuning::{Machine, Profile, user_file};
use tilewright::{Error, Result as LibraryResult};
use tilewright_files::Output;

use super::arguments::TuneArgs;
use super::failure::{Failure, Result};
use super::streams::print;

/// Bytes of the buffers: more than caches of one core hold, and few enough for a machine with little memory.
const BUFFER: usize = 64 << 20;

pub(crate) fn run(arguments: &TuneArgs) -> Result<()> {
    let machine = Machine::here();
    let out = match &arguments.out {
        Some(out) => Some(out.clone()),
        None if arguments.dry_run => None,
        None => Some(user_file(&machine).ok_or_else(|| {
            Failure::usage(
                "--out",
                "none",
                "a file, as there is no configuration folder: neither HOME nor XDG_CONFIG_HOME is set",
            )
        })?),
    };
    let profile = Profile::for_machine(&machine);
    let pool = Pool::new(0)?;
    print(&format!("machine: {machine}\nbegins with: {}\n", profile.origin()))?;
    let (mut source, mut destination) = (AlignedBuffer::new(BUFFER)?, AlignedBuffer::new(BUFFER)?);
    tilewright_benches::numbers(&mut source);
    destination.fill(1);
    let base = profile.tuning();
    let time = Duration::from_secs(arguments.seconds);
    let mut told = Ok(());
    let tuning = tune(&base, &source, &mut destination, &pool, time, &mut |answer| {
        if told.is_ok() {
            told = print(&line(answer));
        }
    })?;
    told?;
    let changes = Profile::new(tuning, "measured")?.changes(&base);
    match (out, changes.is_empty()) {
        (Some(out), _) => {
            let origin = profile.origin();
            let head = format!(
                "# Measured by `tilewright tune` on {machine}.\n# What is not named here is as in the table for that machine: {origin}.\n"
            );
            write(&out, &(head + &changes))?;
            let used = if arguments.out.is_some() {
                "TILEWRIGHT_PROFILE can name it"
            } else {
                "every later run uses it"
            };
            print(&format!("written to {}; {used}\n", out.display()))
        }
        (None, true) => print("nothing is clearly better than what is there\n"),
        (None, false) => print(&changes),
    }
}

/// An answer as a line: what was measured, what was tried, how fast it was, and whether it was taken.
fn line(answer: &Answer) -> String {
    let numbers = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let about = &answer.about;
    let tried =
        answer.tried.iter().map(|(name, from, to)| format!("{name} {} -> {}", numbers(from), numbers(to)));
    let tried = tried.collect::<Vec<_>>().join(", ");
    match (answer.speed, answer.taken) {
        (None, _) => format!("{about:<40} not measured, no time left\n"),
        (Some(speed), false) => {
            format!("{about:<40} kept; the best other was {speed:.2} times as fast ({tried})\n")
        }
        (Some(speed), true) => format!("{about:<40} {speed:.2} times as fast with {tried}\n"),
    }
}

fn write(out: &Path, text: &str) -> LibraryResult<()> {
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io(folder.display(), "cannot make this folder", e))?;
    }
    let mut output = Output::create(out, text.len() as u64)?;
    output.write(text.as_bytes())?;
    output.commit()
}

//! Every conversion that tilewright is made for, in the cache of a core and in memory, on one thread and on all.

mod common;

use common::{beside_memcpy, settings};
use criterion::{Criterion, criterion_group, criterion_main};
use tilewright::run::{Executor, Inline, Pool};
use tilewright_benches::{Memory, cases};

fn conversions(c: &mut Criterion) {
    let pool = Pool::new(0).unwrap();
    let mut memory = Memory::new(0).unwrap();
    for case in cases() {
        let mut group = c.benchmark_group(case.name);
        let small = case.at(&case.l2, None).unwrap();
        beside_memcpy(&mut group, "L2", &small, &mut memory, &Inline, true);
        let large = case.at(&case.dram, None).unwrap();
        beside_memcpy(&mut group, "DRAM", &large, &mut memory, &Inline, false);
        if pool.threads() > 1 {
            let parameter = format!("DRAM, {} threads", pool.threads());
            beside_memcpy(&mut group, &parameter, &large, &mut memory, &pool, false);
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = settings::short();
    targets = conversions
}
criterion_main!(benches);

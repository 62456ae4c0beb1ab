//! Instructions that each conversion of one tensor takes in the cache of a core, counted by valgrind: the same in every
//! run, on whatever machine. `README.md` here tells how to run it.

#[cfg(not(instructions))]
fn main() {
    eprintln!("skipped: counting needs RUSTFLAGS='--cfg instructions', valgrind and gungraun-runner");
}

#[cfg(instructions)]
fn main() {
    counted::run();
}

#[cfg(instructions)]
mod counted {
    use gungraun::{library_benchmark, library_benchmark_group};
    use kernels::Isa;
    use tilewright::run::Inline;
    use tilewright_benches::{Case, Job, Memory, cases};

    /// The kernels that the processor which valgrind shows can run.
    const LEVEL: Isa = Isa::V3;

    /// A case in memory that has been written to.
    fn ready(case: Case) -> (Job, Memory) {
        let job = case.at(&case.l2, Some(LEVEL)).unwrap();
        let mut memory = Memory::new(0).unwrap();
        memory.prepare(&job).unwrap();
        (job, memory)
    }

    #[library_benchmark]
    #[benches::of(iter = cases(), setup = ready)]
    fn conversion((job, mut memory): (Job, Memory)) -> (Job, Memory) {
        memory.convert(&job, &Inline).unwrap();
        (job, memory)
    }

    library_benchmark_group!(name = conversions; benchmarks = conversion);

    gungraun::main!(library_benchmark_groups = conversions);

    pub(crate) fn run() {
        // Counts come under numbers, not names.
        for (i, case) in cases().iter().enumerate() {
            println!("of_{i}: {}", case.name);
        }
        main();
    }
}

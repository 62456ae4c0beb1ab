//! The command line: one module for each command, and what they share.
//!
//! Results go to stdout, everything else to stderr. The exit status is 0, 1 for an I/O failure or a failed check, or 2
//! for bad input; then no file has been written.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod checkpoint;
mod convert;
mod destination;
mod draw;
mod engine;
mod explain;
mod failure;
mod hardware;
mod help;
mod input;
mod locate;
mod lower;
mod mlir;
mod pack;
mod pipe;
mod progress;
mod scan;
mod streams;
mod tensorbin;
mod transfer;
mod tune;

use std::ffi::OsString;
use std::io::Write;

use clap::FromArgMatches;
use kernels::Isa;

use arguments::{Cli, Command};
use failure::{Failure, Result};
use streams::print;

/// Runs the command line, the program's name first, and returns its exit status.
///
/// Other programs are the command line too: `python -m tilewright` is.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let parsed = help::command().try_get_matches_from(arguments).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(usage) => {
            // Help, or a wrong argument. Nothing is left to do when stderr is closed too.
            let _ = usage.print();
            return if usage.use_stderr() { 2 } else { 0 };
        }
    };
    match run(&cli) {
        Ok(()) => 0,
        Err(failure) => {
            if !failure.is_closed_pipe() {
                let _ = writeln!(std::io::stderr(), "error: {failure}");
            }
            failure.status()
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let isa = engine::isa()?;
    if cli.version {
        let available: Vec<&str> = Isa::available().map(Isa::name).collect();
        let (version, level) = (env!("CARGO_PKG_VERSION"), isa.name());
        return print(&format!(
            "tilewright {version}\ninstruction set level: {level} (available: {})\n",
            available.join(", ")
        ));
    }
    match &cli.command {
        Some(Command::Convert(arguments)) => convert::run(arguments, isa),
        Some(Command::Explain(arguments)) => explain::run(arguments, isa),
        Some(Command::Locate(arguments)) => locate::run(arguments),
        Some(Command::Draw(arguments)) => draw::run(arguments, isa),
        Some(Command::Lower(arguments)) => lower::run(arguments),
        Some(Command::Scan(arguments)) => scan::run(arguments),
        Some(Command::Pack(arguments)) => pack::run(arguments, isa),
        Some(Command::List(arguments)) => checkpoint::list(arguments),
        Some(Command::Verify(arguments)) => checkpoint::verify(arguments),
        Some(Command::Inspect(arguments)) => checkpoint::inspect(arguments),
        Some(Command::Diff(arguments)) => checkpoint::diff(arguments),
        Some(Command::Bench(arguments)) => bench::run(arguments, isa),
        Some(Command::Tune(arguments)) => tune::run(arguments),
        Some(Command::Completions(arguments)) => help::completions(arguments.shell),
        Some(Command::Man(arguments)) => help::manual(&arguments.directory),
        None => Err(Failure::usage("command", "none", "one of those that `tilewright --help` lists")),
    }
}

//! What the program says of itself: help with an example and the exit statuses, completions for shells, manual pages.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use tilewright::Error;

use super::arguments::Cli;
use super::failure::Result;
use super::streams::print;

/// One line for each command that can be run as it is, where the files it names are there.
const EXAMPLES: [(&str, &str); 15] = [
    ("convert", "tilewright convert w.npy --to 'ttnn(dtype=bfloat8_b, layout=TILE)' --out w.bin --check"),
    ("explain", "tilewright explain --shape 53,63 --dtype f32 --to 'ttnn(dtype=bfloat8_b, layout=TILE)'"),
    (
        "locate",
        "tilewright locate --shape 53,63 --dtype f32 --to 'ttnn(dtype=bfloat8_b, layout=TILE)' --index 40,7",
    ),
    (
        "lower",
        "tilewright lower --shape 4,3,32,32 --dtype bf16 --mesh 'ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))'",
    ),
    ("scan", "tilewright scan model.mlir"),
    (
        "draw",
        "tilewright draw --shape 53,63 --dtype f32 --to 'ttnn(dtype=bfloat8_b, layout=TILE)' -o tiles.svg",
    ),
    ("pack", "tilewright pack model.safetensors --rules ttnn-bfp8 -o packed --max-memory 2G"),
    ("list", "tilewright list model.safetensors"),
    ("verify", "tilewright verify packed"),
    ("inspect", "tilewright inspect packed"),
    ("diff", "tilewright diff packed packed"),
    ("bench", "tilewright bench tilize"),
    ("tune", "tilewright tune --seconds 5 --out my.profile"),
    ("completions", "tilewright completions bash > tilewright.bash"),
    ("man", "tilewright man man1"),
];

const STATUSES: &str = "Exit status: 0 done; 1 something could not be read or written, or a check found a difference; \
    2 a wrong argument, text or file. After 1 and 2 no file has been written.";

/// The command line, with an example for each command.
pub(crate) fn command() -> Command {
    Cli::command().after_help(STATUSES).mut_subcommands(|command| {
        match EXAMPLES.iter().find(|example| example.0 == command.get_name()) {
            Some((_, example)) => command.after_help(format!("Example:\n  {example}\n\n{STATUSES}")),
            None => command.after_help(STATUSES),
        }
    })
}

/// Prints what a shell needs to complete arguments.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tilewright", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for the program and for each command.
pub(crate) fn manual(directory: &Path) -> Result<()> {
    let failed = |e| Error::io(directory.display(), "cannot write manual pages there", e);
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(command().disable_help_subcommand(true), directory).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example_that_parses() {
        for sub in command().get_subcommands() {
            let example = EXAMPLES.iter().find(|example| example.0 == sub.get_name());
            let (name, line) = example.unwrap_or_else(|| panic!("{} has no example", sub.get_name()));
            assert!(line.starts_with(&format!("tilewright {name}")), "{line}");
        }
    }
}

//! The program: the command line of the package.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tilewright_cli::main(std::env::args_os()).into()
}

//! The program: the library's command line.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tilewright::cli::main(std::env::args_os()).into()
}

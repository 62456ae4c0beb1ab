//! C and C++ programs against the library, with the system's compilers.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{installed, root, run, scratch};

/// How a program is linked with the library.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    Static,
    Shared,
}

/// Cargo puts the libraries beside the tests.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// Compiles a program, with every warning an error, and gives its path.
fn compile(source: &str, link: Link) -> PathBuf {
    let path = root().join(source);
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let program = scratch(&format!("{stem}-{}", if link == Link::Static { "static" } else { "shared" }));
    let cpp = path.extension().is_some_and(|e| e == "cpp");
    let mut command = Command::new(if cpp { "c++" } else { "cc" });
    command.args([if cpp { "-std=c++17" } else { "-std=c11" }, "-g", "-pthread"]);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg(format!("-DVERSION=\"{}\"", env!("CARGO_PKG_VERSION")));
    command.arg(format!("-DSCRATCH=\"{}\"", scratch("").display()));
    command.arg("-I").arg(root().join("include")).arg(&path).arg("-o").arg(&program);
    let libraries = libraries();
    match link {
        Link::Static => command.arg(libraries.join("libtilewright_capi.a")).args(["-ldl", "-lm"]),
        Link::Shared => {
            command.arg("-L").arg(&libraries).arg("-ltilewright_capi");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()))
        }
    };
    run(&mut command);
    program
}

/// Runs a program, and again under valgrind, where there is one, without an error or a leak.
fn check(source: &str, link: Link) -> String {
    let program = compile(source, link);
    let printed = run(&mut Command::new(&program));
    if installed("valgrind", "--version") {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"]);
        // Valgrind knows no AVX-512.
        command.arg(format!("--suppressions={}", root().join("tests/valgrind.supp").display()));
        command.args(["--errors-for-leak-kinds=all"]).arg(&program).env("TILEWRIGHT_ISA", "base");
        run(&mut command);
    }
    printed
}

#[test]
fn a_weight_is_packed() {
    let printed = check("examples/pack_weight.c", Link::Static);
    assert!(
        printed.contains("80000 bytes packed into 30464") && printed.ends_with("unpacked: the same\n"),
        "{printed}"
    );
}

#[test]
fn a_ring_is_filled() {
    let printed = check("examples/ring.cpp", Link::Shared);
    assert!(printed.ends_with("the same as at once\n"), "{printed}");
}

#[test]
fn wrong_arguments_are_statuses() {
    check("tests/arguments.c", Link::Static);
}

#[test]
fn a_plan_freed_twice_is_noticed() {
    run(&mut Command::new(compile("tests/freed.c", Link::Static)));
}

#[test]
fn wrong_executors_are_statuses() {
    check("tests/executors.c", Link::Shared);
}

#[test]
fn batches_are_converted() {
    check("tests/batch.c", Link::Static);
}

#[test]
fn tensor_files_are_written_and_read() {
    check("tests/tensorbin.c", Link::Shared);
}

#[test]
fn stagers_stage() {
    check("tests/stager.c", Link::Static);
}

#[test]
fn the_wrapper_wraps() {
    check("tests/wrapper.cpp", Link::Static);
}

#[test]
fn headers_stand_alone_in_both_languages() {
    for (compiler, standard, header) in [
        ("cc", "-std=c11", "tilewright.h"),
        ("c++", "-std=c++17", "tilewright.h"),
        ("c++", "-std=c++20", "tilewright.hpp"),
    ] {
        let language = if compiler == "cc" { "c" } else { "c++" };
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-pedantic-errors",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-x",
            language,
        ]);
        // A header alone would be taken for one to precompile.
        command.args(["-include", header, "/dev/null", "-I"]).arg(root().join("include"));
        run(&mut command);
    }
}

/// The names in a table of symbols, as nm prints it.
fn defined(mut nm: Command, library: &Path) -> Vec<String> {
    let table = run(nm.args(["--defined-only", "--format=posix"]).arg(library));
    let name = |line: &str| line.split(' ').next().map(|n| n.trim_start_matches('_').to_owned());
    table.lines().filter_map(name).collect()
}

#[test]
fn the_exported_symbols_are_those_of_the_list() {
    let library = libraries().join("libtilewright_capi.so");
    let mut nm = Command::new("nm");
    nm.arg("--dynamic");
    let mut exported = defined(nm, &library);
    exported.sort();
    let list = std::fs::read_to_string(root().join("symbols.txt")).unwrap();
    assert_eq!(exported, list.lines().collect::<Vec<_>>());
    assert!(exported.iter().all(|name| name.starts_with("tw_")));
    let header = std::fs::read_to_string(root().join("include/tilewright.h")).unwrap();
    for name in &exported {
        // Each is declared, with its description on the line above.
        let at =
            header.lines().position(|line| line.contains(&format!("{name}(")) && !line.starts_with("//"));
        let above = at.and_then(|at| header.lines().nth(at - 1)).unwrap_or_default();
        assert!(above.starts_with("// "), "{name}");
    }
}

#[test]
fn the_header_is_what_cbindgen_makes() {
    if !installed("cbindgen", "--version") {
        return;
    }
    let mut command = Command::new("cbindgen");
    command.args(["--quiet", "--config"]).arg(root().join("cbindgen.toml")).arg(root());
    let made = run(&mut command);
    assert!(made == std::fs::read_to_string(root().join("include/tilewright.h")).unwrap(), "make it anew");
}

#[test]
fn the_versions_agree() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let abi = format!("version = \"{}.0.0\"", tilewright_capi::TW_ABI_VERSION);
    assert!(manifest.contains(&abi), "{abi}");
    let cmake = std::fs::read_to_string(root().join("cmake/tilewright-config-version.cmake")).unwrap();
    let version = concat!("set(PACKAGE_VERSION ", env!("CARGO_PKG_VERSION"), ")");
    assert!(cmake.contains(version), "{version}");
}

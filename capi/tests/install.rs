//! An installed library, as other people's build systems find it.
#![cfg(target_os = "linux")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{installed, root, run, scratch};

#[test]
fn other_projects_find_it() {
    if !installed("cargo-cinstall", "--version") {
        return;
    }
    let prefix = scratch("prefix");
    let _ = std::fs::remove_dir_all(&prefix);
    let mut command = Command::new(env!("CARGO"));
    command.args(["cinstall", "--debug", "--locked", "--libdir", "lib", "--prefix"]).arg(&prefix);
    run(command.current_dir(root()).env("CARGO_TARGET_DIR", scratch("cargo-c")));
    for file in [
        "include/tilewright.h",
        "include/tilewright.hpp",
        "lib/libtilewright.a",
        "lib/libtilewright.so",
        "lib/pkgconfig/tilewright.pc",
        "share/tilewright/cmake/tilewright-config.cmake",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    let soname = format!("libtilewright.so.{}", tilewright_capi::TW_ABI_VERSION);
    assert!(prefix.join("lib").join(&soname).exists(), "{soname}");
    let dynamic = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libtilewright.so")));
    assert!(dynamic.contains(&format!("[{soname}]")), "{dynamic}");

    by_pkg_config(&prefix);
    by_cmake(&prefix);
}

fn by_pkg_config(prefix: &Path) {
    if !installed("pkg-config", "--version") {
        return;
    }
    let flags = |more: &[&str]| -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs"]).args(more).arg("tilewright");
        let flags = run(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
        flags.split_whitespace().map(str::to_owned).collect()
    };
    let source = root().join("examples/pack_weight.c");
    let shared = scratch("pkg-config-shared");
    run(Command::new("cc").arg(&source).args(flags(&[])).arg("-o").arg(&shared));
    run(Command::new(&shared).env("LD_LIBRARY_PATH", prefix.join("lib")));

    // Only this library statically: the system's own may not be there for that.
    let libraries = flags(&["--static"]).join(" ");
    let libraries = libraries.replace("-ltilewright", "-l:libtilewright.a");
    let program = scratch("pkg-config-static");
    run(Command::new("cc").arg(&source).args(libraries.split(' ')).arg("-o").arg(&program));
    run(&mut Command::new(&program));
}

fn by_cmake(prefix: &Path) {
    if !installed("cmake", "--version") {
        return;
    }
    // Outside of this repository as far as CMake can tell.
    let (project, build) = (scratch("consumer"), scratch("consumer/build"));
    let _ = std::fs::remove_dir_all(&project);
    std::fs::create_dir_all(&project).unwrap();
    std::fs::copy(root().join("tests/consumer/CMakeLists.txt"), project.join("CMakeLists.txt")).unwrap();
    let examples = root().join("examples");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DEXAMPLES={}", examples.display()));
    run(&mut configure);
    run(Command::new("cmake").arg("--build").arg(&build));
    run(&mut Command::new(build.join("shared")));
    run(&mut Command::new(build.join("static")));
}

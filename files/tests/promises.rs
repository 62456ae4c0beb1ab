//! What TESTING.md promises of files whose writers and readers meet.

use std::fs::{self, File};

use tilewright_files::{Output, Source};

/// The one who ends last has the name, and nobody's bytes are mixed.
#[test]
fn two_writers_of_one_result_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let [mut first, mut second] = [(); 2].map(|()| Output::create(&path, 100_000).unwrap());
    for _ in 0..10 {
        first.write(&[1; 10_000]).unwrap();
        second.write(&[2; 10_000]).unwrap();
    }
    second.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), [2; 100_000]);
    first.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), [1; 100_000]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// A file that can be cut short is never mapped: reading behind its end is an error, and no signal ends the process. One
/// that is mapped is sealed, and the system refuses to cut it short.
#[cfg(target_os = "linux")]
#[test]
fn what_is_mapped_cannot_be_cut_short() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use std::io::Write;
    use std::os::fd::AsRawFd;

    let sealed = |seals: SealFlags| {
        let mut file = File::from(memfd_create("source", MemfdFlags::ALLOW_SEALING).unwrap());
        file.write_all(&[5; 20_000]).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let is_mapped = |file: &File| {
        let source = Source::open(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref()).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(*source.bytes(0..20_000).unwrap(), [5; 20_000]);
        let mapped = maps.contains("memfd:source");
        (source, mapped)
    };
    let file = sealed(SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL);
    let (source, mapped) = is_mapped(&file);
    assert!(mapped, "a sealed file is not mapped");
    ftruncate(&file, 0).unwrap_err();
    assert_eq!(*source.bytes(10_000..20_000).unwrap(), [5; 10_000]);
    drop(source);
    let file = sealed(SealFlags::empty());
    let (source, mapped) = is_mapped(&file);
    assert!(!mapped, "a file that can be cut short is mapped");
    ftruncate(&file, 10).unwrap();
    let message = source.bytes(0..20_000).unwrap_err().to_string();
    assert!(message.ends_with("the file has become shorter than 20000 bytes"), "{message}");
}

//! The profile of this process.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Machine, Profile, builtin};
use crate::error::{Error, Result};

/// The variable that names a profile: one of [`builtin::ALL`], or a file.
const VARIABLE: &str = "TILEWRIGHT_PROFILE";

/// The profile by which this process compiles plans: what `TILEWRIGHT_PROFILE` names, a built-in table or else a file; where
/// it is not set or empty, the user's file for machines of this kind ([`user_file`]), if there is one; else
/// [`Profile::for_machine`]. It is looked for once, so that all plans of a process are made by the same numbers.
///
/// # Errors
/// Of [`Profile::read`], where the file that was named cannot be read or the user's file is no profile; the same at each call.
pub fn in_force() -> Result<&'static Profile> {
    static IN_FORCE: OnceLock<Result<Profile>> = OnceLock::new();
    let find = || find(&Machine::here(), std::env::var_os(VARIABLE).as_deref(), user_file);
    IN_FORCE.get_or_init(find).as_ref().map_err(Error::clone)
}

/// The file of the user's configuration folder that holds the profile for machines of a kind, whether or not there is one:
/// `tilewright/GenuineIntel-6-143.profile` in `$XDG_CONFIG_HOME` or, where that is not set, `~/.config`; in `%APPDATA%` on
/// Windows. None where there is no such folder.
pub fn user_file(machine: &Machine) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || if cfg!(windows) { set("APPDATA") } else { Some(std::env::home_dir()?.join(".config")) };
    // The rule of the XDG directories: a path that is not absolute is as none.
    let folder = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home)?;
    Some(folder.join("tilewright").join(format!("{}.profile", machine.kind())))
}

fn find(
    machine: &Machine,
    variable: Option<&OsStr>,
    user_file: impl Fn(&Machine) -> Option<PathBuf>,
) -> Result<Profile> {
    let base = builtin::for_machine(machine).1;
    if let Some(given) = variable.filter(|given| !given.is_empty()) {
        return Profile::find(given, VARIABLE, &base);
    }
    match user_file(machine).filter(|path| path.is_file()) {
        Some(path) => Profile::read(&path, &base),
        None => Ok(Profile::for_machine(machine)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Origin;
    use super::*;

    #[test]
    fn the_variable_comes_before_the_users_file_and_that_before_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let (named, user) = (folder.path().join("named"), folder.path().join("user"));
        std::fs::write(&named, "segment = 128").unwrap();
        let machine = Machine::default();
        let find = |variable: Option<&OsStr>| find(&machine, variable, |_| Some(user.clone())).unwrap();
        let segment = |profile: Profile| profile.tuning().segment;
        assert_eq!(find(None).origin(), &Origin::BuiltIn("conservative"));
        assert_eq!(find(Some(OsStr::new(""))).origin(), &Origin::BuiltIn("conservative"));
        std::fs::write(&user, "segment = 256").unwrap();
        assert_eq!(segment(find(None)), 256);
        assert_eq!(segment(find(Some(named.as_os_str()))), 128);
        assert_eq!(find(Some(OsStr::new("zen4"))).tuning(), builtin::ZEN4);
    }

    #[test]
    fn what_the_variable_names_must_be_there() {
        let find = |given: &str| find(&Machine::default(), Some(OsStr::new(given)), |_| None).unwrap_err();
        assert_eq!(
            find("zen9").to_string(),
            "TILEWRIGHT_PROFILE: given `zen9`, needed a file, or one of zen3, zen4, zen5, sapphire-rapids, cascade-lake, conservative"
        );
    }

    #[test]
    fn the_users_file_is_for_a_kind_of_machine() {
        let machine = Machine { vendor: "GenuineIntel".into(), family: 6, model: 143, ..Machine::default() };
        if let Some(path) = user_file(&machine) {
            assert!(path.ends_with("tilewright/GenuineIntel-6-143.profile"), "{}", path.display());
        }
    }
}

//! Who may read a private file, from the first instant on and with the most permissive umask.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use parler_identity::KeyFileError;
use parler_identity::keyfile::{create_once, load_or_create_key, read, read_secret, replace};

const HOME: &str = "PARLER_TEST_HOME";
const FILES: usize = 60;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_is_private_from_the_first_instant_whatever_the_umask() {
    if let Some(home) = std::env::var_os(HOME) {
        return write_files(Path::new(&home));
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("a").join("home");
    // `umask` is the shell's: setting it in this process would take unsafe code.
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "umask 000; exec \"$0\" --exact --nocapture \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg("a_file_is_private_from_the_first_instant_whatever_the_umask")
        .env(HOME, &home)
        .spawn()
        .unwrap();
    let mut seen = HashMap::new();
    let status = loop {
        let status = writer.try_wait().unwrap();
        look(&home, &mut seen);
        if let Some(status) = status {
            break status;
        }
    };
    assert!(status.success());
    let loose: Vec<_> = seen.iter().filter(|(_, mode)| **mode != 0o600).collect();
    assert!(loose.is_empty(), "{loose:?}");
    assert!(seen.len() >= 2 * FILES, "all final names, at the least");
    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(home.parent().unwrap()), 0o700);
}

/// Notes the widest mode of every file, those with temporary names included.
fn look(home: &Path, seen: &mut HashMap<PathBuf, u32>) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        // A temporary name may be gone by now.
        if let Ok(metadata) = entry.metadata() {
            *seen.entry(entry.path()).or_default() |= metadata.permissions().mode() & 0o7777;
        }
    }
}

fn write_files(home: &Path) {
    for n in 0..FILES {
        load_or_create_key(&home.join(format!("{n}.key"))).unwrap();
        let other = home.join(format!("{n}.json"));
        assert!(create_once(&other, b"{}").unwrap());
        replace(&other, b"{\"more\":true}").unwrap();
    }
}

#[test]
fn a_secret_that_others_may_read_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.key");
    let keys = load_or_create_key(&path).unwrap();
    for loose in [0o640, 0o604, 0o620, 0o601, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(loose)).unwrap();
        let refused = load_or_create_key(&path).unwrap_err();
        let KeyFileError::LoosePermissions { mode: told, .. } = &refused else {
            panic!("{refused}");
        };
        assert_eq!(*told, loose);
        let command = format!("chmod 600 {}", path.display());
        assert!(refused.to_string().ends_with(&command), "{refused}");
        assert!(read_secret(&path).is_err());
        assert!(read(&path).unwrap().is_some(), "only secrets are refused");
        assert_eq!(mode(&path), loose);
    }
    for private in [0o600, 0o400] {
        fs::set_permissions(&path, fs::Permissions::from_mode(private)).unwrap();
        assert_eq!(load_or_create_key(&path).unwrap().id(), keys.id());
    }
}

#[test]
fn a_replacement_is_private_even_when_the_old_file_was_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    replace(&path, b"{\"seed\":\"...\"}").unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn an_existing_directory_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    load_or_create_key(&dir.path().join("agent.key")).unwrap();
    assert_eq!(mode(dir.path()), 0o755);
}

#[test]
fn a_dangling_link_is_an_error_and_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (link, target) = (dir.path().join("agent.key"), dir.path().join("elsewhere"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(matches!(
        load_or_create_key(&link),
        Err(KeyFileError::Unreachable(_))
    ));
    assert!(!target.exists());
}

//! End-to-end tests across the built binaries; they live in `tests/`.
//!
//! Tests of one binary alone live with it (`crates/parler/tests`). Here is what needs several, and
//! the test of the arrows between the crates. This library only finds and builds the binaries.
#![warn(missing_docs)]

use std::path::PathBuf;
use std::process::Command;

/// The path of a built binary of this workspace, in the profile of the running test.
///
/// A run of the whole workspace's tests has just built it. Where it is missing (this package is
/// tested alone) it is built here; one that is there is taken as it is.
///
/// # Panics
/// When it cannot be built: the test that asked cannot go on.
#[must_use]
pub fn binary(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // target/PROFILE/deps/TEST
    let profile_dir = test
        .ancestors()
        .nth(2)
        .expect("tests run in the target folder");
    let path = profile_dir
        .join(package)
        .with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            package,
            "--bin",
            package,
        ]);
        if profile_dir.ends_with("release") {
            build.arg("--release");
        }
        build
            .arg("--target-dir")
            .arg(profile_dir.parent().expect("the target folder has a name"));
        let built = build.status().expect("cargo can be run");
        assert!(built.success(), "{package} does not build");
    }
    path
}

//! How to run a command and say which one it was.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs cargo and fails when it fails.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(arguments, &[])
}

/// Runs cargo with additions to its environment.
pub(crate) fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    eprintln!("$ cargo {}", arguments.join(" "));
    let mut command = Command::new("cargo");
    for variable in of_this_package() {
        command.env_remove(variable);
    }
    let status = command
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}

/// Builds `overdraft` for release, and tells where it is.
pub(crate) fn built() -> Result<PathBuf> {
    cargo(&["build", "--release", "--locked", "--package", "overdraft"])?;
    Ok(target().join("release").join("overdraft"))
}

/// Runs a program that was built here, and fails when it fails.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> Result<()> {
    let shown = program.display();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| format!("`{shown}` could not be started"))?;
    if !status.success() {
        bail!("`{shown} {}` failed", arguments.join(" "));
    }
    Ok(())
}

/// What a command prints.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .with_context(|| format!("`{program}` could not be started"))?;
    if !output.status.success() {
        bail!("`{program} {}` failed", arguments.join(" "));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What cargo told of `xtask` when it ran it. Some build scripts ask for variables of these names, and cargo builds them
/// and all that needs them anew when such a one differs from when cargo is called by hand.
fn of_this_package() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
    })
}

/// The repository's root folder: as cargo says now, for a build cache may hold what another clone built.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable, not our configuration")]
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var("CARGO_MANIFEST_DIR");
    let manifest = PathBuf::from(manifest.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

/// Where cargo puts what it builds.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable, not our configuration")]
pub(crate) fn target() -> PathBuf {
    std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from)
}

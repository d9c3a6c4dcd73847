//! The dashboard's page: builds it from TypeScript, checks that what is committed is current, and runs
//! its tests in a real browser.
//!
//! The built page is committed, so nobody needs npm to build Overdraft. Where npm, or for the tests a
//! Chromium, is missing, a check is left out and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Arguments {
    /// Fails where what is committed is not what would be built; builds nothing
    #[arg(long)]
    check: bool,
    /// Runs the tests in a real Chromium, against the binary in the target folder
    #[arg(long)]
    test: bool,
    /// Takes the pictures of the documentation anew, with the same Chromium and binary
    #[arg(long)]
    pictures: bool,
}

/// Where Debian and others put a Chromium.
const CHROMIUMS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Builds, checks or tests the page.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !has("npm") {
        if arguments.check {
            eprintln!(
                "left out: whether the committed dashboard is current, for `npm` was not found"
            );
            return Ok(());
        }
        bail!(
            "`npm` was not found; the dashboard is built from TypeScript (Debian: apt-get install npm)"
        );
    }
    install()?;
    node(&["node_modules/typescript/bin/tsc", "--noEmit"], &[])?;
    let build: &[&str] = if arguments.check { &["build.mjs", "--check"] } else { &["build.mjs"] };
    node(build, &[])?;
    if arguments.test {
        browse(&["--test", "--test-concurrency=1", "test/dashboard.test.mjs"])?;
    }
    if arguments.pictures {
        browse(&["test/pictures.mjs"])?;
    }
    Ok(())
}

/// The page's own checks as part of all tests, as far as this machine has what they need.
pub(crate) fn test() -> Result<()> {
    if !has("node") || !has("npm") {
        eprintln!("left out: the dashboard's tests, for `node` and `npm` were not found");
        return Ok(());
    }
    run(&Arguments { check: true, test: true, pictures: false })
}

/// Measures the page before the release binary. Unlike a test it needs its browser, and says so before it builds.
pub(crate) fn bench(is_quick: bool) -> Result<()> {
    if !has("node") || !has("npm") {
        bail!("the page is measured with `node` and `npm` (Debian: apt-get install nodejs npm)");
    }
    let Some(chromium) = chromium() else {
        bail!("no Chromium was found at {} (Debian: chromium)", CHROMIUMS.join(", "));
    };
    install()?;
    shell::cargo(&["build", "--release", "--locked", "--quiet", "--package", "overdraft"])?;
    let quick = is_quick.then_some("--quick");
    let script: Vec<&str> = std::iter::once("test/bench.mjs").chain(quick).collect();
    before(&shell::target().join("release").join("overdraft"), chromium, &script)
}

/// Runs a script that needs a browser and a gateway.
fn browse(script: &[&str]) -> Result<()> {
    let Some(chromium) = chromium() else {
        eprintln!("left out: what needs a browser, for no Chromium was found");
        return Ok(());
    };
    let binary = shell::target().join("debug").join("overdraft");
    if !binary.exists() {
        shell::cargo(&["build", "--locked", "--package", "overdraft"])?;
    }
    before(&binary, chromium, script)
}

fn chromium() -> Option<&'static str> {
    CHROMIUMS.into_iter().find(|path| Path::new(path).exists())
}

/// Runs a script that starts this gateway and this browser.
fn before(binary: &Path, chromium: &str, script: &[&str]) -> Result<()> {
    let binary = binary.to_string_lossy();
    node(script, &[("OVERDRAFT_BINARY", &binary), ("OVERDRAFT_CHROMIUM", chromium)])
}

/// Installs what the lock file names, unless that is there already.
fn install() -> Result<()> {
    let lock = web().join("package-lock.json");
    let installed = web().join("node_modules").join(".package-lock.json");
    let written = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    if written(&installed).is_some_and(|at| written(&lock).is_some_and(|lock| lock <= at)) {
        return Ok(());
    }
    in_web("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"], &[])
}

fn node(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    in_web("node", arguments, environment)
}

fn in_web(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    eprintln!("$ {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(web())
        .status()
        .with_context(|| format!("`{program}` could not be started"))?;
    if !status.success() {
        bail!("`{program} {}` failed in crates/dash/web", arguments.join(" "));
    }
    Ok(())
}

fn web() -> PathBuf {
    shell::root().join("crates").join("dash").join("web")
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

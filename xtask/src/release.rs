//! Release artefacts: one stripped binary, its debug information, and the packages that carry it, reproducibly.
//!
//! The binary is built by the profile `dist` with Kubernetes discovery, without counts of what is hot, because counts differ from run to
//! run. Paths of this machine are mapped away. `deploy/packages/release.py` makes the packages from this one binary, measures it, and
//! proves each package by installing it and asking it one request.
//!
//! **Invariant:** the same commit and toolchain give the same bytes, in whatever folder they are built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{dist, shell};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask release\n  cargo xtask release --expect published/SHA256SUMS    # are these its bytes?"
)]
pub(crate) struct Arguments {
    /// Where the artefacts go; by default below the target folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Checksums that the artefacts must have, as another release wrote them
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
}

/// Of all files in packages, in seconds: 2026-01-01. `SOURCE_DATE_EPOCH` is for whoever packages it otherwise.
const STAMP: &str = "1767225600";

/// Builds, splits, packs and proves.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let built = build()?;
    let out = arguments.out.clone().unwrap_or_else(|| shell::target().join("release-artefacts"));
    let parts = shell::target().join("release-parts");
    fs::create_dir_all(&parts)?;
    let (binary, symbols) = (parts.join("overdraft"), parts.join("overdraft.debug"));
    split(&built, &binary, &symbols)?;
    let mut command = Command::new("python3");
    command.arg(shell::root().join("deploy/packages/release.py"));
    command.arg("--binary").arg(binary).arg("--symbols").arg(symbols).arg("--out").arg(out);
    if let Some(expect) = &arguments.expect {
        command.arg("--expect").arg(expect);
    }
    let status = command.status().context("`python3` could not be started")?;
    if !status.success() {
        bail!("the release has faults");
    }
    Ok(())
}

/// Builds the binary with its debug information; where it is.
fn build() -> Result<PathBuf> {
    let host = dist::host()?;
    let target = shell::target();
    let maps = maps()?;
    let rust: Vec<String> = maps
        .iter()
        .map(|map| format!("--remap-path-prefix={map}"))
        .chain([BUILD_ID.to_owned()])
        .collect();
    let c: Vec<String> = maps.iter().map(|map| format!("-ffile-prefix-map={map}")).collect();
    shell::cargo_with(
        &[
            "build",
            "--profile=dist",
            "--locked",
            "--package=overdraft",
            "--features=kubernetes",
            &format!("--target={host}"),
            &format!("--target-dir={}", text(&target)?),
            "--bin=overdraft",
        ],
        &[
            (dist::FLAGS, &rust.join(dist::BETWEEN_FLAGS)),
            // Paths with spaces would break these; the compiler of C gets no other list.
            ("CFLAGS", &c.join(" ")),
            ("CXXFLAGS", &c.join(" ")),
            ("CARGO_INCREMENTAL", "0"),
            ("SOURCE_DATE_EPOCH", STAMP),
        ],
    )?;
    Ok(target.join(host).join("dist").join("overdraft"))
}

/// Names the build, so that a debugger finds the debug information that belongs to a binary.
const BUILD_ID: &str = "-Clink-arg=-Wl,--build-id=sha1";

/// Folders of this machine and the names that stand for them; the last that fits counts.
fn maps() -> Result<Vec<String>> {
    let home = cargo_home()?;
    let mut maps = vec![
        format!("{}=/overdraft", text(&shell::root())?),
        format!("{}=/target", text(&shell::target())?),
        format!("{}=/cargo", text(&home)?),
    ];
    // One folder for each registry; its name tells which one it is.
    let mut sources: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(home.join("registry").join("src")).into_iter().flatten() {
        sources.push(entry?.path());
    }
    sources.sort();
    for source in sources {
        maps.push(format!("{}=/cargo/registry", text(&source)?));
    }
    Ok(maps)
}

/// Where cargo keeps the sources of packages.
#[expect(clippy::disallowed_methods, reason = "cargo's own variables, not our configuration")]
fn cargo_home() -> Result<PathBuf> {
    if let Ok(home) = std::env::var("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = std::env::var("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

/// Strips the binary, and keeps its debug information in a file that the stripped one names.
fn split(built: &Path, binary: &Path, symbols: &Path) -> Result<()> {
    objcopy(&["--only-keep-debug".into(), text(built)?.into(), text(symbols)?.into()])?;
    let link = format!("--add-gnu-debuglink={}", text(symbols)?);
    objcopy(&["--strip-all".into(), link, text(built)?.into(), text(binary)?.into()])
}

/// Runs the toolchain's own `objcopy`, which lies beside the library that it needs.
fn objcopy(arguments: &[String]) -> Result<()> {
    let sysroot = PathBuf::from(shell::output("rustc", &["--print", "sysroot"])?.trim());
    let tool = sysroot.join("lib/rustlib").join(dist::host()?).join("bin/rust-objcopy");
    let status = Command::new(&tool)
        .args(arguments)
        .env("LD_LIBRARY_PATH", sysroot.join("lib"))
        .status()
        .with_context(|| format!("`{}` could not be started", tool.display()))?;
    anyhow::ensure!(status.success(), "`{} {}` failed", tool.display(), arguments.join(" "));
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path `{}` is not text", path.display()))
}

//! Builds for production: the compiler is told what a load makes hot.
//!
//! First a gateway is built that counts what it runs, and put under the load of `cargo xtask bench gateway`, bare proxy
//! included. Then what is wanted is built with those counts, for the compiler to lay out the common path by
//! (rustc book, "Profile-guided Optimization"). Only what the load has run is told: what it never reaches, the
//! engine foremost, would else be taken for rare, and be made small instead of fast.
//!
//! **Invariant:** counts are used for the code that was counted: they are named after the binary that
//! made them, and both are built from the same packages with the same features.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask dist\n  cargo xtask dist --features kubernetes")]
pub(crate) struct Arguments {
    /// Optional features of the binary, with commas between: kubernetes
    #[arg(long, default_value = "")]
    features: String,
}

/// The program of the benches.
pub(crate) const BENCHES: &str = "overdraft-bench";
/// The bench whose load is counted.
pub(crate) const LOAD: &str = "gateway";

/// Builds `overdraft` and says where it is.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = build("overdraft", &arguments.features)?;
    println!("{}", binary.display());
    Ok(())
}

/// Builds a binary of `overdraft` or its benches, with counts where they can be had; where it is.
pub(crate) fn build(binary: &str, features: &str) -> Result<PathBuf> {
    let host = host()?;
    let build = Build { host: &host, features };
    match profdata() {
        Ok(profdata) => {
            let counts = build.counts(&profdata)?;
            build.cargo(binary, &shell::target(), &format!("-Cprofile-use={}", counts.display()))
        }
        Err(why) => {
            eprintln!("note: built without counts of what is hot, so it will be slower: {why:#}");
            build.cargo(binary, &shell::target(), "")
        }
    }
}

/// The machine that the compiler builds for.
pub(crate) fn host() -> Result<String> {
    let compiler = shell::output("rustc", &["--version", "--verbose"])?;
    let host = compiler.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// What two builds have in common.
struct Build<'a> {
    /// Named explicitly, so that flags do not reach build scripts.
    host: &'a str,
    features: &'a str,
}

impl Build<'_> {
    fn cargo(&self, binary: &str, target: &Path, flag: &str) -> Result<PathBuf> {
        let target_text = target.to_str().context("the target folder's path is not text")?;
        let features = self.features.split(',').filter(|name| !name.is_empty());
        let features: Vec<String> = features.map(|name| format!("overdraft/{name}")).collect();
        shell::cargo_with(
            &[
                "build",
                "--profile=dist",
                "--locked",
                // Both, always: what they need of a library is compiled in together.
                "--package=overdraft",
                "--package=overdraft-benches",
                &format!("--features={}", features.join(",")),
                &format!("--target={}", self.host),
                &format!("--target-dir={target_text}"),
                &format!("--bin={binary}"),
            ],
            &[(FLAGS, &with_own_flags(flag))],
        )?;
        Ok(target.join(self.host).join("dist").join(binary))
    }

    /// The counts of today's code, made unless they are there.
    fn counts(&self, profdata: &Path) -> Result<PathBuf> {
        let folder = shell::target().join("counting");
        let raw = folder.join("raw");
        let binary =
            self.cargo(BENCHES, &folder, &format!("-Cprofile-generate={}", raw.display()))?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&binary)?);
        // Cargo notices other flags, not another file of the same name.
        let counts = folder.join(format!("{:016x}.profdata", hasher.finish()));
        if counts.exists() {
            return Ok(counts);
        }
        if raw.exists() {
            fs::remove_dir_all(&raw)?;
        }
        eprintln!("$ {BENCHES} {LOAD} train");
        let trained = Command::new(&binary)
            .args([LOAD, "train"])
            .env("LLVM_PROFILE_FILE", raw.join("%p.profraw"))
            .status()
            .with_context(|| format!("`{}` could not be started", binary.display()))?;
        anyhow::ensure!(trained.success(), "`{BENCHES} {LOAD} train` failed");
        let unfinished = raw.with_extension("profdata");
        let merged = Command::new(profdata)
            .args(["merge", "--sparse", "--output"])
            .args([&unfinished, &raw])
            .status()
            .with_context(|| format!("`{}` could not be started", profdata.display()))?;
        anyhow::ensure!(merged.success(), "`{}` failed", profdata.display());
        fs::rename(unfinished, &counts)?;
        Ok(counts)
    }
}

/// The toolchain's own tool for counts, for it must know the compiler's form of them.
fn profdata() -> Result<PathBuf> {
    const COMPONENT: [&str; 3] = ["component", "add", "llvm-tools"];
    let libraries = shell::output("rustc", &["--print", "target-libdir"])?;
    let tool = Path::new(libraries.trim()).with_file_name("bin").join("llvm-profdata");
    if !tool.exists() {
        eprintln!("$ rustup {}", COMPONENT.join(" "));
        let added = Command::new("rustup").args(COMPONENT).current_dir(shell::root()).status();
        anyhow::ensure!(
            added.is_ok_and(|added| added.success()) && tool.exists(),
            "`{}` is not there; `rustup component add llvm-tools` brings it",
            tool.display()
        );
    }
    Ok(tool)
}

/// Cargo's variable for flags that may hold spaces, as a path may; where it is set `RUSTFLAGS` is not heeded.
pub(crate) const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
/// What stands between them.
pub(crate) const BETWEEN_FLAGS: &str = "\x1f";

/// The flags that builds are given from outside, and this one unless it is empty.
#[expect(clippy::disallowed_methods, reason = "cargo's own variables, not our configuration")]
fn with_own_flags(flag: &str) -> String {
    let plain = || {
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        given.split_whitespace().collect::<Vec<_>>().join(BETWEEN_FLAGS)
    };
    let given = std::env::var(FLAGS).unwrap_or_else(|_| plain());
    let flags = [given.as_str(), flag];
    flags.into_iter().filter(|flags| !flags.is_empty()).collect::<Vec<_>>().join(BETWEEN_FLAGS)
}

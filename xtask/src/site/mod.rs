//! Static site: the pages under docs/, put together by `mdBook`.
//!
//! Tidy holds the table of contents, `docs/SUMMARY.md`, to the pages that there are.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Builds `target/site` from `book.toml`.
pub(crate) fn run() -> Result<()> {
    let built = Command::new("mdbook")
        .arg("build")
        .current_dir(shell::root())
        .status()
        .context("`mdbook` was not found; `cargo install mdbook` installs it")?;
    if !built.success() {
        bail!("`mdbook build` ended with {built}");
    }
    Ok(())
}

//! Static site: the documentation and the pages that it links to, put together by `mdBook`.
//!
//! The pages keep their places of the repository, so that their links hold; what they link to beside pages is copied
//! along ([`source`]). Tidy holds the table of contents, `docs/SUMMARY.md`, to the pages that there are, and every link
//! of the site is followed once it is built ([`links`]).

mod links;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The release that builds the site; installed into the target folder where there is none.
const MDBOOK: &str = "0.5.4";

/// Builds the site from `book.toml` into the target folder, and follows its links.
pub(crate) fn run() -> Result<()> {
    let (from, to) = (shell::target().join("site-source"), shell::target().join("site"));
    source::gather(&shell::root(), &from)?;
    let program = mdbook()?;
    let built = Command::new(&program)
        .args(["build", "--dest-dir"])
        .arg(&to)
        .env("MDBOOK_BOOK__SRC", &from)
        .current_dir(shell::root())
        .status()
        .with_context(|| format!("`{}` could not be started", program.display()))?;
    if !built.success() {
        bail!("`mdbook build` ended with {built}");
    }
    let faults = links::faults(&to)?;
    for fault in &faults {
        eprintln!("site: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} links of the site lead nowhere", faults.len());
    }
    println!("{}", to.join("index.html").display());
    Ok(())
}

/// `mdbook` of the path, else one that is installed beside what cargo builds.
fn mdbook() -> Result<PathBuf> {
    let there = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    let folder = shell::target().join("tools");
    let candidates = [PathBuf::from("mdbook"), folder.join("bin/mdbook")];
    if let Some(found) = candidates.iter().find(|program| there(program)) {
        return Ok(found.clone());
    }
    let root = folder.display().to_string();
    // What serves and watches a book is left out, and nothing is optimised: it is built for one run.
    let slim = ["--no-default-features", "--features", "search", "--debug"];
    let install = ["install", "mdbook", "--version", MDBOOK, "--locked", "--root", &root];
    shell::cargo(&[&install[..], &slim[..]].concat())?;
    Ok(folder.join("bin/mdbook"))
}

//! The generated reference: `docs/reference/cli.md` from the binary's own `--help`.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The pages of the command-line reference, in order.
const PAGES: &[&[&str]] = &[&[], &["serve"], &["worker"]];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Changes nothing; fails when the files differ from what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

/// Writes or compares the generated pages.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    shell::cargo(&["build", "--locked", "--quiet", "--package", "overdraft"])?;
    let path = shell::root().join("docs/reference/cli.md");
    let wanted = command_line()?;
    if arguments.check {
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        if found != wanted {
            bail!("docs/reference/cli.md is out of date; run `cargo xtask docs`");
        }
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, wanted).with_context(|| format!("`{}` not written", path.display()))
}

fn command_line() -> Result<String> {
    let binary = shell::target().join("debug").join("overdraft");
    let mut page = String::from(
        "# Command line\n\nWritten by `cargo xtask docs` from the binary's own `--help`.\n",
    );
    for words in PAGES {
        let shown = Command::new(&binary)
            .args(*words)
            .arg("--help")
            .env("COLUMNS", "100")
            .output()
            .with_context(|| format!("`{}` could not be started", binary.display()))?;
        let title = ["overdraft"].iter().chain(*words).copied().collect::<Vec<_>>().join(" ");
        let text = String::from_utf8_lossy(&shown.stdout);
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", text.trim_end())?;
    }
    Ok(page)
}

//! The generated reference: pages that are written from the binary, never by hand.
//!
//! `docs/reference/cli.md` from its `--help`; `docs/reference/config.schema.json` and `config.md` from
//! its `config schema`; `metrics.md` from its `config metrics`; `openapi.json` from `http.md`, which tidy compares
//! with the code; the table of faults in `docs/reliability.md` from the tests; the guide's figures from raw runs.

mod config;
mod faults;
mod figures;
mod metrics;
mod openapi;
mod plot;
pub(crate) mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tidy::HTTP_PAGE;
use crate::{shell, test};

/// The pages of the command-line reference, in order.
const PAGES: &[&[&str]] = &[
    &[],
    &["serve"],
    &["worker"],
    &["check"],
    &["explain"],
    &["tail"],
    &["cost"],
    &["top"],
    &["bench"],
    &["simulate"],
    &["calibrate"],
    &["config"],
    &["config", "schema"],
    &["config", "show"],
    &["config", "metrics"],
    &["config", "write-up"],
    &["keys"],
    &["keys", "new"],
    &["keys", "list"],
    &["keys", "revoke"],
    &["tune"],
    &["doctor"],
    &["supervise"],
    &["completions"],
    &["man"],
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Changes nothing; fails when the files differ from what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

/// Writes or compares the generated pages.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // With the tests, whose build makes the binary too: one with other features would compile half of
    // all dependencies again.
    shell::cargo(&test::command(&["--no-run"]))?;
    let schema = said(&["config", "schema"])?;
    let defaults = said(&["config", "show", "--output", "json"])?;
    let reference = config::page(&schema, &defaults)?;
    let http = std::fs::read_to_string(shell::root().join(HTTP_PAGE))?;
    let http = tables::Page::read(&http);
    let reliability = std::fs::read_to_string(shell::root().join("docs/reliability.md"))?;
    let reliability = faults::page(&shell::root(), &reliability)?;
    let mut pages = vec![
        ("docs/reference/cli.md", command_line()?),
        ("docs/reference/config.schema.json", schema),
        ("docs/reference/config.md", reference),
        ("docs/reliability.md", reliability),
        ("docs/reference/openapi.json", openapi::document(&http, env!("CARGO_PKG_VERSION"))),
        ("docs/reference/metrics.md", metrics::page(&said(&["config", "metrics"])?)),
    ];
    pages.extend(figures::all(&shell::root())?);
    let mut stale = Vec::new();
    for (name, wanted) in pages {
        let path = shell::root().join(name);
        if arguments.check {
            if std::fs::read_to_string(&path).unwrap_or_default() != wanted {
                stale.push(name);
            }
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        std::fs::write(&path, wanted).with_context(|| format!("`{name}` not written"))?;
    }
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask docs`", stale.join(", "));
    }
    Ok(())
}

fn command_line() -> Result<String> {
    let mut page = String::from(
        "# Command line\n\nWritten by `cargo xtask docs` from the binary's own `--help`.\n",
    );
    for words in PAGES {
        let text = said(&[*words, &["--help"]].concat())?;
        let title = ["overdraft"].iter().chain(*words).copied().collect::<Vec<_>>().join(" ");
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", text.trim_end())?;
    }
    Ok(page)
}

/// What the binary writes to standard output.
fn said(arguments: &[&str]) -> Result<String> {
    let binary = shell::target().join("debug").join("overdraft");
    let out = Command::new(&binary)
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .with_context(|| format!("`{}` could not be started", binary.display()))?;
    if !out.status.success() {
        bail!(
            "`overdraft {}` failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8(out.stdout)?)
}

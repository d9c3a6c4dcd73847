//! Every test there is.
//!
//! The end-to-end tests drive the real binary with the official client; they make themselves a
//! virtual environment with pinned packages under the target folder when there is none.

use anyhow::Result;

use crate::{dashboard, shell};

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Runs the workspace's tests, documentation examples included.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let filter: Vec<&str> = arguments.filter.iter().map(String::as_str).collect();
    shell::cargo(&command(&filter))?;
    match &arguments.filter {
        Some(filter) if !"dashboard".contains(filter.as_str()) => Ok(()),
        _ => dashboard::test(),
    }
}

/// What builds the tests and, with `more` arguments or none, runs them. Features that are off by
/// default are tested too, in the same build: a second one would compile half of all dependencies again.
pub(crate) fn command<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let all = ["test", "--workspace", "--features", "kubernetes", "--locked", "--quiet"];
    [&all[..], more].concat()
}

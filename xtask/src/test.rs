//! Every test there is.
//!
//! The end-to-end tests drive the real binary with the official client; they make themselves a
//! virtual environment with pinned packages under the target folder when there is none.

use anyhow::Result;

use crate::shell;

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Runs the workspace's tests, documentation examples included.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Features that are off by default are tested too, in the same build: a second one would compile
    // half of all dependencies again.
    let mut command =
        vec!["test", "--workspace", "--features", "kubernetes", "--locked", "--quiet"];
    if let Some(filter) = &arguments.filter {
        command.push(filter);
    }
    shell::cargo(&command)
}

//! `overdraft completions` and `overdraft man`: files that a package installs beside the binary,
//! made from the same definition as `--help`.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::fault::Fault;

#[derive(clap::Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(clap::Args, Debug)]
#[command(after_help = MAN)]
pub(crate) struct Man {
    /// The folder for the pages, one for each command; it must be there
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
}

const COMPLETIONS: &str = "\
Examples:
  overdraft completions bash > ~/.local/share/bash-completion/completions/overdraft
  overdraft completions zsh > \"${fpath[1]}/_overdraft\"
  overdraft completions fish > ~/.config/fish/completions/overdraft.fish";

const MAN: &str = "\
Examples:
  overdraft man --out ~/.local/share/man/man1
  man overdraft-serve";

/// Prints a completion script.
pub(crate) fn completions(arguments: &Completions) -> Result<(), Fault> {
    // Not straight to standard output: the generator panics where nobody reads any more.
    let mut script: Vec<u8> = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "overdraft", &mut script);
    crate::config::print(&String::from_utf8_lossy(&script))
}

/// Writes the manual's pages.
pub(crate) fn man(arguments: &Man) -> Result<(), Fault> {
    clap_mangen::generate_to(command(), &arguments.out).map_err(|error| {
        Fault::input(format!("`{}` cannot be written to: {error}", arguments.out.display()))
            .hint("name a folder that is there with `--out`")
    })
}

fn command() -> Command {
    crate::Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of a help text.
    const COLUMNS_MAX: usize = 100;

    #[test]
    fn every_help_has_examples_that_fit_into_its_lines() {
        let mut open = vec![command()];
        while let Some(command) = open.pop() {
            let name = command.get_name();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n"), "`{name}` has no examples");
            let long = after.lines().find(|line| COLUMNS_MAX < line.chars().count());
            assert_eq!(long, None, "a line of the help of `{name}` is too long");
            open.extend(command.get_subcommands().cloned());
        }
    }
}

//! Log flags: level and format of the log on standard error.

use std::io::IsTerminal;

use overdraft_telemetry::logging::{self, Colour, LogFormat, LogSettings};

use crate::fault::Fault;

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogOptions {
    /// What to log: a level, or directives such as `warn,overdraft_gateway=debug`
    #[arg(long, default_value = "info", value_name = "FILTER")]
    log_level: String,
    /// How a line looks
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

impl LogOptions {
    /// Whether lines are JSON, each of them, so that nothing else may stand between them.
    pub(crate) const fn is_json(&self) -> bool {
        matches!(self.log_format, Format::Json)
    }

    /// Installs the subscriber, once per process.
    pub(crate) fn install(&self) -> Result<(), Fault> {
        let format = match self.log_format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        };
        let shown = std::io::stderr().is_terminal() && !no_color();
        let colour = if shown { Colour::Always } else { Colour::Never };
        logging::install(&LogSettings { format, filter: self.log_level.clone(), colour })
            .map_err(|error| Fault::input(error.to_string()))
    }
}

/// The convention of <https://no-color.org>.
#[expect(clippy::disallowed_methods, reason = "a convention between terminals and programs")]
fn no_color() -> bool {
    std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty())
}

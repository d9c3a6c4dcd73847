//! Logging: log lines to standard error, as text or as JSON.
//!
//! The subscriber is process-wide; only a binary installs one, once.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::plain::PlainFields;

/// What targets of this program's lines begin with.
const TARGETS: [&str; 3] = ["access", "audit", "overdraft"];

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// What to log and how.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Text or JSON.
    pub format: LogFormat,
    /// Directives such as `info` or `warn,access=info`.
    pub filter: String,
    /// Colours in text.
    pub colour: Colour,
}

/// Whether text lines are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI colours.
    Always,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned(), colour: Colour::Never }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter cannot be read.
    #[error(
        "`{filter}` is not a log filter; expected directives as in `info` or `warn,access=info`"
    )]
    Filter {
        /// What was given.
        filter: String,
    },
    /// A word of it alone is no level: the library would take it for a target, and switch off the rest of the log.
    #[error(
        "`{word}` is no level of the log; expected `off`, `error`, `warn`, `info`, `debug` or `trace`, \
         or a target with one, as in `{word}=debug`"
    )]
    Level {
        /// The word.
        word: String,
    },
    /// Another subscriber was installed before.
    #[error("logging is already set up in this process; install it once, from the binary")]
    Installed,
}

/// Sends log lines of the whole process to standard error.
pub fn install(settings: &LogSettings) -> Result<(), LogError> {
    let subscriber = subscriber(settings, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Installed)
}

/// The subscriber itself, for one that writes elsewhere.
pub fn subscriber<W>(
    settings: &LogSettings,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    if let Some(word) = mistyped(&settings.filter) {
        return Err(LogError::Level { word: word.to_owned() });
    }
    // The library takes a blank after a comma for a part of the name.
    let words: Vec<&str> = settings.filter.split(',').map(str::trim).collect();
    let filter = EnvFilter::try_new(words.join(","))
        .map_err(|_| LogError::Filter { filter: settings.filter.clone() })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(settings.colour == Colour::Always);
    Ok(match (settings.format, settings.colour) {
        (LogFormat::Text, Colour::Always) => Box::new(builder.finish()),
        (LogFormat::Text, Colour::Never) => Box::new(builder.fmt_fields(PlainFields).finish()),
        (LogFormat::Json, _) => Box::new(builder.json().flatten_event(true).finish()),
    })
}

/// The first word of a filter that stands alone and is neither a level nor a target of this program.
fn mistyped(filter: &str) -> Option<&str> {
    let is_known = |word: &str| {
        word.parse::<LevelFilter>().is_ok() || TARGETS.iter().any(|begin| word.starts_with(begin))
    };
    let mut words = filter.split(',').map(str::trim);
    words.find(|word| !word.is_empty() && !word.contains(['=', '[']) && !is_known(word))
}

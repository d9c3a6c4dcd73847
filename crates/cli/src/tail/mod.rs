//! `overdraft tail`: requests as they end, of a running gateway or of an access log, those that match.

mod expression;
mod record;
mod source;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, Write};
use std::path::PathBuf;

use self::expression::Expression;
pub(crate) use self::record::Record;
use self::source::{Lines, follow_views};
use crate::fault::Fault;
use crate::url_option::UrlOption;
use crate::view_client::ViewClient;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The gateway whose requests are shown as they end
    #[arg(default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    #[command(flatten)]
    url_option: UrlOption,
    /// Only requests of which this is true, as in `ttft > 2s and worker = w3`
    #[arg(long = "where", short = 'w', value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Reads an access log of `serve --log-format json` instead; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "url_flag"])]
    log: Option<PathBuf>,
    /// Waits for more lines at the end of the access log
    #[arg(long, short, requires = "log")]
    follow: bool,
    /// Prints what the gateway still knows and ends
    #[arg(long, conflicts_with = "log")]
    once: bool,
    /// How a request is printed
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    output: Format,
    /// The gateway's `admin.token`, where it has one
    #[arg(long, env = "OVERDRAFT_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    /// A JSON object a line, as the gateway has it
    Json,
}

const EXAMPLES: &str = "\
Examples:
  overdraft tail                                          # every request as it ends
  overdraft tail --where 'ttft > 2s and worker = w3'
  overdraft tail http://gateway:8080 --where 'status >= 500 or end ~ S' --output json
  overdraft tail --log access.jsonl --where 'tenant = acme and (cost > 0.01 or not cached)'
  overdraft tail --log access.jsonl --follow --where 'queued > 500ms'

Fields that are text (`=`, `!=`, `~` contains): id, route, model, tenant, priority, worker, end,
served_by, cache, refused, resumed_by, trace. Times (`200ms`, `2s`): ttft, total, queued. Numbers
(`4k`): status, prompt, cached, out, attempts. Dollars: cost. `true` or `false`: stream. A field
alone asks whether there is one. Expressions: `and`, `or`, `not`, parentheses; values with blanks
stand in quotes. `overdraft explain ID` tells why a request went to its worker.
Exit codes: 0 done, 1 the gateway cannot be asked, 2 the expression or the file cannot be used.";

/// Which requests are printed, and how.
struct Printer {
    filter: Option<Expression>,
    output: Format,
}

/// Whether somebody still reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Prints until there is no more, or nobody reads it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let filter = arguments.filter.as_deref().map(|text| {
        Expression::parse(text).map_err(|fault| {
            Fault::input(fault.shown(text)).hint("`overdraft tail --help` lists fields and signs")
        })
    });
    let printer = Printer { filter: filter.transpose()?, output: arguments.output };
    if let Some(file) = &arguments.log {
        let lines = Lines::open(file, arguments.follow)?;
        let printing = lines.each(|line| match Record::of_line(line) {
            Some(record) => printer.print(&record),
            None => Ok(Reader::There),
        });
        return crate::runtime::runtime()?.block_on(printing);
    }
    let url = arguments.url_option.or(&arguments.url);
    let client = ViewClient::new(url, arguments.token.as_deref())?;
    let watching =
        follow_views(&client, url, arguments.once, |row| printer.print(&Record::of_view(row)));
    crate::runtime::runtime()?.block_on(watching)
}

impl Printer {
    fn print(&self, record: &Record) -> io::Result<Reader> {
        if self.filter.as_ref().is_some_and(|filter| !filter.takes(record)) {
            return Ok(Reader::There);
        }
        let line = match self.output {
            Format::Text => record.line(),
            Format::Json => record.json(),
        };
        match writeln!(io::stdout(), "{line}") {
            Ok(()) => Ok(Reader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(error),
        }
    }
}

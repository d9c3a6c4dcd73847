//! Sources of requests: lines of an access log, and the view of a running gateway.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Reader;
use crate::fault::Fault;
use crate::gateway_error::GatewayError;
use crate::view_client::ViewClient;

/// How often a file or a gateway is looked at again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of a line at most; what is longer is no access line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Requests of a page: as many as a gateway lists at most.
const ROWS: usize = 1_000;

/// The view that is asked for.
const VIEW: &str = "requests";

/// Times that a gateway may fail to answer in a row.
const FAILURES_MAX: u32 = 5;

/// Lines of a file, to its end or beyond.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    /// The file that the reader reads, where it has a length.
    file: Option<File>,
    name: String,
    follows: bool,
}

impl Lines {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(file: &Path, follows: bool) -> Result<Self, Fault> {
        let name = file.display().to_string();
        if name == "-" {
            let reader = Box::new(BufReader::new(io::stdin()));
            return Ok(Self { reader, file: None, name, follows });
        }
        let opened = File::open(file).and_then(|file| {
            let is_file = file.metadata()?.is_file();
            Ok((file.try_clone()?, is_file.then_some(file)))
        });
        let (read, file) = opened.map_err(|error| Fault::input(format!("`{name}`: {error}")))?;
        Ok(Self { reader: Box::new(BufReader::new(read)), file, name, follows })
    }

    /// Goes back to the beginning of a file that is shorter than what was read of it, as `logrotate` leaves it with
    /// `copytruncate`; whether it was. All that was read has been handed on, so the reader holds nothing.
    fn rewind(&self) -> io::Result<bool> {
        let Some(mut file) = self.file.as_ref() else { return Ok(false) };
        let is_shorter = file.metadata()?.len() < file.stream_position()?;
        if is_shorter {
            file.rewind()?;
        }
        Ok(is_shorter)
    }

    /// Hands each line to `take` until nobody wants more.
    pub(super) async fn each(
        mut self,
        mut take: impl FnMut(&str) -> io::Result<Reader>,
    ) -> Result<(), Fault> {
        let failed = |name: &str, error: &io::Error| Fault::running(format!("`{name}`: {error}"));
        let mut line = Vec::new();
        loop {
            let read = read_line(&mut self.reader, &mut line);
            let is_whole = read.map_err(|error| failed(&self.name, &error))?;
            if is_whole || !self.follows {
                let is_end = line.is_empty();
                let text = String::from_utf8_lossy(&line);
                let reader = take(text.trim_end()).map_err(|error| failed(&self.name, &error))?;
                if reader == Reader::Gone || is_end || !is_whole {
                    return Ok(());
                }
                line.clear();
            } else if self.rewind().map_err(|error| failed(&self.name, &error))? {
                line.clear();
            } else {
                // A line that is being written, or none: what has been read of it is kept.
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }
}

/// Reads to the end of a line, or of what there is; whether the line ended. What is beyond the bound is left out.
fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let there = reader.fill_buf()?;
        if there.is_empty() {
            return Ok(false);
        }
        let end = there.iter().position(|byte| *byte == b'\n');
        let part = end.map_or(there.len(), |end| end + 1);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&there[..part.min(room)]);
        reader.consume(part);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Hands each request that has ended to `take`: those still known first, then those that end from now on. What the
/// gateway forgot before it was asked for is told as missed.
///
/// # Errors
/// Says why the gateway cannot be asked.
pub(super) async fn follow_views(
    client: &ViewClient,
    url: &str,
    once: bool,
    mut take: impl FnMut(&Value) -> io::Result<Reader>,
) -> Result<(), Fault> {
    let mut after: Option<u64> = None;
    let mut failures = 0;
    loop {
        let from = after.unwrap_or(0);
        let query = format!("{VIEW}?limit={ROWS}&order=oldest&after={from}");
        let view: Value = match client.view(&query).await {
            Ok(view) => view,
            // A gateway that restarts is back in a moment; one that never answered is not there.
            Err(_) if after.is_some() && failures < FAILURES_MAX => {
                failures += 1;
                tokio::time::sleep(INTERVAL).await;
                continue;
            }
            Err(error) => return Err(error.fault(url)),
        };
        failures = 0;
        let Some(next) = view["next"].as_u64() else {
            let why = "expected a number as `next`".to_owned();
            return Err(GatewayError::unreadable(&format!("/admin/views/{VIEW}"), why).fault(url));
        };
        if next < from {
            // Another process answers now, and counts from 0.
            after = Some(0);
            continue;
        }
        let rows = view["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let first = rows.first().and_then(|row| row["number"].as_u64());
        if let (Some(after), Some(first)) = (after, first) {
            tell_missed(first.saturating_sub(after));
        }
        for row in rows {
            let taken = take(row).map_err(|error| {
                Fault::running(format!("the requests cannot be printed: {error}"))
            });
            if taken? == Reader::Gone {
                return Ok(());
            }
        }
        after = Some(next);
        let is_last_page = view["left_out"].as_u64().unwrap_or(0) == 0;
        if is_last_page && once {
            return Ok(());
        }
        if is_last_page {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

#[expect(clippy::print_stderr, reason = "what is not printed is for the person at the terminal")]
fn tell_missed(count: u64) {
    if 0 < count {
        eprintln!(
            "warning: {count} requests ended and were forgotten before they could be asked for; raise \
             `dashboard.requests` of the gateway"
        );
    }
}

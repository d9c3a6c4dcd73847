//! Audit log: who changed what at `/admin`, and who was turned away there.
//!
//! Each call that changes something writes one record, whatever comes of it: to the log under the target `audit`, and
//! where `admin.audit_log` names a file, as a line of JSON at its end. The file is opened before the action. Where that
//! fails, the action is refused: nobody changes anything that cannot be told. Refusals are recorded too, within a bound.
//!
//! Invariant: a record holds no token, no key and no body; each text in it is bounded.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::request::Parts;
use http::{Response, StatusCode};
use overdraft_http::{Body, Exchange, presents, reply};
use overdraft_telemetry::calendar_time;
use overdraft_units::{Instant, Micros};
use overdraft_wire::ApiError;
use serde::Serialize;

use super::Gateway;

/// Characters of a text in a record at most.
const TEXT_CHARS_MAX: usize = 256;

/// Refused calls that are recorded in a minute at most; how many were left out is told with the next one.
const REFUSALS_MAX: u32 = 60;

const MINUTE: Micros = Micros::new(60_000_000);

/// Who is told where nobody presented a key.
const NOBODY: &str = "none";

/// What the audit log remembers.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    refusals: Mutex<Refusals>,
}

impl Audit {
    /// Whether one more refusal is recorded, and how many before it were not.
    fn admit(&self, now: Instant) -> Option<u64> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).admit(now)
    }
}

/// The refusals of the last minute.
#[derive(Debug, Default)]
struct Refusals {
    begun: Option<Instant>,
    recorded: u32,
    left_out: u64,
}

impl Refusals {
    /// Whether one more is recorded at `now`, and how many before it were not.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.begun.is_none_or(|begun| MINUTE <= now.since(begun)) {
            (self.begun, self.recorded) = (Some(now), 0);
        }
        if REFUSALS_MAX <= self.recorded {
            self.left_out += 1;
            return None;
        }
        self.recorded += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// One line of the log.
#[derive(Clone, Debug, Serialize)]
struct Record {
    time: String,
    action: &'static str,
    /// What it was done to.
    subject: String,
    /// `done`, `refused`, `failed`, or `abandoned` where who asked has gone before the end.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    status: u16,
    remote: SocketAddr,
    /// `admin.token`, the tenant of a client's key, or `none`.
    key: String,
    request: String,
    /// Refusals that were not recorded.
    #[serde(skip_serializing_if = "is_none")]
    left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Record {
    fn new(
        gateway: &Gateway,
        exchange: &Exchange,
        head: &Parts,
        action: &'static str,
        subject: &str,
    ) -> Self {
        let settings = gateway.settings.settings();
        let token = settings.admin.token.as_deref();
        let key = if token.is_some_and(|token| presents(token, &head.headers)) {
            "admin.token".to_owned()
        } else {
            let label = gateway.pipeline.label_of(&head.headers);
            label.map_or_else(|| NOBODY.to_owned(), |label| clipped(&label))
        };
        Self {
            time: calendar_time().to_string(),
            action,
            subject: clipped(subject),
            outcome: "done",
            reason: None,
            status: 200,
            remote: exchange.peer,
            key,
            request: clipped(exchange.id.as_str()),
            left_out: 0,
        }
    }

    /// The same with what came of the call.
    fn answered(self, status: StatusCode) -> Self {
        let outcome = match status.as_u16() {
            0..400 => "done",
            400..500 => "refused",
            _ => "failed",
        };
        Self { outcome, status: status.as_u16(), ..self }
    }

    /// Writes it to the log, and at the end of its file.
    async fn write(self, file: Option<File>) {
        self.log();
        let Some(file) = file else { return };
        let written = tokio::task::spawn_blocking(move || self.append(file)).await;
        if let Ok(Err(error)) = written {
            is_missing(&error);
        }
    }

    fn log(&self) {
        tracing::info!(
            target: "audit",
            action = self.action,
            subject = self.subject.as_str(),
            outcome = self.outcome,
            reason = self.reason,
            status = self.status,
            remote = %self.remote,
            key = self.key.as_str(),
            request = self.request.as_str(),
            left_out = self.left_out,
            "an operator's call"
        );
    }

    /// Writes it in one piece, so that lines of several processes do not mix.
    fn append(&self, mut file: File) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(self).expect("it has string keys");
        line.push(b'\n');
        file.write_all(&line)
    }
}

fn is_missing(error: &std::io::Error) {
    tracing::error!(%error, "the record of an operator's call is missing in `admin.audit_log`");
}

/// A call that is under way. Its record is written even where whoever made it goes away meanwhile.
struct Pending {
    record: Option<Record>,
    file: Option<File>,
}

impl Pending {
    async fn answered(mut self, status: StatusCode) {
        if let Some(record) = self.record.take() {
            record.answered(status).write(self.file.take()).await;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let record = Record { outcome: "abandoned", status: 0, ..record };
        record.log();
        // A short line, and nobody is left who could await it.
        if let Some(Err(error)) = self.file.take().map(|file| record.append(file)) {
            is_missing(&error);
        }
    }
}

/// Does what changes something, and records it.
pub(super) async fn audited(
    gateway: &Gateway,
    exchange: &Exchange,
    head: &Parts,
    action: &'static str,
    subject: &str,
    act: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    let record = Record::new(gateway, exchange, head, action, subject);
    let file = match file(gateway).await {
        Ok(file) => file,
        Err(error) => {
            let why =
                format!("{error}; nothing was done. Correct `admin.audit_log`, or leave it out");
            tracing::error!(action, "an operator's call was refused: {why}");
            let response = reply::error(&ApiError::server_error(why));
            let reason = Some("the audit log cannot be opened");
            Record { reason, ..record.answered(response.status()) }.write(None).await;
            return response;
        }
    };
    let pending = Pending { record: Some(record), file };
    let response = act.await;
    pending.answered(response.status()).await;
    response
}

/// Records a call that was turned away with `status`.
pub(super) async fn turned_away(
    gateway: &Gateway,
    exchange: &Exchange,
    head: &Parts,
    reason: &'static str,
    status: u16,
) {
    let now = gateway.dispatcher.clock.now();
    let Some(left_out) = gateway.audit.admit(now) else { return };
    let subject = format!("{} {}", head.method, head.uri.path());
    let record = Record::new(gateway, exchange, head, "call", &subject);
    let record = Record { outcome: "refused", reason: Some(reason), status, left_out, ..record };
    let file = file(gateway).await.unwrap_or_else(|error| {
        tracing::error!("a refused call is missing in the audit log: {error}");
        None
    });
    record.write(file).await;
}

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit log `{}` cannot be opened: {source}", path.display())]
struct AuditFileError {
    path: PathBuf,
    source: std::io::Error,
}

/// The file that records go to, if any does; opened each time, so that it may be moved away.
async fn file(gateway: &Gateway) -> Result<Option<File>, AuditFileError> {
    let Some(path) = gateway.settings.settings().admin.audit_log.clone() else { return Ok(None) };
    let place = path.clone();
    let opened = tokio::task::spawn_blocking(move || open(&place)).await;
    let opened = opened.unwrap_or_else(|gone| Err(std::io::Error::other(gone)));
    opened.map(Some).map_err(|source| AuditFileError { path, source })
}

/// Opens the file at its end; a new one is its owner's alone.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A text of bounded length on one line.
fn clipped(text: &str) -> String {
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(TEXT_CHARS_MAX).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_bounded_by_the_minute_and_those_left_out_are_told() {
        let mut refusals = Refusals::default();
        let at = |seconds: u64| Instant::ORIGIN + Micros::new(seconds * 1_000_000);
        for _ in 0..REFUSALS_MAX {
            assert_eq!(refusals.admit(at(1)), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(refusals.admit(at(60)), None);
        }
        assert_eq!(refusals.admit(at(61)), Some(5));
        assert_eq!(refusals.admit(at(62)), Some(0));
    }

    #[test]
    fn texts_are_short_and_on_one_line() {
        assert_eq!(clipped("a\r\nb"), "a  b");
        assert_eq!(clipped(&"é".repeat(1_000)).chars().count(), TEXT_CHARS_MAX);
    }
}

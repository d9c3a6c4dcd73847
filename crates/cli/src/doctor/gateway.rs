//! Gateway section: what a running gateway says of itself, its fleet and its store.

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;

use super::section::Section;
use crate::ask::{self, Address, AskError, Want};
use crate::gateway_error::GatewayError;
use crate::view_client::TOKEN_HEADER;

/// Maximum bytes of an answer: the view of 10,000 workers has room.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Workers that have a line each; JSON has all.
const WORKERS_MAX: usize = 32;

/// What is asked, and its key in JSON.
const QUESTIONS: [(&str, &str); 5] = [
    ("version", "/version"),
    ("ready", "/readyz"),
    ("healthy", "/healthz"),
    ("now", "/admin/views/now"),
    ("fleet", "/admin/views/fleet"),
];

type Answer = Result<(StatusCode, Bytes), AskError>;

/// Where no address is known.
pub(super) fn unknown() -> Section {
    let mut section = Section::new("gateway");
    let why = "not known: the configuration cannot be read; give its address as `http://HOST:PORT`";
    section.fact("running", why);
    section
}

/// Asks the gateway at `address`.
pub(super) async fn section(address: Address, token: Option<&str>) -> Section {
    let mut section = Section::new("gateway");
    let Address { host, port, .. } = &address;
    section.fact("address", &format!("{host} port {port}"));
    if *port == 0 {
        let why = "not known: it takes a free port; give its address as `http://127.0.0.1:PORT`";
        section.line("running", why);
        return section;
    }
    let of = |path| get(&address, path, token);
    let [version, ready, healthy, now, fleet] = QUESTIONS.map(|(_, path)| of(path));
    let answers: [Answer; 5] = tokio::join!(version, ready, healthy, now, fleet).into();
    if let Err(error @ AskError::Unreachable(_)) = &answers[0] {
        let error = GatewayError::from(error.clone());
        section.fact("running", &format!("no: {error}"));
        section.line("hint", error.hint());
        return section;
    }
    let mut hint = None;
    for ((key, path), answer) in QUESTIONS.into_iter().zip(answers) {
        match read(path, answer) {
            Ok(view) => section.set(key, view),
            Err(error) => {
                section.line(key, error.to_string());
                section.set(&format!("{key}_error"), format!("{path}: {error}"));
                // A gateway that is not well is one all the same.
                let is_probe = matches!(key, "ready" | "healthy");
                hint = hint.or_else(|| (!is_probe).then(|| error.hint()));
            }
        }
    }
    told(&mut section);
    if let Some(hint) = hint {
        section.line("hint", hint);
    }
    section
}

async fn get(address: &Address, path: &str, token: Option<&str>) -> Answer {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header(TOKEN_HEADER, token);
    }
    ask::ask(address, request, Bytes::new(), Want::Body(ANSWER_BYTES_MAX)).await
}

/// JSON, or why there is none.
fn read(path: &str, answer: Answer) -> Result<Value, GatewayError> {
    let (status, body) = answer?;
    if status != StatusCode::OK {
        return Err(GatewayError::refused(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| GatewayError::unreadable(path, error.to_string()))
}

/// The version of a server, and whether it is one of ours.
fn version_of(answer: &Value) -> String {
    let version = answer["version"].as_str().unwrap_or("none");
    match answer["server"].as_str() {
        Some("overdraft") => version.to_owned(),
        _ => format!("{version}, of something else than overdraft; expected a gateway"),
    }
}

/// The lines for people, of what is there.
fn told(section: &mut Section) {
    let view = section.view.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for key in ["version", "ready", "healthy"] {
        match &view[key] {
            Value::Null => {}
            answer if key == "version" => section.line(key, version_of(answer)),
            answer => section.line(key, answer.to_string()),
        }
    }
    for one in view["now"]["conditions"].as_array().into_iter().flatten() {
        let line = format!("{}; {}", text(&one["text"]), text(&one["remedy"]));
        section.line(text(&one["severity"]), line);
    }
    let fleet = &view["fleet"];
    if fleet.is_null() {
        return;
    }
    let store = &fleet["store"];
    let state = if store["degraded"] == true { "degraded" } else { "good" };
    section.line("store", format!("{}, {state}", text(&store["place"])));
    for source in fleet["sources"].as_array().into_iter().flatten() {
        let state = source["error"].as_str().unwrap_or("good");
        section.line("source", format!("{}: {state}", text(&source["name"])));
    }
    let workers = fleet["workers"].as_array().map_or(&[][..], Vec::as_slice);
    for worker in workers.iter().take(WORKERS_MAX) {
        let models = worker["models"].as_array().into_iter().flatten().map(text);
        let line = format!(
            "{}, breaker {}, {} requests, prefixes {}; {} at {}",
            text(&worker["state"]),
            text(&worker["breaker"]),
            worker["requests"],
            text(&worker["knows"]),
            models.collect::<Vec<String>>().join(" "),
            text(&worker["url"]),
        );
        section.line(text(&worker["worker"]), line);
    }
    if let Some(more) = workers.len().checked_sub(WORKERS_MAX).filter(|more| 0 < *more) {
        section.line("workers", format!("and {more} more; `--json` lists all"));
    }
}

//! `overdraft explain ID`: why a request that has ended went where it went.
//!
//! A running gateway has the decisions about its last requests. An access log has what happened to all of them, but
//! not who else was considered.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use overdraft_dash::views::{Decision, RequestDetail};
use serde_json::Value;

use crate::decision_text::{candidate_line, sentence};
use crate::fault::Fault;
use crate::gateway_error::GatewayError;
use crate::plain_text::plain;
use crate::tail::Record;
use crate::view_client::ViewClient;

/// What a gateway knows of a request, as it has it.
///
/// # Errors
/// Where it cannot be asked, or does not know the request any more.
pub(crate) fn ask(client: &ViewClient, url: &str, id: &str) -> Result<Value, Fault> {
    let asked = crate::runtime::runtime()?.block_on(client.request::<Value>(id));
    asked.map_err(|error| error.fault(url))
}

/// The same in words.
///
/// # Errors
/// Where the answer of `url` is no request.
pub(crate) fn words(url: &str, told: Value) -> Result<String, Fault> {
    let record = Record::of_view(&told);
    let detail: RequestDetail = serde_json::from_value(told).map_err(|error| {
        GatewayError::unreadable("/admin/views/requests", error.to_string()).fault(url)
    })?;
    let mut text = record.fields();
    if let Some(why) = &detail.refusal {
        let _written = writeln!(text, "\nrefused: {}", plain(why));
    }
    if detail.decisions.is_empty() {
        text.push_str("\nno routing decision was made\n");
    }
    for decision in &detail.decisions {
        decided(&mut text, decision);
    }
    Ok(text)
}

fn decided(text: &mut String, decision: &Decision) {
    let _written = writeln!(text, "\n{}", plain(&sentence(decision)));
    for one in &decision.candidates {
        let _written = writeln!(text, "{}", plain(&candidate_line(decision, one)));
    }
    if 0 < decision.candidates_left_out {
        let left_out = decision.candidates_left_out;
        let _written = writeln!(text, "  and {left_out} more candidates with worse scores");
    }
}

/// What an access log tells of a request, the last one of that id.
///
/// # Errors
/// Where the file cannot be read or does not have it.
pub(crate) fn of_log(file: &Path, id: &str) -> Result<Record, Fault> {
    let shown = file.display();
    let failed = |error: std::io::Error| Fault::input(format!("`{shown}`: {error}"));
    let mut found = None;
    for line in BufReader::new(File::open(file).map_err(failed)?).lines() {
        let line = line.map_err(failed)?;
        // Parsing every line of a long log would take minutes.
        if line.contains(id)
            && let Some(record) = Record::of_line(&line).filter(|record| record.id() == id)
        {
            found = Some(record);
        }
    }
    found.ok_or_else(|| Fault::input(format!("`{shown}` has no request `{}`", plain(id))))
}

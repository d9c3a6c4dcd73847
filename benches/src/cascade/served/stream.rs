//! Time to first token of an accepted draft stream, and that it equals the draft's text (S4).
//!
//! Every question is put twice: to the draft's worker, as the gateway puts it, where it is seen when the first window's
//! tokens are there; and to the cascade, where it is seen when the first text comes. Which comes first changes from
//! question to question, and both find the prompt in the draft's cache.

use std::path::Path;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, percentile};
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{self, Heard};
use super::fleet::{DRAFT, Fleet, model};

/// Tokens of the first window.
const WINDOW: usize = 8;
/// Tokens of an answer at most.
const ANSWER_MAX: u32 = 96;
/// Alternatives that the gateway asks of a draft.
const RIVALS: u32 = 5;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Streams {
    /// Milliseconds until the draft had said its first window, by question.
    window_ms: Vec<f64>,
    /// Milliseconds until the client saw text.
    first_text_ms: Vec<f64>,
    /// Answers that were not the draft's.
    others: usize,
    /// Streams whose text was not what the draft says.
    changed: usize,
}

/// Asks `count` questions of all families.
pub(super) async fn ask(binary: &Path, count: usize) -> Result<Streams> {
    let settings = json!({
        "threshold": "0%",
        "window": {"first": WINDOW, "next": 2 * WINDOW},
        "shadow": {"share": "0%", "floor": "0%"},
    });
    let fleet = Fleet::start(binary, &model(DRAFT), settings).await?;
    let asked = super::single_turns(count)?;
    let mut streams =
        Streams { window_ms: Vec::new(), first_text_ms: Vec::new(), others: 0, changed: 0 };
    for (place, question) in asked.iter().enumerate() {
        // Once unseen, so that both find the prompt in the draft's cache.
        fleet.drafted(question).await?;
        let (drafted, answered) = if place.is_multiple_of(2) {
            let drafted = fleet.drafted(question).await?;
            (drafted, fleet.answered(question).await?)
        } else {
            let answered = fleet.answered(question).await?;
            (fleet.drafted(question).await?, answered)
        };
        streams.note(&drafted, &answered);
    }
    Ok(streams)
}

impl Fleet {
    /// The draft's own answer, asked for as the gateway does.
    async fn drafted(&self, question: &str) -> Result<Heard> {
        let mut body = body(DRAFT, question);
        body["logprobs"] = true.into();
        body["top_logprobs"] = RIVALS.into();
        body["return_token_ids"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        client::chat(self.draft, &body, WINDOW).await
    }

    /// The cascade's.
    async fn answered(&self, question: &str) -> Result<Heard> {
        client::chat(self.gateway, &body("chat", question), WINDOW).await
    }
}

fn body(model: &str, question: &str) -> Value {
    json!({"model": model, "stream": true, "temperature": 0, "max_tokens": ANSWER_MAX,
        "messages": [{"role": "user", "content": question}]})
}

impl Streams {
    fn note(&mut self, drafted: &Heard, answered: &Heard) {
        let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        self.window_ms.push(millis(drafted.window));
        self.first_text_ms.push(millis(answered.first_text));
        self.others += usize::from(answered.served.as_deref() != Some("draft"));
        self.changed += usize::from(answered.text != drafted.text);
    }

    pub(super) fn print(&self) {
        let of = |values: &[f64], share| percentile(values.to_vec(), share);
        println!(
            "\nreal gateway and workers, {} streams of the demo models, first window of {WINDOW} tokens, milliseconds:",
            self.window_ms.len()
        );
        println!("{:<44} {:>8} {:>8}", "", "p50", "p95");
        for (what, values) in [
            ("the draft has said its first window", &self.window_ms),
            ("the client of the cascade sees text", &self.first_text_ms),
        ] {
            println!("{what:<44} {:>8.2} {:>8.2}", of(values, 50), of(values, 95));
        }
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured, aim| Claim {
            demonstration: "S4",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let p50 = |values: &[f64]| percentile(values.to_vec(), 50);
        let over = p50(&self.first_text_ms) - p50(&self.window_ms);
        vec![
            claim("first_text_beyond_window_ms_p50", over, Aim::AtMost(20.0)),
            claim("streams_not_the_drafts", as_float(self.others), Aim::AtMost(0.0)),
            claim("streams_that_changed", as_float(self.changed), Aim::AtMost(0.0)),
        ]
    }
}

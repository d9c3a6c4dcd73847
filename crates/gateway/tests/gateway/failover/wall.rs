//! A provider that breaks on purpose: one fault for all requests, and a log of every attempt that reached it.
//!
//! Each healthy answer is the same sixty words. Where the last message is the assistant's and begins that text, the
//! rest of it is the answer, as from an engine that goes on with a message.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::mock::{Call, Mock};

/// The whole answer.
pub(crate) const ANSWER: &str = "A gateway earns its keep on the day on which a worker does not answer: \
    it asks another one, it waits where it was told to wait, it takes up a broken answer at the very word \
    where it broke off, it never calls half of an answer a whole one, and it says plainly what it could not \
    do.";

/// Words in it.
pub(crate) const WORDS: usize = 60;

/// A second of the scenarios whose times are limits that can be set: limits and faults are as much shorter.
pub(crate) const SECOND: Duration = Duration::from_millis(100);

/// What a provider does to those who ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It refuses a conversation that ends with the assistant.
    RefusesPrefill,
    /// 429 once, with `retry-after: 2`.
    RateLimitOnce,
    /// 429 for ever, without a time.
    RateLimit,
    /// 500 once.
    ErrorOnce,
    /// 503 for so long.
    Unavailable(Duration),
    /// The first connection is reset before the head.
    ResetOnce,
    /// It takes the request and says nothing.
    Silence,
    /// The head comes at once, the first token after so long.
    SlowFirstToken(Duration),
    /// The connection is closed after so many words.
    CutAfter(usize),
    /// Nothing comes after so many words, for so long; then the connection is closed.
    StallAfter(usize, Duration),
    /// Before this word comes an event that is no JSON.
    MalformedAt(usize),
    /// The last event is left out.
    NoDone,
    /// 400 for a prompt that is too long.
    ContextLength,
    /// 400 for what the prompt says.
    ContentFilter,
}

/// For ever, as far as a test goes.
pub(crate) const ALWAYS: Duration = Duration::from_hours(1);

/// One attempt that reached the provider, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) at: Instant,
    pub(crate) was_refused_prefill: bool,
    pub(crate) was_served: bool,
}

/// A provider.
pub(crate) struct Wall {
    fault: Fault,
    /// Since when it is there.
    pub(crate) up: Instant,
    log: Mutex<Vec<Attempt>>,
}

impl Wall {
    pub(crate) fn start(mock: Mock, fault: Fault) -> Arc<Self> {
        let wall = Arc::new(Self { fault, up: Instant::now(), log: Mutex::default() });
        let own = Arc::clone(&wall);
        mock.handle(move |call| {
            let wall = Arc::clone(&own);
            async move { wall.answer(call).await }
        });
        wall
    }

    /// The attempts so far.
    pub(crate) fn log(&self) -> Vec<Attempt> {
        self.log.lock().unwrap().clone()
    }

    /// Notes an attempt; whether it is the first.
    fn note(&self, was_refused_prefill: bool) -> bool {
        let mut log = self.log.lock().unwrap();
        log.push(Attempt { at: Instant::now(), was_refused_prefill, was_served: false });
        log.len() == 1
    }

    fn served(&self) {
        if let Some(last) = self.log.lock().unwrap().last_mut() {
            last.was_served = true;
        }
    }

    async fn answer(&self, call: Call) {
        let asked = call.json();
        let last = asked["messages"].as_array().and_then(|all| all.last()).cloned();
        let last = last.unwrap_or_default();
        let told = (last["role"] == "assistant").then(|| last["content"].as_str()).flatten();
        let is_refused = told.is_some() && self.fault == Fault::RefusesPrefill;
        let is_first = self.note(is_refused);
        let error = |code: &str| json!({"error": {"message": "no", "code": code}}).to_string();
        match self.fault {
            _ if is_refused => call.answer(400, &error("invalid_prefill")).await,
            Fault::RateLimitOnce if is_first => limited(call, "retry-after: 2\r\n").await,
            Fault::RateLimit => limited(call, "").await,
            Fault::ErrorOnce if is_first => call.answer(500, &error("internal")).await,
            Fault::Unavailable(time) if self.up.elapsed() < time => {
                call.answer(503, &error("overloaded")).await;
            }
            Fault::ResetOnce if is_first => call.reset(),
            Fault::Silence => call.gone().await,
            Fault::ContextLength => call.answer(400, &error("context_length_exceeded")).await,
            Fault::ContentFilter => call.answer(400, &error("content_policy_violation")).await,
            _ => {
                self.served();
                let rest = told.map(str::trim).and_then(|told| ANSWER.strip_prefix(told));
                let words = Words { asked: &asked, text: rest.unwrap_or(ANSWER) };
                words.say(call, self.fault).await;
            }
        }
    }
}

async fn limited(mut call: Call, header: &str) {
    let body = r#"{"error":{"message":"too many","code":"rate_limit_exceeded"}}"#;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 429 X\r\ncontent-type: application/json\r\n{header}content-length: {length}\r\n\r\n"
    );
    call.try_write(&format!("{head}{body}")).await;
    call.serve_on();
}

/// An answer to say.
struct Words<'a> {
    asked: &'a Value,
    text: &'a str,
}

impl Words<'_> {
    fn chunk(&self, delta: &Value, finish: Option<&str>) -> String {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk =
            json!({"id": "c", "created": 1, "model": self.asked["model"], "choices": [choice]});
        format!("data: {chunk}\n\n")
    }

    async fn say(&self, mut call: Call, fault: Fault) {
        if self.asked["stream"] != true {
            let message = json!({"role": "assistant", "content": self.text});
            let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
            let answer = json!({"id": "c", "model": self.asked["model"], "choices": [choice]});
            return call.answer(200, &answer.to_string()).await;
        }
        call.stream().await;
        if let Fault::SlowFirstToken(time) = fault {
            tokio::select! {
                () = sleep(time) => {}
                () = call.until_gone() => return,
            }
        }
        call.chunk(&self.chunk(&json!({"role": "assistant", "content": ""}), None)).await;
        // Each with the space before it, as tokens have it.
        let spaced = |(at, word): (usize, &str)| [" ", word][usize::from(at == 0)..].concat();
        let words = self.text.split(' ').enumerate().map(spaced);
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        for (number, word) in words.iter().enumerate() {
            match fault {
                Fault::CutAfter(count) if count == number => return call.close().await,
                Fault::StallAfter(count, time) if count == number => {
                    tokio::select! {
                        () = sleep(time) => {}
                        () = call.until_gone() => {}
                    }
                    return;
                }
                Fault::MalformedAt(count) if count == number => {
                    call.chunk("data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\": \n\n")
                        .await;
                }
                _ => {}
            }
            call.chunk(&self.chunk(&json!({"content": word}), None)).await;
        }
        call.chunk(&self.chunk(&json!({}), Some("stop"))).await;
        if self.asked["stream_options"]["include_usage"] == true {
            let count = words.len();
            let usage =
                json!({"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count});
            let last =
                json!({"id": "c", "model": self.asked["model"], "choices": [], "usage": usage});
            call.chunk(&format!("data: {last}\n\n")).await;
        }
        if fault != Fault::NoDone {
            call.chunk("data: [DONE]\n\n").await;
        }
        call.end().await;
    }
}

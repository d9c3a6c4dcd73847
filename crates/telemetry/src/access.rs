//! Access log: one line per request with its timing and how it ended.
//!
//! Each layer fills in what it learns of a request; the listener writes the line when the answer's
//! last byte is handed over or the client is gone. **Invariant:** one line per request, also for
//! the refused and the broken ones.
//!
//! The end code has two letters, as `HAProxy`'s: who ended it, then in which phase.
//!
//! | first | who ended it                           | second | in which phase                    |
//! |-------|----------------------------------------|--------|-----------------------------------|
//! | `-`   | nobody: it is whole                    | `-`    | after the last byte               |
//! | `C`   | the client went away                   | `R`    | reading or judging the request    |
//! | `c`   | the client stopped reading (time-out)  | `Q`    | waiting for its turn              |
//! | `S`   | the worker or engine failed            | `C`    | connecting to a worker            |
//! | `s`   | the worker was too slow (time-out)     | `H`    | before the first token            |
//! | `P`   | we refused it: it is not acceptable    | `D`    | between first and last token      |
//! | `R`   | we refused it: no room                 |        |                                   |
//! | `D`   | the drain's deadline cut it            |        |                                   |
//! | `I`   | a defect of ours                       |        |                                   |

use std::fmt;
use std::sync::Arc;

use overdraft_units::{Micros, Tokens};

/// Who ended a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ender {
    /// Nobody: the answer is whole.
    #[default]
    Nobody,
    /// The client closed its connection.
    Client,
    /// The client did not read for too long.
    ClientStalled,
    /// The worker or engine failed or refused.
    Server,
    /// The worker or engine was too slow.
    ServerStalled,
    /// We refused what it asked for.
    Policy,
    /// We had no room for it.
    Capacity,
    /// The deadline of a drain.
    Drain,
    /// A defect of ours.
    Defect,
}

impl Ender {
    /// Who may break a request off.
    const BREAKING: [Self; 8] = [
        Self::Client,
        Self::ClientStalled,
        Self::Server,
        Self::ServerStalled,
        Self::Policy,
        Self::Capacity,
        Self::Drain,
        Self::Defect,
    ];
}

/// In which phase a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The request was being read or judged.
    #[default]
    Request,
    /// It waited for its turn.
    Queue,
    /// A connection to a worker was being made.
    Connect,
    /// The first token was awaited.
    FirstToken,
    /// Tokens were flowing.
    Data,
    /// Nothing was left to do.
    Complete,
}

impl Phase {
    /// Those in which a request may break off.
    const UNFINISHED: [Self; 5] =
        [Self::Request, Self::Queue, Self::Connect, Self::FirstToken, Self::Data];
}

/// Who ended a request and when: prints as two letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCode {
    /// Who.
    pub ender: Ender,
    /// When.
    pub phase: Phase,
}

impl EndCode {
    /// A whole answer.
    pub const WHOLE: Self = Self { ender: Ender::Nobody, phase: Phase::Complete };

    /// Every end there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let broken = Ender::BREAKING.into_iter().flat_map(|ender| {
            Phase::UNFINISHED.into_iter().map(move |phase| Self { ender, phase })
        });
        std::iter::once(Self::WHOLE).chain(broken)
    }
}

impl fmt::Display for EndCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.ender {
            Ender::Nobody => '-',
            Ender::Client => 'C',
            Ender::ClientStalled => 'c',
            Ender::Server => 'S',
            Ender::ServerStalled => 's',
            Ender::Policy => 'P',
            Ender::Capacity => 'R',
            Ender::Drain => 'D',
            Ender::Defect => 'I',
        };
        let when = match self.phase {
            Phase::Request => 'R',
            Phase::Queue => 'Q',
            Phase::Connect => 'C',
            Phase::FirstToken => 'H',
            Phase::Data => 'D',
            Phase::Complete => '-',
        };
        write!(f, "{who}{when}")
    }
}

/// Whether tokens went out as they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// One answer.
    #[default]
    Whole,
    /// Server-sent events.
    Streamed,
}

/// Who wants to read about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The operator of the server.
    #[default]
    Operator,
    /// Nobody unless something is being looked for: probes and scrapes come every second.
    Debugger,
}

/// Which server of a process writes the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessWriter {
    /// The one that clients ask; the line's target is `access`.
    #[default]
    Front,
    /// A worker inside a gateway's process; its target is `access_worker`. The gateway's line tells of the same request,
    /// so who adds lines up would count it twice.
    Inner,
}

/// A limit of time that was passed, or that clearly would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedLimit {
    /// Which: `first_token`, `stall`, `total` or `standstill` of an attempt; the request's `deadline`, or `predicted`
    /// where it clearly could not be made.
    pub name: &'static str,
    /// How long it was.
    pub after: Micros,
    /// What it rested on: `set`, `least`, `measured`, `assumed`; of a deadline `header` or `key`.
    pub basis: &'static str,
}

/// What the access line says; fields nobody filled in are left out of it.
#[derive(Clone, Debug, Default)]
pub struct AccessRecord {
    /// The request's name.
    pub request: String,
    /// `POST`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// Status sent, zero if none was.
    pub status: u16,
    /// The model asked for, behind aliases, cascades and canaries.
    pub model: Option<String>,
    /// The name that the client gave it, where that is another.
    pub named: Option<String>,
    /// Streamed or whole.
    pub delivery: Delivery,
    /// Prompt tokens.
    pub prompt: Option<Tokens>,
    /// Completion tokens.
    pub completion: Option<Tokens>,
    /// Prompt tokens that its worker found in its cache, where it says so.
    pub cached: Option<Tokens>,
    /// Tokens of prompt and completion of an answer that was given again, where nobody was asked.
    pub reused: Option<(Tokens, Tokens)>,
    /// Bytes of the prompt's text, where its beginnings are named.
    pub prompt_bytes: Option<u64>,
    /// Names of the prompt's beginnings, as `END:NAME` in bytes; equal names are equal text.
    pub prefix: Option<String>,
    /// From the request's head to the first token.
    pub first_token: Option<Micros>,
    /// From the request's head to the last byte handed over.
    pub total: Micros,
    /// How long it waited for a worker, if it did.
    pub queued: Option<Micros>,
    /// Which worker answered.
    pub worker: Option<String>,
    /// Attempts at workers, where the log of requests keeps them.
    pub attempts: Option<u32>,
    /// Why it was refused for want of room or budget.
    pub refused: Option<&'static str>,
    /// Whose request it was, where tenants have names.
    pub tenant: Option<Arc<str>>,
    /// How urgent it was.
    pub priority: Option<&'static str>,
    /// Whose answer it got, where a small model is asked first: `draft`, `verified` or `target`; `fallback` where
    /// another model stood in.
    pub served_by: Option<&'static str>,
    /// The model that stood in, where one did.
    pub stand_in: Option<String>,
    /// How the target was asked for the last score of a draft, if it was: `completions`, `generate` or `sglang`.
    pub scored_by: Option<&'static str>,
    /// What it cost, in millionths of a dollar, where prices are known.
    pub cost: Option<u64>,
    /// What the target alone would have cost, in millionths of a dollar.
    pub cost_alone: Option<u64>,
    /// What the response cache had to do with it, where there is one.
    pub cache: Option<&'static str>,
    /// How often its stream went on at another worker, where it did.
    pub resumed: Option<u8>,
    /// How it did the last time: `anew`, `ids`, `text` or `replay`; or why it did not.
    pub resumed_by: Option<&'static str>,
    /// What came of a second attempt that was sent for a late first token: `won`, `lost` or `failed`.
    pub hedged: Option<&'static str>,
    /// The limit of time that was passed last, where one was.
    pub limit: Option<PassedLimit>,
    /// The id of its trace, where it is recorded.
    pub trace: Option<String>,
    /// How it ended.
    pub end: EndCode,
    /// Whether the line is of interest.
    pub audience: Audience,
    /// Which server of the process writes it.
    pub writer: AccessWriter,
}

impl AccessRecord {
    /// Writes the line: at `info`; at `warn` when a worker or a defect of ours ended the request; at
    /// `debug` when it is for debuggers.
    pub fn write(&self) {
        match (self.end.ender, self.audience) {
            (Ender::Server | Ender::ServerStalled | Ender::Defect, _) => {
                self.line(tracing::Level::WARN);
            }
            (_, Audience::Operator) => self.line(tracing::Level::INFO),
            (_, Audience::Debugger) => self.line(tracing::Level::DEBUG),
        }
    }

    /// Client-made text goes in as strings, which the formatter quotes and escapes: no request can
    /// forge a line.
    fn line(&self, level: tracing::Level) {
        macro_rules! line {
            ($target:literal, $level:expr) => {
                tracing::event!(
                    target: $target,
                    $level,
                    request = %self.request,
                    method = %self.method,
                    path = self.path.as_str(),
                    status = self.status,
                    model = self.model.as_deref(),
                    model_named = self.named.as_deref(),
                    stream = self.delivery == Delivery::Streamed,
                    tokens_prompt = self.prompt.map(Tokens::get),
                    tokens_out = self.completion.map(Tokens::get),
                    tokens_cached = self.cached.map(Tokens::get),
                    tokens_prompt_reused = self.reused.map(|(prompt, _)| prompt.get()),
                    tokens_out_reused = self.reused.map(|(_, out)| out.get()),
                    ttft_us = self.first_token.map(Micros::get),
                    total_us = self.total.get(),
                    queued_us = self.queued.map(Micros::get),
                    worker = self.worker.as_deref(),
                    attempts = self.attempts,
                    refused = self.refused,
                    tenant = self.tenant.as_deref(),
                    priority = self.priority,
                    served_by = self.served_by,
                    stand_in = self.stand_in.as_deref(),
                    scored_by = self.scored_by,
                    cost_microusd = self.cost,
                    cost_target_only_microusd = self.cost_alone,
                    cache = self.cache,
                    prompt_bytes = self.prompt_bytes,
                    prefix = self.prefix.as_deref(),
                    resumed = self.resumed,
                    resumed_by = self.resumed_by,
                    hedged = self.hedged,
                    limit = self.limit.map(|limit| limit.name),
                    limit_us = self.limit.map(|limit| limit.after.get()),
                    limit_by = self.limit.map(|limit| limit.basis),
                    trace_id = self.trace.as_deref(),
                    end = %self.end,
                )
            };
        }
        // The macro wants constants, from which each place makes its own switch.
        match (self.writer, level) {
            (AccessWriter::Front, tracing::Level::WARN) => line!("access", tracing::Level::WARN),
            (AccessWriter::Front, tracing::Level::INFO) => line!("access", tracing::Level::INFO),
            (AccessWriter::Front, _) => line!("access", tracing::Level::DEBUG),
            (AccessWriter::Inner, tracing::Level::WARN) => {
                line!("access_worker", tracing::Level::WARN);
            }
            (AccessWriter::Inner, tracing::Level::INFO) => {
                line!("access_worker", tracing::Level::INFO);
            }
            (AccessWriter::Inner, _) => line!("access_worker", tracing::Level::DEBUG),
        }
    }
}

//! Scoring APIs: over which endpoint a worker is asked for the log probabilities of a draft.
//!
//! Any vLLM and our own worker score by `/v1/completions`, which computes prompt and draft anew.
//! vLLM from 0.31 on with its newer model runner and `SGLang` have cheaper APIs that use the prefix
//! cache. A worker that refuses such an API is asked over the portable one for a while.
//! `docs/design/cascade.md#r8`.

use overdraft_units::{Instant, Micros};

/// An API that scores a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `prompt_logprobs` of `/v1/completions`: portable, computes everything, tells the likeliest token.
    Completions,
    /// vLLM's `/inference/v1/generate`: computes what is not cached, tells of the tokens that were asked for.
    Generate,
    /// `SGLang`'s `/generate`: computes what is not cached, tells the likeliest token.
    Sglang,
}

/// The number of APIs.
pub const PATHS: usize = 3;

impl Path {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::Generate => "generate",
            Self::Sglang => "sglang",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Completions => 0,
            Self::Generate => 1,
            Self::Sglang => 2,
        }
    }
}

/// The engine of a worker, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// Nobody knows, or it is one with no way of its own.
    #[default]
    Unknown,
    /// vLLM of this version: the first two numbers.
    Vllm(u32, u32),
    /// `SGLang`.
    Sglang,
}

/// vLLM scores given tokens from this version on (`prompt_logprob_token_ids`).
pub const VLLM_LEAST: (u32, u32) = (0, 31);

/// How long a worker that refused an API is not asked over it again. Another process may replace it
/// meanwhile.
pub const REFUSED_FOR: Micros = Micros::new(600_000_000);

/// Consecutive answers without scores that count as a refusal: a server with a long prefix hit may
/// lack the scores of one request, but one that never returns any must not cost every request a
/// second call.
pub const BLANKS_MAX: u8 = 3;

/// What is known of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    server: Server,
    refused: [Option<Instant>; PATHS],
    /// Answers since the last that told something.
    blanks: u8,
}

impl Abilities {
    /// What it runs is known now.
    pub const fn runs(&mut self, server: Server) {
        self.server = server;
    }

    /// It did not score that way when it was asked at `now`.
    pub const fn refuses(&mut self, path: Path, now: Instant) {
        self.refused[path.index()] = Some(now);
    }

    /// It was asked one of the cheaper ways and told nothing, or told what was wanted.
    pub const fn answers(&mut self, path: Path, told: bool, now: Instant) {
        if matches!(path, Path::Completions) {
            return;
        }
        self.blanks = if told { 0 } else { self.blanks.saturating_add(1) };
        if BLANKS_MAX <= self.blanks {
            self.blanks = 0;
            self.refuses(path, now);
        }
    }

    /// How it is asked at `now`: `wanted`, where that was settled, else the cheapest way that it has.
    pub fn path(&self, wanted: Option<Path>, now: Instant) -> Path {
        let cheapest = match self.server {
            Server::Vllm(major, minor) if VLLM_LEAST <= (major, minor) => Path::Generate,
            Server::Sglang => Path::Sglang,
            Server::Vllm(..) | Server::Unknown => Path::Completions,
        };
        let path = wanted.unwrap_or(cheapest);
        let refused = self.refused[path.index()];
        if refused.is_some_and(|then| now.since(then) < REFUSED_FOR) {
            return Path::Completions;
        }
        path
    }
}

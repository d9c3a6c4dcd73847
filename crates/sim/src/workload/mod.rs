//! Workload: a stream of sessions with their requests, from a trace or a generator.
//!
//! Each [`Session`] begins at a time and has one turn or several; a turn begins when the last one
//! was answered, after a think time. A prompt is a list of [`Piece`]s: equal contents are equal
//! tokens, so routing and caches see the shared prefixes, as with the `hash_ids` of Mooncake's
//! traces. Sessions are generated lazily: memory does not grow with the length of a trace.
//!
//! [`Source::parse`] reads what a user typed (`mooncake:trace.jsonl`, `tenants:groups=48,prefix=12000`),
//! [`Source::open`] gives the sessions, [`Pacing`] says how fast they come: time is scaled, never lengths.

mod access;
mod claude;
mod error;
mod generate;
mod knobs;
mod ladder;
mod lines;
mod mooncake;
mod pacing;
mod servegen;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod text;

use overdraft_core::admit::Priority;
use overdraft_units::{Instant, Micros, TokenId, Tokens, split_mix};

pub use self::access::{AccessLog, AnswerSource, Entry, REQUESTS_MAX};
pub use self::error::WorkloadError;
pub use self::ladder::{Ladder, LadderError, Rung, STAGES_MAX};
pub use self::pacing::{Arrivals, Pacing};
pub use self::source::{Kind, Source, SourceError, Times, Workload, catalogue, similar};
pub use self::text::{Wording, words};

/// Turns of one session at most; a trace's later ones are left out.
pub const TURNS_MAX: u64 = 4_096;

/// Tokens of one prompt at most.
pub const PROMPT_TOKENS_MAX: u64 = 4 << 20;

/// Tenants that are told apart at most.
pub const TENANTS_MAX: usize = 4_096;

/// Sessions, one at a time, in the order of their beginnings.
pub type Sessions = Box<dyn Iterator<Item = Result<Session, WorkloadError>> + Send>;

/// A client that asks once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// When the first turn is asked, from the start of the workload.
    pub at: Instant,
    /// A number of its own.
    pub name: u64,
    /// Whose it is, where the workload says.
    pub sender: Sender,
    /// Which part of the load it is of.
    pub stage: Stage,
    /// What is asked, at least once.
    pub turns: Vec<Turn>,
}

/// Who asks, and how much it matters; nobody in particular where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// How much its requests matter.
    pub priority: Option<Priority>,
    /// Whose they are: a place among the tenants of the load, below [`TENANTS_MAX`].
    pub tenant: Option<u16>,
}

/// A part of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The only one.
    #[default]
    Whole,
    /// What warms caches up and is not counted.
    WarmUp,
    /// One of several, from 0.
    Numbered(u16),
}

impl Stage {
    /// The place of one of several.
    pub const fn place(self) -> Option<u16> {
        match self {
            Self::Numbered(place) => Some(place),
            Self::Whole | Self::WarmUp => None,
        }
    }
}

/// One request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How long after the answer before it this is asked; for the first turn, after the beginning.
    pub think: Micros,
    /// The prompt, of one token at least.
    pub prompt: Vec<Piece>,
    /// The answer: its length, and what it is called in the prompts of later turns.
    pub answer: Piece,
}

/// A run of tokens with a name: equal names are equal tokens from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The name.
    pub content: u64,
    /// How long it is.
    pub tokens: Tokens,
    /// Who says it.
    pub voice: Voice,
}

/// Who says a piece of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Voice {
    /// The operator of the application.
    System,
    /// The user.
    User,
    /// The model, in an earlier turn.
    Assistant,
}

impl Piece {
    /// A piece of a user's.
    pub(crate) const fn said(content: u64, tokens: Tokens) -> Self {
        Self { content, tokens, voice: Voice::User }
    }

    /// The token at a place, out of a vocabulary of this many.
    pub fn token(self, place: u32, vocabulary: u32) -> TokenId {
        let mixed = split_mix(self.content ^ (u64::from(place) << 32 | u64::from(place)));
        // The upper half, scaled: a division would be most of what a token costs.
        TokenId(u32::try_from(((mixed >> 32) * u64::from(vocabulary)) >> 32).unwrap_or(0))
    }
}

impl Turn {
    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> Tokens {
        self.prompt.iter().fold(Tokens::ZERO, |sum, piece| sum + piece.tokens)
    }
}

/// The name of what all of these together name.
pub(crate) fn named(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |name, part| split_mix(name ^ split_mix(*part)))
}

/// Seconds as they are written in files, as a span; what is negative or no number is zero.
pub(crate) fn seconds(seconds: f64) -> Micros {
    Micros::new(crate::float_conversion::whole(seconds * 1e6))
}

//! Actions of the cascade protocol: what the shell must do next.

use overdraft_units::{Micros, Tokens};

use super::event::Rejected;
use crate::cascade::evidence::Finish;
use crate::cascade::threshold::Choice;

/// Something to do. After the last action of an event the shell waits for the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the draft, and report what it says.
    AskDraft(DraftCall),
    /// Have the target score the draft's last tokens, and report the score.
    Score {
        /// How many of them.
        tokens: Tokens,
        /// How the draft ended, if it has.
        finish: Finish,
    },
    /// Show the client all of the draft's tokens up to this count.
    Show(Tokens),
    /// End the draft, and have the target continue after so many tokens, which were shown.
    HandOver(Tokens),
    /// End the draft, and have the target answer alone.
    AskTarget(Cause),
    /// End the answer with an error: what was shown cannot be continued.
    BreakOff(&'static str),
    /// All of the answer is the draft's: end it.
    End,
    /// Compare the draft's answer with the target's.
    Compare,
    /// Count a draft that was asked first by whose answer is given.
    CountDraft(Choice),
    /// Count the draft tokens that the target accepted.
    CountAccepted(Tokens),
}

/// How the draft is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftCall {
    /// How long it may take to its verdict.
    pub limit: Micros,
    /// Whether the target's tokens of the prompt are wanted, to continue or score by them.
    pub needs_prompt: bool,
    /// Whether the target reads the prompt meanwhile.
    pub prefills: bool,
}

/// Why the target answers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No draft may answer such a request; the name that metrics use.
    Excluded(&'static str),
    /// The draft is not asked first.
    Chosen,
    /// The draft is not given.
    Rejected(Rejected),
    /// The draft was accepted, and its answer could not be finished.
    BrokenOff,
}

/// Who has answered where a draft was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The draft.
    Draft,
    /// The draft, and the target vouches for each token.
    Verified,
    /// The draft, and the target after it.
    HandedOver,
}

impl Outcome {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Verified => "verified",
            Self::HandedOver => "handed_over",
        }
    }
}

//! Events of the cascade protocol: what a request is like, and what happens to it.

use alloc::vec::Vec;

use overdraft_units::{Ratio, Tokens};

use crate::cascade::class::Traits;
use crate::cascade::evidence::{Finish, Observation};
use crate::cascade::exclusion::Exclusions;
use crate::cascade::scorer::Label;
use crate::cascade::streaming_release::Windows;
use crate::cascade::verify::Verified;

/// What is known of a request when it arrives, and stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What it is like.
    pub traits: Traits,
    /// What forbids that a draft answers it.
    pub exclusions: Exclusions,
    /// How the models' tokenizers compare.
    pub tokenizers: Tokenizers,
    /// Whether its answer is the likeliest tokens, and no other.
    pub is_greedy: bool,
    /// Whether the target could continue from tokens without losing a member of the request.
    pub is_continuable: bool,
    /// How long the windows of a streamed draft are.
    pub windows: Windows,
    /// The acceptance threshold where it is set by hand; nothing where it is learnt.
    pub bar: Option<Ratio>,
    /// Prompt tokens from which the target reads the prompt beside the draft; nothing where it never does.
    pub prefill_from: Option<Tokens>,
    /// Its own random numbers.
    pub draws: RequestDraws,
}

/// Random numbers of one request, each even among all 64-bit numbers and independent of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDraws {
    /// For whether the draft is asked.
    pub ask: u64,
    /// For whether a hopeless draft may continue.
    pub prospect: u64,
    /// For whether the draft's answer is compared.
    pub judge: u64,
    /// The same for a draft that nobody waits for.
    pub beside: u64,
}

/// How the tokenizers of draft and target compare, and what that forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenizers {
    /// Both make the same tokens: the target can score the draft's tokens and continue after them.
    Same,
    /// Not known, or different and allowed: no token of one is shown to the other.
    Apart,
    /// Different, and the draft is not asked for that.
    Refused,
}

/// Whether the target can continue after the draft's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// It can: the prompt's tokens are known, and the answer has room for more than none.
    Possible,
    /// It cannot.
    Impossible,
}

/// Something that happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It arrives.
    Arrived,
    /// The draft's answer begins.
    Opened(Continuation),
    /// The draft says more, or has ended.
    Said(Said),
    /// The draft, or the score of it, fails. With it, the tokens after which the target can continue what was shown.
    Failed(Rejected, Option<Tokens>),
    /// The draft has taken as long as it may.
    Late,
    /// The target has scored the window.
    Scored(Scored),
    /// The client leaves.
    Left,
    /// All of the answer was shown.
    Ended,
    /// The target could not continue to the end.
    BrokeOff,
    /// The target's own answer begins.
    TargetBegan,
    /// All of the target's own answer is there.
    TargetEnded,
    /// The comparison of draft and target begins.
    CompareBegan,
    /// It is known what the draft's answer is worth beside the target's.
    Compared(Label),
}

/// What a draft has said: the new tokens, and facts about all of it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Said {
    /// What was reported of its new tokens.
    pub observations: Vec<Observation>,
    /// How it ended, as far as it has said so.
    pub finish: Finish,
    /// Whether nothing more will come.
    pub is_over: bool,
    /// Its tokens, if each came with its id.
    pub tokens: Option<Tokens>,
    /// Its tokens up to the last place where a token and a character end together.
    pub marked: Tokens,
    /// Whether it reads the same prompt tokens as the target, as far as that is known.
    pub is_same_prompt: bool,
    /// Whether its text keeps to the schema that binds it; looked at where it has finished.
    pub keeps_schema: bool,
    /// The tokens after which the target can continue what was shown; nothing where it cannot.
    pub resumes: Option<Tokens>,
}

/// What the target makes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Scored {
    /// What it accepts, and how it goes on.
    pub verified: Verified,
    /// Whether the target's answer ends after the window.
    pub ends: bool,
    /// Whether the draft's last token ended its answer and said nothing.
    pub is_end_token: bool,
    /// Whether the answer has all the tokens that it may have.
    pub is_full: bool,
    /// The accepted tokens, of all the draft's, up to a place where a token and a character end together.
    pub marked: Tokens,
}

/// Why a draft is not given. Each has the name that metrics use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its answer is refused, or cannot be judged.
    Refused(&'static str),
    /// It failed.
    Failed(&'static str),
    /// No worker could be asked, which took no time.
    Unasked(&'static str),
}

impl Rejected {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused(name) | Self::Failed(name) | Self::Unasked(name) => name,
        }
    }

    /// Whether the draft's worker is at fault, and not its answer.
    pub const fn is_fault(self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

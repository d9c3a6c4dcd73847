//! Cascade exclusions: requests that bypass the draft and go straight to the target.
//!
//! These are requests whose answer is more than a text of some quality: a tool call has effects,
//! log probabilities and seeds are the target's own, and an answer of a few tokens costs the target
//! less than asking twice. `docs/design/cascade.md#r1`.

use overdraft_units::Tokens;

/// Requests whose `max_tokens` is at most this go to the target at once.
pub const ANSWER_MIN: Tokens = Tokens::new(32);

/// Why a request goes to the target at once, the weightiest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// Its tenant does not want drafts.
    TenantOptedOut,
    /// The request itself does not.
    RequestOptedOut,
    /// Tools are offered, or were called already: a call has effects.
    Tools,
    /// Log probabilities are asked for, and are the target's.
    Logprobs,
    /// A seed is given: the same answer is wanted again.
    Determinism,
    /// Several answers are wanted of one prompt.
    SeveralAnswers,
    /// The answer may only have a few tokens.
    ShortAnswer,
    /// The draft's answer does not keep to the schema that binds it.
    SchemaFailed,
}

impl Exclusion {
    /// All of them, the weightiest first.
    pub const ALL: [Self; 8] = [
        Self::TenantOptedOut,
        Self::RequestOptedOut,
        Self::Tools,
        Self::Logprobs,
        Self::Determinism,
        Self::SeveralAnswers,
        Self::ShortAnswer,
        Self::SchemaFailed,
    ];

    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TenantOptedOut => "tenant_opted_out",
            Self::RequestOptedOut => "request_opted_out",
            Self::Tools => "tools",
            Self::Logprobs => "logprobs",
            Self::Determinism => "determinism",
            Self::SeveralAnswers => "several_answers",
            Self::ShortAnswer => "short_answer",
            Self::SchemaFailed => "schema_failed",
        }
    }
}

/// What of it applies to a request.
///
/// ```
/// use overdraft_core::cascade::{Exclusion, Exclusions};
///
/// let against = Exclusions::NONE.with(Exclusion::Determinism).with(Exclusion::Tools);
/// assert_eq!(against.first(), Some(Exclusion::Tools));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclusions(u8);

impl Exclusions {
    /// Nothing speaks against a draft.
    pub const NONE: Self = Self(0);

    /// With one more.
    #[must_use]
    pub const fn with(self, one: Exclusion) -> Self {
        Self(self.0 | 1 << one as u8)
    }

    /// With what the longest allowed answer says; nothing where none was set.
    #[must_use]
    pub fn with_longest(self, longest: Option<Tokens>) -> Self {
        let short = longest.is_some_and(|longest| longest < ANSWER_MIN);
        if short { self.with(Exclusion::ShortAnswer) } else { self }
    }

    /// The weightiest, if there is any.
    pub fn first(self) -> Option<Exclusion> {
        Exclusion::ALL.into_iter().find(|one| self.0 & 1 << *one as u8 != 0)
    }
}

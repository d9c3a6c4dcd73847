//! Resume decision: which way a broken stream goes on, or why it does not (R2).

use super::ability::{Ability, Engine};
use super::ledger::{LEDGER_BYTES_MAX, Ledger};
use super::profile::{Draws, Profile, Trait};
use super::settings::ResumeSettings;

/// How the next worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the first was: the client has been told nothing.
    Anew,
    /// With the ids of prompt and answer: token-exact.
    Ids,
    /// With the text of the answer, to be continued.
    Text,
    /// As the first was; what was told is compared and swallowed.
    Replay,
}

impl Way {
    /// As comments, metrics and the access line call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anew => "anew",
            Self::Ids => "ids",
            Self::Text => "text",
            Self::Replay => "replay",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Why a stream is not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A grammar begins at its root.
    Grammar,
    /// Half a tool call cannot be parsed.
    ToolCall,
    /// Log probabilities would be lacking, or told twice.
    Logprobs,
    /// A penalty cannot be carried over.
    Penalty,
    /// It broke off while the model was reasoning.
    Reasoning,
    /// No worker is known that could.
    Capability,
    /// No worker was up within the patience.
    NoWorker,
    /// It has been resumed as often, or at such cost, as it may.
    Budget,
    /// It is too long.
    Length,
    /// The second answer is not the first.
    Diverged,
}

impl Refusal {
    /// As errors, metrics and the access line call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grammar => "grammar",
            Self::ToolCall => "tool_call",
            Self::Logprobs => "logprobs",
            Self::Penalty => "penalty",
            Self::Reasoning => "reasoning",
            Self::Capability => "capability",
            Self::NoWorker => "no_worker",
            Self::Budget => "budget",
            Self::Length => "length",
            Self::Diverged => "diverged",
        }
    }
}

/// Ways that turned out not to be open for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed(u8);

impl Closed {
    /// This way is not.
    pub const fn close(&mut self, way: Way) {
        self.0 |= way.bit();
    }

    const fn has(self, way: Way) -> bool {
        self.0 & way.bit() != 0
    }
}

/// What resuming a request has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Attempts to resume it, those that failed included.
    pub attempts: u8,
    /// Tokens computed again.
    pub tokens: u32,
}

/// Whether another attempt, which computes `tokens` again, is within the limits (R7).
///
/// # Errors
/// [`Refusal::Budget`] or [`Refusal::Length`].
pub fn is_within(settings: &ResumeSettings, spent: Spent, ledger: &Ledger) -> Result<(), Refusal> {
    if LEDGER_BYTES_MAX < ledger.bytes() {
        return Err(Refusal::Length);
    }
    let more = ledger.prompt_tokens().unwrap_or(0).saturating_add(ledger.tokens());
    let is_spent = settings.attempts_max <= spent.attempts;
    if is_spent || settings.tokens_max < spent.tokens.saturating_add(more) {
        return Err(Refusal::Budget);
    }
    Ok(())
}

/// The way in which a worker of this `ability` may go on with what `ledger` has of a request.
///
/// # Errors
/// [`Refusal`] where there is none that is exact.
pub fn way(
    profile: &Profile,
    ledger: &Ledger,
    ability: Ability,
    closed: Closed,
) -> Result<Way, Refusal> {
    if ledger.is_empty() {
        return Ok(Way::Anew);
    }
    let open = |way: Way, judged: Result<(), Refusal>| {
        judged.and(if closed.has(way) { Err(Refusal::Capability) } else { Ok(way) })
    };
    let by_ids = open(Way::Ids, by_ids(profile, ledger, ability));
    by_ids
        .or_else(|why| open(Way::Text, by_text(profile, ledger, ability)).map_err(|_| why))
        .or_else(|why| open(Way::Replay, by_replay(profile, ledger)).map_err(|_| why))
}

/// Whether there is a worker at all that could go on with it, so that waiting for one makes sense.
///
/// # Errors
/// [`Refusal`] where not even the most able worker could.
pub fn is_worth_waiting(profile: &Profile, ledger: &Ledger, closed: Closed) -> Result<(), Refusal> {
    let mut ablest = Ability::default();
    ablest.runs(Engine::Vllm);
    way(profile, ledger, ablest, closed).map(|_| ())
}

/// What neither ids nor text can carry over.
fn carried(profile: &Profile, ledger: &Ledger) -> Result<(), Refusal> {
    let has = |one| profile.traits.has(one);
    match () {
        () if has(Trait::Grammar) => Err(Refusal::Grammar),
        () if has(Trait::Tools) || !ledger.calls().is_empty() => Err(Refusal::ToolCall),
        () if has(Trait::Logprobs) => Err(Refusal::Logprobs),
        () if has(Trait::Presence) => Err(Refusal::Penalty),
        () if ledger.is_strange() => Err(Refusal::Capability),
        () => Ok(()),
    }
}

fn by_ids(profile: &Profile, ledger: &Ledger, ability: Ability) -> Result<(), Refusal> {
    carried(profile, ledger)?;
    if !ledger.reasoning().is_empty() && ledger.text().is_empty() {
        return Err(Refusal::Reasoning);
    }
    let is_judged = !profile.traits.has(Trait::Unknown) && !profile.traits.has(Trait::Media);
    if is_judged && ability.takes_ids() && ledger.ids().is_some() {
        Ok(())
    } else {
        Err(Refusal::Capability)
    }
}

fn by_text(profile: &Profile, ledger: &Ledger, ability: Ability) -> Result<(), Refusal> {
    carried(profile, ledger)?;
    if profile.traits.has(Trait::Frequency) {
        return Err(Refusal::Penalty);
    }
    if !ledger.reasoning().is_empty() {
        return Err(Refusal::Reasoning);
    }
    // An answer that goes on by text has no ids from there on.
    if ledger.owes_ids() {
        return Err(Refusal::Capability);
    }
    // Nothing but white space is no beginning that a template keeps.
    if !ledger.solid_text().is_empty() && ability.continues(profile.prompt) {
        Ok(())
    } else {
        Err(Refusal::Capability)
    }
}

fn by_replay(profile: &Profile, ledger: &Ledger) -> Result<(), Refusal> {
    let is_same = match profile.draws {
        Draws::Greedy => true,
        Draws::Seeded(_) => !ledger.is_redrawn(),
        Draws::Free => false,
    };
    if is_same && !ledger.is_strange() { Ok(()) } else { Err(Refusal::Capability) }
}

impl Profile {
    /// Whether ids are worth asking for: no answer to it goes on by them otherwise.
    pub const fn uses_ids(&self) -> bool {
        let traits = self.traits;
        !(traits.has(Trait::Grammar)
            || traits.has(Trait::Tools)
            || traits.has(Trait::Logprobs)
            || traits.has(Trait::Presence)
            || traits.has(Trait::Unknown)
            || traits.has(Trait::Media))
    }

    /// Whether counts with every chunk are of use: no answer to it goes on by text otherwise.
    pub const fn uses_text(&self) -> bool {
        let traits = self.traits;
        !(traits.has(Trait::Grammar)
            || traits.has(Trait::Tools)
            || traits.has(Trait::Logprobs)
            || traits.has(Trait::Presence)
            || traits.has(Trait::Frequency))
    }
}

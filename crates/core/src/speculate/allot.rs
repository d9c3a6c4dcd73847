//! Which guesses bring the most tokens a second?
//!
//! Each further guess of a sequence is a row with a chance: that it and all before it are right. The
//! rows of all sequences stand in one line, the likeliest first, so a sequence's own stay in order;
//! the best head of that line is the one with the most expected tokens for its cost. So depth is
//! decided for each sequence by itself, and one that copies is guessed for while its neighbour, which
//! invents, is not (`docs/design/speculation.md#r4`).

use alloc::vec;
use alloc::vec::Vec;

use super::acceptance::{Acceptance, DEPTH_MAX};
use super::costs::{Nanos, StepCosts};
use super::share::Share;

/// Who guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drafter {
    /// What followed the last time; costs nothing to ask.
    Lookup,
    /// A smaller model: one pass for each token.
    Model,
}

/// A sequence that could be guessed for.
#[derive(Clone, Copy, Debug)]
pub struct Prospect<'a> {
    /// The kind of its text: what was learnt from its like stands behind what it showed itself.
    pub class: u64,
    /// What was seen of each drafter on this sequence, by [`Drafter::place`].
    pub seen: &'a [Acceptance; 2],
    /// Tokens that a lookup found.
    pub lookup: usize,
    /// Tokens that the draft model may guess; zero where there is none or it is not to be asked.
    pub model: usize,
    /// Tokens that the draft model would have to read first.
    pub backlog: u32,
}

/// What a sequence gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who guesses.
    pub drafter: Drafter,
    /// Tokens to guess; zero is none.
    pub depth: usize,
}

impl Drafter {
    /// All of them, by their place.
    pub const ALL: [Self; 2] = [Self::Lookup, Self::Model];

    /// Its place in arrays.
    pub const fn place(self) -> usize {
        match self {
            Self::Lookup => 0,
            Self::Model => 1,
        }
    }

    /// As vLLM's `--speculative-config` calls the method.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "ngram",
            Self::Model => "draft_model",
        }
    }
}

impl Grant {
    pub(super) const NONE: Self = Self { drafter: Drafter::Lookup, depth: 0 };
}

/// A sequence with the chances of its guesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// By [`Drafter::place`].
    pub(super) survival: [[Share; DEPTH_MAX]; 2],
    /// Tokens each may guess at most.
    pub(super) most: [usize; 2],
}

/// What a step does anyway, and what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) costs: &'a StepCosts,
    /// What a pass of the draft model takes with its part of what is read for it.
    pub(super) reading: Reading,
    /// Sequences that decode; each yields a token without any guess.
    pub(super) decodes: u32,
    /// Rows of prompts computed besides.
    pub(super) prefill: u32,
    /// Rows that guesses may take.
    pub(super) room: u32,
}

/// What the draft model spends on reading what the target has read: each new sequence has a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    passes: Nanos,
    reads: Nanos,
}

/// A choice of guesses, with what it is expected to bring.
#[derive(Clone, Debug)]
pub(super) struct Allotment {
    pub(super) grants: Vec<Grant>,
    rate: Rate,
}

/// Tokens in 65,536ths for a time.
#[derive(Clone, Copy, Debug)]
struct Rate {
    tokens: u64,
    nanos: Nanos,
}

/// One guess of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// The chance that it is wrong: ascending is likeliest first.
    doubt: u32,
    depth: usize,
    sequence: usize,
}

/// Older steps fade: a hundred and twenty-eight newer ones leave a third of what they count.
const READING_MEMORY: u64 = 128;
/// Reading is supposed to add at most so many times the passes themselves.
const READING_MOST: u64 = 4;

impl Reading {
    /// Takes note of a step's passes and of what was read besides.
    pub(super) fn observe(&mut self, passes: Nanos, reads: Nanos) {
        self.passes = self.passes - self.passes / READING_MEMORY + passes;
        self.reads = self.reads - self.reads / READING_MEMORY + reads;
    }

    /// A step without the draft model: what is known of reading gets old.
    pub(super) fn forget(&mut self) {
        self.reads -= self.reads / (8 * READING_MEMORY);
    }

    /// What passes that take so long take with what is read for them.
    fn on(self, passes: Nanos) -> Nanos {
        let reads = self.reads.min(READING_MOST * self.passes);
        let more = u128::from(passes) * u128::from(reads) / u128::from(self.passes.max(1));
        passes.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

impl Rate {
    fn exceeds(self, other: Self) -> bool {
        u128::from(self.tokens) * u128::from(other.nanos.max(1))
            > u128::from(other.tokens) * u128::from(self.nanos.max(1))
    }
}

impl Allotment {
    /// The deepest guess of the draft model.
    pub(super) fn model_depth(&self) -> usize {
        let model = self.grants.iter().filter(|grant| grant.drafter == Drafter::Model);
        model.map(|grant| grant.depth).max().unwrap_or(0)
    }

    /// Whether it brings at least so many hundredths more than the other.
    pub(super) fn exceeds(&self, other: &Self, hundredths: u64) -> bool {
        let tokens = other.rate.tokens + other.rate.tokens / 100 * hundredths;
        self.rate.exceeds(Rate { tokens, ..other.rate })
    }
}

impl Field<'_> {
    fn base(&self) -> u32 {
        self.decodes + self.prefill
    }

    /// Without any guess.
    fn plain(&self) -> Rate {
        let nanos = self.costs.verify.at(self.base());
        Rate { tokens: u64::from(self.decodes) * u64::from(Share::WHOLE.parts()), nanos }
    }

    /// The most tokens a second, with the draft model guessing at most `model_most` tokens.
    pub(super) fn best(&self, outlooks: &[Outlook], model_most: usize) -> Allotment {
        let first = self.best_at(self.plain(), outlooks, model_most);
        // What a pass of the draft model is worth depends on how fast tokens come without it.
        let second = self.best_at(first.rate, outlooks, model_most);
        if second.rate.exceeds(first.rate) { second } else { first }
    }

    fn best_at(&self, pace: Rate, outlooks: &[Outlook], model_most: usize) -> Allotment {
        let most = [DEPTH_MAX, model_most];
        let drafters = self.drafters(pace, outlooks, most);
        let mut rows = Vec::new();
        for (sequence, (outlook, drafter)) in outlooks.iter().zip(&drafters).enumerate() {
            let place = drafter.place();
            let depths = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            rows.extend(outlook.survival[place][..depths].iter().enumerate().map(
                |(depth, chance)| {
                    let doubt = Share::WHOLE.parts() - chance.parts();
                    Row { doubt, depth, sequence }
                },
            ));
        }
        rows.sort_unstable();
        rows.truncate(self.room as usize);
        let (rate, count) = self.best_head(&rows, &drafters);
        let mut grants: Vec<Grant> =
            drafters.iter().map(|drafter| Grant { drafter: *drafter, depth: 0 }).collect();
        for row in &rows[..count] {
            grants[row.sequence].depth += 1;
        }
        Allotment { grants, rate }
    }

    /// How many of the rows bring the most.
    fn best_head(&self, rows: &[Row], drafters: &[Drafter]) -> (Rate, usize) {
        let mut best = (self.plain(), 0);
        let Rate { mut tokens, .. } = best.0;
        let (mut drafting, mut passes) = (0, [0; DEPTH_MAX]);
        for ((count, row), rows) in (1..).zip(rows).zip(self.base() + 1..) {
            tokens += u64::from(Share::WHOLE.parts() - row.doubt);
            if drafters[row.sequence] == Drafter::Model {
                let pass = &mut passes[row.depth];
                drafting += self.costs.draft.at(*pass + 1) - self.costs.draft.at(*pass);
                *pass += 1;
            }
            let nanos = self.costs.verify.at(rows) + self.reading.on(drafting);
            let rate = Rate { tokens, nanos };
            if rate.exceeds(best.0) {
                best = (rate, count);
            }
        }
        best
    }

    /// `depth` tokens for each sequence, or as many as there is room for.
    pub(super) fn even(&self, outlooks: &[Outlook], depth: usize) -> Vec<Grant> {
        let fair = (self.room / self.decodes.max(1)) as usize;
        let most = [depth.min(fair); 2];
        let drafters = self.drafters(self.plain(), outlooks, most);
        let grant = |(outlook, drafter): (&Outlook, Drafter)| {
            let place = drafter.place();
            Grant { drafter, depth: most[place].min(outlook.most[place]) }
        };
        outlooks.iter().zip(drafters).map(grant).collect()
    }

    /// Who guesses for each sequence: whoever brings more, less what its passes cost at this pace.
    fn drafters(&self, pace: Rate, outlooks: &[Outlook], most: [usize; 2]) -> Vec<Drafter> {
        let [_, model] = most;
        let asked = outlooks.iter().filter(|outlook| 0 < outlook.most[1]).count();
        let asked = u32::try_from(asked).unwrap_or(u32::MAX).max(1);
        let pass = self.reading.on(self.costs.draft.at(asked));
        let pass = u128::from(pass / u64::from(asked));
        let price = pass * u128::from(pace.tokens) / u128::from(pace.nanos.max(1));
        let price = u64::try_from(price).unwrap_or(u64::MAX);
        let worth = |outlook: &Outlook, place: usize, price: u64| -> u64 {
            let depth = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            let chances = outlook.survival[place][..depth].iter();
            chances.map(|chance| u64::from(chance.parts()).saturating_sub(price)).sum()
        };
        let mut drafters = vec![Drafter::Lookup; outlooks.len()];
        for (drafter, outlook) in drafters.iter_mut().zip(outlooks) {
            let only = outlook.most[0] == 0 && 0 < outlook.most[1].min(model);
            if only || worth(outlook, 0, 0) < worth(outlook, 1, price) {
                *drafter = Drafter::Model;
            }
        }
        drafters
    }
}

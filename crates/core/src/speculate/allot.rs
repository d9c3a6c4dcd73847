//! Which guesses bring the most tokens a second?
//!
//! Each further guess of a sequence is a row with a chance: that it and all before it are right. The
//! rows of all sequences stand in one line, the likeliest first, so a sequence's own stay in order;
//! the best head of that line is the one with the most expected tokens for its cost. So depth is
//! decided for each sequence by itself, and one that copies is guessed for while its neighbour, which
//! invents, is not (`docs/design/speculation.md#r4`).

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
    /// Tokens that the draft model would have to read first.
    pub(super) unread: u32,
}

/// What a step does anyway, and what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) costs: &'a StepCosts,
    /// What the draft model reads besides its passes.
    pub(super) reading: Reading,
    /// Sequences that decode; each yields a token without any guess.
    pub(super) decodes: u32,
    /// Rows of prompts computed besides.
    pub(super) prefill: u32,
    /// Rows that guesses may take.
    pub(super) room: u32,
    /// Steps that a sequence's place in the batch does not decode in, for each token, in 65,536ths.
    pub(super) begins: u64,
}

/// How often a step finds a sequence's place taken by one that only begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginnings {
    /// Sequences that began beside others that decoded, in 65,536ths.
    begun: u64,
    /// Tokens that came meanwhile, in as many.
    tokens: u64,
}

/// What the draft model spends on reading what the target has read: each new sequence has a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Spent on it, of late.
    reads: Nanos,
    /// Tokens that the sequences it guessed for emitted meanwhile.
    tokens: u64,
    /// Of those, the ones since the last step.
    fresh: u64,
}

/// A choice of guesses, with what it is expected to bring.
#[derive(Clone, Debug)]
pub(super) struct Allotment {
    pub(super) grants: Vec<Grant>,
    rate: Rate,
}

/// Tokens in 65,536ths for a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
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

/// Tokens that a step leaves unread anyway: the last guess, and the token after it.
const UNREAD_ALWAYS: u32 = 2;
/// What has to be read before a sequence can be guessed for is spread over so many steps: about as many
/// as an answer has left.
const UNREAD_STEPS: u64 = 64;
/// Older steps fade: so many newer ones leave a third of what they count.
const READING_MEMORY: u64 = 256;

/// Older steps fade: so many newer ones leave a third of what they count.
const BEGINNINGS_MEMORY: u64 = 128;

impl Beginnings {
    /// Takes note of a step. One in which nobody decodes is as long whatever is guessed.
    pub(super) fn observe(&mut self, sequences: u32, beginning: u32, tokens: u32) {
        if 0 < sequences {
            let faded = |count: u64| count - count / BEGINNINGS_MEMORY;
            self.begun = faded(self.begun) + (u64::from(beginning) << 16);
            self.tokens = faded(self.tokens) + (u64::from(tokens) << 16);
        }
    }

    /// Steps begun in for each token, in 65,536ths, where so many sequences decode: that they all begin together is
    /// not mistaken for a rate.
    pub(super) fn each(self, sequences: u32) -> u64 {
        let least = (BEGINNINGS_MEMORY * u64::from(sequences)) << 16;
        let tokens = self.tokens.max(least).max(1);
        u64::try_from((u128::from(self.begun) << 16) / u128::from(tokens)).unwrap_or(u64::MAX)
    }
}

impl Reading {
    /// A sequence that the draft model guessed for emitted so many tokens.
    pub(super) fn emit(&mut self, tokens: u64) {
        self.fresh += tokens;
    }

    /// Takes note of what was read in a step in which the draft model guessed.
    pub(super) fn observe(&mut self, reads: Nanos) {
        self.reads = self.reads - self.reads / READING_MEMORY + reads;
        self.tokens = self.tokens - self.tokens / READING_MEMORY + core::mem::take(&mut self.fresh);
    }

    /// A step without the draft model: what is known of reading gets old.
    pub(super) fn forget(&mut self) {
        self.reads -= self.reads / (4 * READING_MEMORY);
    }

    /// What is read for so many 65,536ths of a token, where so many sequences decode. That they all
    /// begin together is not mistaken for a rate: what they bring is told from when it is spread over
    /// as many steps as are remembered.
    fn on(self, tokens: u64, decodes: u32) -> Nanos {
        let over = self.tokens.max(READING_MEMORY * u64::from(decodes)).max(1);
        let nanos = (u128::from(self.reads) * u128::from(tokens) / u128::from(over)) >> 16;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

impl Rate {
    pub(super) fn nanos(self) -> Nanos {
        self.nanos
    }

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
    /// Rows of the step without any guess.
    pub(super) fn base(&self) -> u32 {
        self.decodes + self.prefill
    }

    /// Without any guess.
    pub(super) fn plain(&self) -> Rate {
        Rate { tokens: self.lasting(self.decoded()), nanos: self.nanos(0) }
    }

    /// A token of each sequence, in 65,536ths.
    fn decoded(&self) -> u64 {
        u64::from(self.decodes) * u64::from(Share::WHOLE.parts())
    }

    /// What so many tokens of a step come to in the end, in 65,536ths. Each brings the end of its sequence nearer, and
    /// the next one takes up a place for a step in which it only begins: a longer step makes that longer too.
    fn lasting(&self, tokens: u64) -> u64 {
        let decoded = u128::from(self.decoded());
        let begins = (u128::from(tokens) * u128::from(self.begins)) >> 16;
        let lasting = u128::from(tokens) * decoded / (decoded + begins).max(1);
        u64::try_from(lasting).unwrap_or(u64::MAX)
    }

    /// What the target takes with so many rows of guesses.
    fn nanos(&self, guesses: u32) -> Nanos {
        self.costs.step(self.decodes, self.prefill, guesses)
    }

    /// What it would take to have the tokens that a grant brings without any guess.
    pub(super) fn tokens_of(&self, grant: &Grant, outlook: &Outlook) -> Nanos {
        let chances = outlook.survival[grant.drafter.place()][..grant.depth.min(DEPTH_MAX)].iter();
        let tokens: u64 = chances.map(|chance| u64::from(chance.parts())).sum();
        let plain = self.plain();
        let nanos = u128::from(tokens) * u128::from(plain.nanos) / u128::from(plain.tokens.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// What one step has to bear of what the draft model must read of a sequence first.
    fn catching_up(&self, outlook: &Outlook) -> Nanos {
        let draft = &self.costs.draft;
        let unread = outlook.unread.max(UNREAD_ALWAYS);
        (draft.at(unread) - draft.at(UNREAD_ALWAYS)) / UNREAD_STEPS
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
        let chosen = self.drafters(pace, outlooks, most);
        let drafters: Vec<Drafter> = chosen.iter().map(|(drafter, _)| *drafter).collect();
        let mut rows = Vec::new();
        for (sequence, (outlook, (drafter, worth))) in outlooks.iter().zip(&chosen).enumerate() {
            let place = drafter.place();
            if *worth == 0 {
                continue;
            }
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
        let (rate, count) = self.best_head(&rows, &drafters, outlooks);
        let mut grants: Vec<Grant> =
            drafters.iter().map(|drafter| Grant { drafter: *drafter, depth: 0 }).collect();
        for row in &rows[..count] {
            grants[row.sequence].depth += 1;
        }
        Allotment { grants, rate }
    }

    /// How many of the rows bring the most.
    fn best_head(&self, rows: &[Row], drafters: &[Drafter], outlooks: &[Outlook]) -> (Rate, usize) {
        let mut best = (self.plain(), 0);
        let mut tokens = self.decoded();
        let (mut drafting, mut passes, mut read_for) = (0, [0; DEPTH_MAX], 0);
        for ((count, row), guesses) in (1..).zip(rows).zip(1..) {
            tokens += u64::from(Share::WHOLE.parts() - row.doubt);
            if drafters[row.sequence] == Drafter::Model {
                let pass = &mut passes[row.depth];
                drafting += self.costs.draft.at(*pass + 1) - self.costs.draft.at(*pass);
                *pass += 1;
                read_for += u64::from(Share::WHOLE.parts() - row.doubt);
                if row.depth == 0 {
                    // With the first guess all that the sequence emits has to be read.
                    read_for += u64::from(Share::WHOLE.parts());
                    drafting += self.catching_up(&outlooks[row.sequence]);
                }
            }
            let reading = self.reading.on(read_for, self.decodes);
            let nanos = self.nanos(guesses).saturating_add(drafting).saturating_add(reading);
            let rate = Rate { tokens: self.lasting(tokens), nanos };
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
        let grant = |(outlook, (drafter, _)): (&Outlook, (Drafter, u64))| {
            let place = drafter.place();
            Grant { drafter, depth: most[place].min(outlook.most[place]) }
        };
        outlooks.iter().zip(drafters).map(grant).collect()
    }

    /// Who guesses for each sequence: whoever brings more, less what its passes cost at this pace; and
    /// how much that is, in 65,536ths of a token. The model where nobody else can, even for nothing.
    fn drafters(&self, pace: Rate, outlooks: &[Outlook], most: [usize; 2]) -> Vec<(Drafter, u64)> {
        let [_, model] = most;
        let asked = outlooks.iter().filter(|outlook| 0 < outlook.most[1]).count();
        let asked = u32::try_from(asked).unwrap_or(u32::MAX).max(1);
        // In tokens, at this pace: a pass for one sequence, and what is read for one token.
        let priced = |nanos: Nanos, parts: u64| -> u64 {
            let tokens = u128::from(nanos) * u128::from(pace.tokens);
            let price = tokens / u128::from(pace.nanos.max(1)) / u128::from(parts);
            u64::try_from(price).unwrap_or(u64::MAX)
        };
        let pass = priced(self.costs.draft.at(asked), u64::from(asked));
        let whole = u64::from(Share::WHOLE.parts());
        let read = priced(self.reading.on(whole, self.decodes), 1).min(whole);
        let worth = |outlook: &Outlook, place: usize, price: u64| -> u64 {
            let depth = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            let chances = outlook.survival[place][..depth].iter();
            chances.map(|chance| u64::from(chance.parts()).saturating_sub(price)).sum()
        };
        // Of what the draft model brings, and of the token that comes anyway, a part pays for reading.
        let modelled = |outlook: &Outlook| -> u64 {
            let brings = worth(outlook, 1, pass);
            let reads = (brings + whole) * read / whole;
            brings.saturating_sub(reads).saturating_sub(priced(self.catching_up(outlook), 1))
        };
        let choose = |outlook: &Outlook| {
            let only = outlook.most[0] == 0 && 0 < outlook.most[1].min(model);
            let (looked_up, modelled) = (worth(outlook, 0, 0), modelled(outlook));
            if only || looked_up < modelled {
                (Drafter::Model, modelled)
            } else {
                (Drafter::Lookup, looked_up)
            }
        };
        outlooks.iter().map(choose).collect()
    }
}

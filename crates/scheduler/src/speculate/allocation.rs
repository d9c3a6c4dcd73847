//! Draft allocation: which drafted tokens give the most expected tokens per second.
//!
//! Each further drafted token of a sequence is a row with a probability: that it and all before it
//! are accepted. The rows of all sequences are sorted by probability, so a sequence's own stay in
//! order; the best prefix of that list is the one with the most expected tokens per cost (greedy).
//! So depth is decided per sequence: one that copies text is drafted for while its neighbour, which
//! writes new text, is not (`docs/design/speculation.md#r4`).

use alloc::vec::Vec;

use super::acceptance::{Acceptance, DEPTH_MAX};
use super::confidence::Bar;
use super::costs::{Nanos, StepCosts, float, nanos};
use overdraft_units::Ratio;

/// The source of drafted tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drafter {
    /// Prompt lookup (n-gram matching); free.
    Lookup,
    /// A draft model: one pass per token.
    Model,
}

/// A sequence that could be drafted for.
#[derive(Clone, Copy, Debug)]
pub struct Prospect<'a> {
    /// The class of its text: the class's acceptance rate is the prior of the sequence's own.
    pub class: u64,
    /// The acceptance of each drafter on this sequence, by [`Drafter::place`].
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
    /// The source of drafted tokens.
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
    /// By [`Drafter::place`]: the chance that a guess and all before it are right.
    pub(super) survival: [[Ratio; DEPTH_MAX]; 2],
    /// Tokens each may guess at most.
    pub(super) most: [usize; 2],
    /// Tokens that the draft model would have to read first.
    pub(super) unread: u32,
}

/// What a step does anyway, and what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) costs: &'a StepCosts,
    /// What the draft model reads besides its passes, in nanoseconds for each token.
    pub(super) reading: f64,
    /// Sequences that decode; each yields a token without any guess.
    pub(super) decodes: u32,
    /// Rows of prompts computed besides.
    pub(super) prefill: u32,
    /// Rows that guesses may take.
    pub(super) room: u32,
    /// Steps that a sequence's place in the batch does not decode in, for each token.
    pub(super) begins: f64,
}

/// The same with all who may be guessed for, and what each number of rows takes: asked for every row, so
/// reckoned once.
#[derive(Debug)]
pub(super) struct Market<'a> {
    field: &'a Field<'a>,
    outlooks: &'a [Outlook],
    /// The target, by guesses.
    steps: Vec<f64>,
    /// A pass of the draft model, by rows.
    passes: Vec<f64>,
    /// A second token of a sequence in its first pass.
    second: f64,
}

/// A choice of guesses, with what it is expected to bring.
#[derive(Clone, Debug)]
pub(super) struct Allotment {
    pub(super) grants: Vec<Grant>,
    pub(super) rate: Rate,
}

/// Tokens for nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    tokens: f64,
    nanos: f64,
}

/// One guess of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// The chance that it is wrong: ascending is likeliest first.
    doubt: u32,
    depth: u32,
    sequence: u32,
}

/// Tokens that a step leaves unread anyway: the last guess, and the token after it.
const UNREAD_ALWAYS: u32 = 2;
/// Steps over which the draft model's prefill of a sequence is amortised: about as many as an
/// answer has left.
const UNREAD_STEPS: f64 = 64.0;

impl Outlook {
    /// How many more tokens the draft model's first pass must read, on average, if it guesses at one more place: where
    /// the whole draft was right, nobody has read its last token.
    fn more_unread(&self, depth: usize) -> f64 {
        let all_right = self.survival[Drafter::Model.place()];
        let before = depth.checked_sub(1).map_or(0.0, |before| all_right[before].factor());
        all_right[depth].factor() - before
    }
}

impl Row {
    fn chance(self) -> f64 {
        1.0 - f64::from(self.doubt) / f64::from(Ratio::WHOLE.get())
    }
}

impl Rate {
    fn exceeds(self, other: Self) -> bool {
        self.tokens * other.nanos > other.tokens * self.nanos
    }
}

impl Allotment {
    /// The deepest guess of the draft model.
    pub(super) fn model_depth(&self) -> usize {
        let model = self.grants.iter().filter(|grant| grant.drafter == Drafter::Model);
        model.map(|grant| grant.depth).max().unwrap_or(0)
    }

    /// How many hundredths more than the other it brings.
    pub(super) fn gain_over(&self, other: &Self) -> f64 {
        let (brings, brought) =
            (self.rate.tokens * other.rate.nanos, other.rate.tokens * self.rate.nanos);
        100.0 * (brings / brought.max(f64::MIN_POSITIVE) - 1.0)
    }

    /// Whether it brings at least so many hundredths more than the other.
    pub(super) fn exceeds(&self, other: &Self, hundredths: f64) -> bool {
        let tokens = other.rate.tokens * (1.0 + hundredths / 100.0);
        self.rate.exceeds(Rate { tokens, ..other.rate })
    }
}

impl Field<'_> {
    /// Rows of the step without any guess.
    pub(super) fn base(&self) -> u32 {
        self.decodes + self.prefill
    }

    /// What the target takes without any guess.
    pub(super) fn plain_step(&self) -> Nanos {
        self.costs.verify.at(self.decodes)
    }

    /// What a guess must bring in tokens at this pace, with passes of the draft model for so many sequences.
    pub(super) fn bar(&self, pace: Rate, asked: usize) -> Bar {
        let asked = u32::try_from(asked).unwrap_or(u32::MAX).max(1);
        let priced = |nanos: f64| nanos * pace.tokens / pace.nanos.max(1.0);
        let rows = self.decodes.max(1);
        let row = float(self.costs.guesses(self.base(), rows)) / f64::from(rows);
        let pass = float(self.costs.draft.at(asked)) / f64::from(asked);
        Bar { row: priced(row), pass: priced(pass) }
    }

    /// Without any guess.
    fn plain(&self) -> Rate {
        let tokens = f64::from(self.decodes);
        Rate { tokens, nanos: float(self.plain_step()).max(1.0) }
    }

    /// What so many tokens make others take. Each brings the end of its sequence nearer, and the next one takes up a place
    /// for a step in which it only begins. Nothing is guessed for it there, so of what guesses take only that is
    /// lost which does not become less: what passes take for however few.
    fn ending(&self, tokens: f64, fixed: f64) -> f64 {
        tokens * self.begins * fixed / f64::from(self.decodes.max(1))
    }

    /// What it would take to have the tokens that a grant brings without any guess.
    pub(super) fn tokens_of(&self, grant: &Grant, outlook: &Outlook) -> Nanos {
        let chances = outlook.survival[grant.drafter.place()][..grant.depth.min(DEPTH_MAX)].iter();
        let tokens: f64 = chances.map(|chance| chance.factor()).sum();
        let plain = self.plain();
        nanos(tokens * plain.nanos / plain.tokens.max(f64::MIN_POSITIVE))
    }

    /// What one step has to bear of what the draft model must read of a sequence first.
    fn catching_up(&self, outlook: &Outlook) -> f64 {
        let unread = outlook.unread.max(UNREAD_ALWAYS);
        float(self.costs.reading(unread) - self.costs.reading(UNREAD_ALWAYS)) / UNREAD_STEPS
    }

    /// `depth` tokens for each sequence, or as many as there is room for.
    pub(super) fn even(&self, outlooks: &[Outlook], depth: usize) -> Vec<Grant> {
        let fair = (self.room / self.decodes.max(1)) as usize;
        let most = [depth.min(fair); 2];
        let drafters = self.drafters(self.plain(), outlooks, most);
        let grant = |(outlook, (drafter, _)): (&Outlook, (Drafter, f64))| {
            let place = drafter.place();
            Grant { drafter, depth: most[place].min(outlook.most[place]) }
        };
        outlooks.iter().zip(drafters).map(grant).collect()
    }

    /// Which drafter guesses for each sequence: the one that brings more, less what its passes cost at this pace; and
    /// how much that is, in tokens. The model where nobody else can, even for nothing.
    fn drafters(&self, pace: Rate, outlooks: &[Outlook], most: [usize; 2]) -> Vec<(Drafter, f64)> {
        let [_, model] = most;
        let asked = outlooks.iter().filter(|outlook| 0 < outlook.most[1]).count();
        let asked = u32::try_from(asked).unwrap_or(u32::MAX).max(1);
        // In tokens, at this pace: a pass for one sequence, and what is read for one token.
        let priced = |nanos: f64| nanos * pace.tokens / pace.nanos.max(1.0);
        let pass = priced(float(self.costs.draft.at(asked)) / f64::from(asked));
        let read = priced(self.reading).min(1.0);
        let worth = |outlook: &Outlook, place: usize, price: f64| -> f64 {
            let depth = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            let chances = outlook.survival[place][..depth].iter();
            chances.map(|chance| (chance.factor() - price).max(0.0)).sum()
        };
        // Of what the draft model brings, and of the token that comes anyway, a part pays for reading.
        let modelled = |outlook: &Outlook| -> f64 {
            let brings = worth(outlook, 1, pass);
            let reads = (brings + 1.0) * read + priced(self.catching_up(outlook));
            (brings - reads).max(0.0)
        };
        let choose = |outlook: &Outlook| {
            let only = outlook.most[0] == 0 && 0 < outlook.most[1].min(model);
            let (looked_up, modelled) = (worth(outlook, 0, 0.0), modelled(outlook));
            if only || looked_up < modelled {
                (Drafter::Model, modelled)
            } else {
                (Drafter::Lookup, looked_up)
            }
        };
        outlooks.iter().map(choose).collect()
    }
}

impl<'a> Market<'a> {
    pub(super) fn new(field: &'a Field<'a>, outlooks: &'a [Outlook]) -> Self {
        let most = outlooks.iter().map(|outlook| outlook.most.into_iter().max().unwrap_or(0));
        let rows = most.sum::<usize>().min(field.room as usize);
        let steps = field.costs.steps(field.decodes, field.prefill).take(rows + 1).collect();
        let draft = &field.costs.draft;
        let passes = draft.onwards(0).take(outlooks.len() + 1).collect();
        let count = u32::try_from(outlooks.len()).unwrap_or(u32::MAX / 2).max(1);
        let second = field.costs.second(count);
        Self { field, outlooks, steps, passes, second }
    }

    /// The most tokens a second, with the draft model guessing at most `model_most` tokens.
    pub(super) fn best(&self, model_most: usize) -> Allotment {
        let most = [DEPTH_MAX, model_most];
        let chosen = self.field.drafters(self.field.plain(), self.outlooks, most);
        self.best_of(&chosen, most)
    }

    fn best_of(&self, chosen: &[(Drafter, f64)], most: [usize; 2]) -> Allotment {
        let mut rows = Vec::with_capacity(self.steps.len());
        for ((sequence, outlook), (drafter, worth)) in (0..).zip(self.outlooks).zip(chosen) {
            let place = drafter.place();
            if *worth <= 0.0 {
                continue;
            }
            let depths = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            rows.extend((0..).zip(&outlook.survival[place][..depths]).map(|(depth, chance)| Row {
                doubt: Ratio::WHOLE.get() - chance.get(),
                depth,
                sequence,
            }));
        }
        rows.sort_unstable();
        rows.truncate(self.field.room as usize);
        let (rate, count) = self.best_head(&rows, chosen);
        let mut grants: Vec<Grant> =
            chosen.iter().map(|(drafter, _)| Grant { drafter: *drafter, depth: 0 }).collect();
        for row in &rows[..count] {
            grants[row.sequence as usize].depth += 1;
        }
        Allotment { grants, rate }
    }

    /// How many of the rows bring the most.
    fn best_head(&self, rows: &[Row], chosen: &[(Drafter, f64)]) -> (Rate, usize) {
        let field = self.field;
        let mut best = (field.plain(), 0);
        let mut tokens = f64::from(field.decodes);
        let (mut drafting, mut fixed) = (0.0, 0.0);
        let mut passes = [0; DEPTH_MAX];
        let mut first = float(field.costs.first);
        let read = field.reading;
        for (count, row) in (1..).zip(rows) {
            let chance = row.chance();
            tokens += chance;
            let (sequence, depth) = (row.sequence as usize, row.depth as usize);
            let (outlook, drafter) = (&self.outlooks[sequence], chosen[sequence].0);
            if drafter == Drafter::Model {
                fixed += first;
                drafting += core::mem::take(&mut first);
                let before = passes[depth];
                passes[depth] = before + 1;
                if before == 0 {
                    fixed += self.passes[1];
                }
                drafting += self.passes[before + 1] - self.passes[before];
                drafting += read * chance;
                if depth == 0 {
                    // With the first guess all that the sequence emits has to be read.
                    drafting += read + field.catching_up(outlook);
                }
                drafting += self.second * outlook.more_unread(depth);
            }
            let nanos = self.steps[count] + drafting + field.ending(tokens, fixed);
            let rate = Rate { tokens, nanos };
            if rate.exceeds(best.0) {
                best = (rate, count);
            }
        }
        best
    }
}

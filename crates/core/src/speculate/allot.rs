//! Which guesses bring the most tokens a second?
//!
//! Each further guess of a sequence is a row with a chance: that it and all before it are right. The
//! rows of all sequences stand in one line, the likeliest first, so a sequence's own stay in order;
//! the best head of that line is the one with the most expected tokens for its cost. So depth is
//! decided for each sequence by itself, and one that copies is guessed for while its neighbour, which
//! invents, is not (`docs/design/speculation.md#r4`).

use alloc::vec::Vec;

use super::acceptance::{Acceptance, DEPTH_MAX};
use super::costs::{Nanos, StepCosts, float, nanos};
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
/// What has to be read before a sequence can be guessed for is spread over so many steps: about as many
/// as an answer has left.
const UNREAD_STEPS: f64 = 64.0;
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

    /// Steps begun in for each token, where so many sequences decode: that they all begin together is not mistaken
    /// for a rate.
    pub(super) fn each(self, sequences: u32) -> f64 {
        let least = (BEGINNINGS_MEMORY * u64::from(sequences)) << 16;
        float(self.begun) / float(self.tokens.max(least).max(1))
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

    /// Nanoseconds of it for each token, where so many sequences decode. That they all begin together is not
    /// mistaken for a rate: what they bring is told from when it is spread over as many steps as are
    /// remembered.
    fn each(self, decodes: u32) -> f64 {
        let over = self.tokens.max(READING_MEMORY * u64::from(decodes)).max(1);
        float(self.reads) / float(over)
    }
}

impl Outlook {
    /// How many more tokens the draft model's first pass must read, on average, if it guesses at one more place: where
    /// the whole draft was right, nobody has read its last token.
    fn more_unread(&self, depth: usize) -> f64 {
        let all_right = self.survival[Drafter::Model.place()];
        let before = depth.checked_sub(1).map_or(0.0, |before| all_right[before].part());
        all_right[depth].part() - before
    }
}

impl Row {
    fn chance(self) -> f64 {
        1.0 - f64::from(self.doubt) / f64::from(Share::WHOLE.parts())
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

    /// Whether it brings at least so many hundredths more than the other.
    pub(super) fn exceeds(&self, other: &Self, hundredths: u32) -> bool {
        let tokens = other.rate.tokens * (1.0 + f64::from(hundredths) / 100.0);
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

    /// Without any guess.
    fn plain(&self) -> Rate {
        let tokens = self.lasting(f64::from(self.decodes));
        Rate { tokens, nanos: float(self.plain_step()).max(1.0) }
    }

    /// What so many tokens of a step come to in the end. Each brings the end of its sequence nearer, and
    /// the next one takes up a place for a step in which it only begins: a longer step makes that longer too.
    fn lasting(&self, tokens: f64) -> f64 {
        let decoded = f64::from(self.decodes);
        tokens * decoded / (decoded + tokens * self.begins).max(f64::MIN_POSITIVE)
    }

    /// What it would take to have the tokens that a grant brings without any guess.
    pub(super) fn tokens_of(&self, grant: &Grant, outlook: &Outlook) -> Nanos {
        let chances = outlook.survival[grant.drafter.place()][..grant.depth.min(DEPTH_MAX)].iter();
        let tokens: f64 = chances.map(|chance| chance.part()).sum();
        let plain = self.plain();
        nanos(tokens * plain.nanos / plain.tokens.max(f64::MIN_POSITIVE))
    }

    /// What one step has to bear of what the draft model must read of a sequence first.
    fn catching_up(&self, outlook: &Outlook) -> f64 {
        let draft = &self.costs.draft;
        let unread = outlook.unread.max(UNREAD_ALWAYS);
        float(draft.at(unread) - draft.at(UNREAD_ALWAYS)) / UNREAD_STEPS
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

    /// Who guesses for each sequence: whoever brings more, less what its passes cost at this pace; and
    /// how much that is, in tokens. The model where nobody else can, even for nothing.
    fn drafters(&self, pace: Rate, outlooks: &[Outlook], most: [usize; 2]) -> Vec<(Drafter, f64)> {
        let [_, model] = most;
        let asked = outlooks.iter().filter(|outlook| 0 < outlook.most[1]).count();
        let asked = u32::try_from(asked).unwrap_or(u32::MAX).max(1);
        // In tokens, at this pace: a pass for one sequence, and what is read for one token.
        let priced = |nanos: f64| nanos * pace.tokens / pace.nanos.max(1.0);
        let pass = priced(float(self.costs.draft.at(asked)) / f64::from(asked));
        let read = priced(self.reading.each(self.decodes)).min(1.0);
        let worth = |outlook: &Outlook, place: usize, price: f64| -> f64 {
            let depth = outlook.most[place].min(most[place]).min(DEPTH_MAX);
            let chances = outlook.survival[place][..depth].iter();
            chances.map(|chance| (chance.part() - price).max(0.0)).sum()
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
        // More rows are never dearer by the row; a table may say so where it was measured badly.
        let second = float((draft.at(2 * count) - draft.at(count)).min(draft.at(count)));
        let second = second / f64::from(count);
        Self { field, outlooks, steps, passes, second }
    }

    /// The most tokens a second, with the draft model guessing at most `model_most` tokens.
    pub(super) fn best(&self, model_most: usize) -> Allotment {
        let most = [DEPTH_MAX, model_most];
        let drafters = |pace| self.field.drafters(pace, self.outlooks, most);
        let chosen = drafters(self.field.plain());
        let first = self.best_of(&chosen, most);
        // What a pass of the draft model is worth depends on how fast tokens come without it.
        let again = drafters(first.rate);
        let is_worth = |(drafter, worth): &(Drafter, f64)| (*drafter, 0.0 < *worth);
        if again.iter().map(is_worth).eq(chosen.iter().map(is_worth)) {
            return first;
        }
        let second = self.best_of(&again, most);
        if second.rate.exceeds(first.rate) { second } else { first }
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
                doubt: Share::WHOLE.parts() - chance.parts(),
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
        let (mut drafting, mut passes) = (0.0, [0; DEPTH_MAX]);
        let read = field.reading.each(field.decodes);
        for ((count, row), step) in (1..).zip(rows).zip(&self.steps[1..]) {
            let chance = row.chance();
            tokens += chance;
            let sequence = row.sequence as usize;
            if chosen[sequence].0 == Drafter::Model {
                let pass = &mut passes[row.depth as usize];
                drafting += self.passes[*pass + 1] - self.passes[*pass] + read * chance;
                *pass += 1;
                let outlook = &self.outlooks[sequence];
                if row.depth == 0 {
                    // With the first guess all that the sequence emits has to be read.
                    drafting += read + field.catching_up(outlook);
                }
                drafting += self.second * outlook.more_unread(row.depth as usize);
            }
            let rate = Rate { tokens: field.lasting(tokens), nanos: step + drafting };
            if rate.exceeds(best.0) {
                best = (rate, count);
            }
        }
        best
    }
}

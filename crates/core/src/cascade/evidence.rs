//! Draft confidence: statistics of the log probabilities of a draft's tokens.
//!
//! They are updated token by token while the draft is streamed, in constant time and memory: sums,
//! the worst token and a histogram with eight buckets per octave, which gives quantiles to within
//! an eighth. The whole answer is never kept. Quantiles and not sums of log probabilities, because
//! sums judge long answers by their length (`docs/design/cascade.md#r2`).

use overdraft_units::Tokens;

use super::class::Traits;
use super::features::Features;
use super::probability::{LogProb, Nats};
use crate::estimate::{BUCKETS, LONGEST, bucket_of};

/// How many of the first tokens have a mean of their own: a draft that will fail is often uncertain
/// early.
pub(super) const FIRST_TOKENS: u32 = 8;

/// Margin between the two likeliest tokens below which a token counts as uncertain: half a nat.
const THIN: Nats = Nats::micronats(500_000);

/// How many of the most surprising tokens are kept.
const WORST_KEPT: usize = 4;

/// Resolution of the histogram of surprisal: 64 millionths of a nat.
const STEP_LOG2: u32 = 6;

/// One token of the draft, as its engine reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The log probability of the sampled token.
    pub logprob: LogProb,
    /// The margin between the likeliest token and the second; `None` where only one was reported.
    pub margin: Option<Nats>,
    /// The entropy over the reported alternatives; nothing where there are none.
    pub entropy: Option<Nats>,
    /// Whether a digit is in what was said: words can be put otherwise and be as right, a number cannot.
    pub digit: bool,
}

/// How the draft ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// It has not.
    #[default]
    Running,
    /// It said that it was done.
    Stop,
    /// It was cut at the most tokens allowed.
    Length,
    /// It called a tool.
    Tools,
}

/// What was seen of one draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub(super) traits: Traits,
    pub(super) finish: Finish,
    pub(super) tokens: u32,
    /// Surprise of all tokens, in millionths of a nat.
    pub(super) sum: u64,
    /// Surprise of the first ones.
    pub(super) first: u64,
    /// The most surprising tokens, the worst first.
    worst: [Nats; WORST_KEPT],
    /// Tokens with a digit, and the surprise of the worst of them.
    pub(super) digits: (u32, Nats),
    /// Tokens whose margin is known, and those among them where it is thin.
    pub(super) margins: (u32, u32),
    /// The thinnest margin; nothing where none is known.
    pub(super) thinnest: Option<Nats>,
    /// Tokens whose entropy is known, and its sum.
    pub(super) entropy: (u32, u64),
    histogram: [u32; BUCKETS],
    /// Where the first window ends, and the features there.
    window: Tokens,
    early: Option<Features>,
}

impl Evidence {
    /// None yet, of a request like that whose first window has so many tokens.
    pub const fn new(traits: Traits, window: Tokens) -> Self {
        Self {
            traits,
            finish: Finish::Running,
            tokens: 0,
            sum: 0,
            first: 0,
            worst: [Nats::micronats(0); WORST_KEPT],
            digits: (0, Nats::micronats(0)),
            margins: (0, 0),
            thinnest: None,
            entropy: (0, 0),
            histogram: [0; BUCKETS],
            window,
            early: None,
        }
    }

    /// Takes note of the next token.
    pub fn observe(&mut self, seen: Observation) {
        let surprise = seen.logprob.surprise();
        let micronats = u64::from(surprise.get());
        if self.tokens < FIRST_TOKENS {
            self.first += micronats;
        }
        self.tokens = self.tokens.saturating_add(1);
        self.sum = self.sum.saturating_add(micronats);
        self.note_worst(surprise);
        if seen.digit {
            self.digits = (self.digits.0.saturating_add(1), self.digits.1.max(surprise));
        }
        self.histogram[bucket_of(surprise.get() >> STEP_LOG2)] += 1;
        if let Some(margin) = seen.margin {
            self.margins.0 = self.margins.0.saturating_add(1);
            self.margins.1 = self.margins.1.saturating_add(u32::from(margin < THIN));
            self.thinnest = Some(self.thinnest.map_or(margin, |least| least.min(margin)));
        }
        if let Some(entropy) = seen.entropy {
            self.entropy.0 = self.entropy.0.saturating_add(1);
            self.entropy.1 = self.entropy.1.saturating_add(u64::from(entropy.get()));
        }
        if self.tokens == self.window.get() {
            self.early = Some(self.features());
        }
    }

    fn note_worst(&mut self, surprise: Nats) {
        let mut next = surprise;
        for kept in &mut self.worst {
            if *kept < next {
                core::mem::swap(kept, &mut next);
            }
        }
    }

    /// Takes note of how it ended.
    pub const fn finish(&mut self, finish: Finish) {
        self.finish = finish;
    }

    /// How many tokens were seen.
    pub const fn tokens(&self) -> Tokens {
        Tokens::new(self.tokens)
    }

    /// What is known of the request.
    pub const fn traits(&self) -> &Traits {
        &self.traits
    }

    /// How it ended, or that it has not.
    pub const fn finished(&self) -> Finish {
        self.finish
    }

    /// The mean log probability of a token; certain before the first.
    pub fn mean(&self) -> LogProb {
        let mean = self.sum.checked_div(u64::from(self.tokens)).unwrap_or(0);
        LogProb::micronats(-i64::try_from(mean).unwrap_or(i64::MAX))
    }

    /// The surprise that so many of a hundred tokens exceed, rounded up by at most an eighth: 5 gives
    /// the log probability's 5 % quantile.
    pub fn surprise_exceeded_by(&self, percent: u32) -> Nats {
        let beyond = u64::from(self.tokens) * u64::from(percent.min(100)) / 100;
        let mut passed = 0;
        for (count, longest) in self.histogram.iter().zip(LONGEST).rev() {
            passed += u64::from(*count);
            if beyond < passed {
                let upper = Nats::micronats((longest + 1).saturating_mul(1 << STEP_LOG2));
                return upper.min(self.worst());
            }
        }
        Nats::default()
    }

    /// The surprise of the most surprising token; none before the first.
    pub(super) const fn worst(&self) -> Nats {
        self.worst[0]
    }

    /// The surprise of the fourth of the most surprising tokens; none where there are fewer.
    pub(super) const fn fourth_worst(&self) -> Nats {
        self.worst[WORST_KEPT - 1]
    }

    /// The features at the end of the first window; nothing before it was full.
    pub const fn first_window(&self) -> Option<Features> {
        self.early
    }

    /// The features of what was seen so far.
    pub fn features(&self) -> Features {
        Features::of(self)
    }
}

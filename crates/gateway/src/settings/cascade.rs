//! Cascade settings: draft and target models, quality target and acceptance threshold.

use std::collections::{BTreeMap, BTreeSet};

use overdraft_core::cascade::{Mode, Path, Settings, Shadow};
use overdraft_core::cost::{Pools, Prices, Shape, Verification, break_even};
use overdraft_units::{Ratio, Tokens};

use super::cascade_log::CascadeLog;

/// What requests are taken to be like before any was seen: a page of prompt, half a page of answer.
const TYPICAL: Shape = Shape {
    prompt: Tokens::new(1_000),
    cached_draft: Tokens::ZERO,
    cached_target: Tokens::ZERO,
    completion: Tokens::new(250),
};

/// How an answer comes to be known as good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// It says the same, or the same JSON; another is worse.
    #[default]
    Match,
    /// Of two that say different things the target is asked which is better.
    Judge,
}

/// A small model that is asked first, and the one that answers otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadeSettings {
    /// The model that is asked first.
    pub draft: String,
    /// The model whose answers clients expect.
    pub target: String,
    /// What a draft's answer is good for.
    pub mode: Mode,
    /// The share of requests that may get a worse answer than the target's.
    pub loss: Ratio,
    /// The score from which on a draft's answer is given; `None` finds it by comparing answers.
    pub threshold: Option<Ratio>,
    /// How much longer than for the target alone clients may wait on average; `None` lets them wait.
    pub slowdown: Option<Ratio>,
    /// Draft tokens before the first is given out.
    pub first_window: u32,
    /// Draft tokens before each further lot.
    pub next_window: u32,
    /// How the target is asked to score drafts; `None` asks each worker the cheapest way that it has.
    pub scoring: Option<Path>,
    /// Tokens of a prompt from which the target reads it while the draft still speaks; without them, never.
    pub prefill_from: Option<Tokens>,
    /// Whether the draft may answer though it makes other tokens than the target.
    pub any_tokenizers: bool,
    /// How answers are compared in the background.
    pub labels: Labels,
    /// How often answers are compared in the background.
    pub shadow: Shadow,
    /// Comparisons at once, at most.
    pub at_once: usize,
    /// What tokens cost, where that is known: of the draft, then of the target.
    pub prices: Option<[Prices; 2]>,
    /// Tenants whose requests always go to the target.
    pub tenants_out: BTreeSet<String>,
    /// Where its events and what followed are kept, if anywhere; no configuration key.
    pub log: Option<CascadeLog>,
}

/// The models that are asked first and are nobody's target: where they are out, the target answers.
pub(crate) fn drafts(
    cascades: &BTreeMap<String, CascadeSettings>,
) -> impl Iterator<Item = String> + use<'_> {
    let is_target = |model: &str| cascades.values().any(|cascade| cascade.target == model);
    let drafts = cascades.values().map(|cascade| &cascade.draft);
    drafts.filter(move |draft| !is_target(draft)).cloned()
}

impl CascadeSettings {
    /// A gate of `draft` before `target` with everything else at its default.
    pub fn new(draft: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            draft: draft.into(),
            target: target.into(),
            mode: Mode::Gate,
            loss: Ratio::percent(1),
            threshold: None,
            slowdown: Some(Ratio::percent(3)),
            first_window: 24,
            next_window: 48,
            scoring: None,
            prefill_from: None,
            any_tokenizers: false,
            labels: Labels::default(),
            shadow: Shadow::default(),
            at_once: 4,
            prices: None,
            tenants_out: BTreeSet::new(),
            log: None,
        }
    }

    /// The share of accepted drafts from which typical requests cost less, where prices are known.
    pub(crate) fn break_even(&self) -> Option<Ratio> {
        let [draft, target] = self.prices?;
        let pools = Pools { draft, target, ..Pools::default() };
        let how = match self.mode {
            Mode::Verify => Verification::Whole,
            _ => Verification::None,
        };
        let reach = break_even(&TYPICAL, &pools, how).money?;
        Some(reach.share().unwrap_or(Ratio::WHOLE))
    }
}

/// As the core has them.
impl From<&CascadeSettings> for Settings {
    fn from(own: &CascadeSettings) -> Self {
        let default = Self::default();
        Self {
            mode: own.mode,
            loss: own.loss,
            break_even: own.break_even().unwrap_or(default.break_even),
            shadow: own.shadow,
            first: Tokens::new(own.first_window),
            abort_below: default.abort_below,
            slowdown: own.slowdown,
        }
    }
}

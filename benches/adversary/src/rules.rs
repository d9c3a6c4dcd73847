//! Pass bounds: how much worse one run may be than another.

use crate::figures::{Figures, float};

/// Milliseconds by which first tokens of a full fleet may be later whatever share that is.
const LATER_MS: f64 = 50.0;
/// Preemptions that are too few to count.
const PREEMPTED_FEW: f64 = 20.0;

/// How many times the base's figure one may be: at least for `tokens` and `found`, at most for the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rules {
    pub(crate) tokens: Option<f64>,
    pub(crate) found: Option<f64>,
    pub(crate) ttft: Option<f64>,
    /// The same, where first tokens may always be later by a little.
    pub(crate) ttft_or_little: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) tpot_p99: Option<f64>,
    pub(crate) end: Option<f64>,
    /// How much greater a share of all may be refused.
    pub(crate) refused: Option<f64>,
    /// The share of requests that may be preempted.
    pub(crate) preempted: Option<f64>,
    /// Nobody is refused where the base has room for all.
    pub(crate) takes_what_fits: bool,
}

impl Rules {
    /// Everything goes.
    pub(crate) const NONE: Self = Self {
        tokens: None,
        found: None,
        ttft: None,
        ttft_or_little: None,
        p95: None,
        tpot_p99: None,
        end: None,
        refused: None,
        preempted: None,
        takes_what_fits: false,
    };

    /// A fleet that is full must stay warm.
    pub(crate) const FULL_FLEET: Self = Self {
        tokens: Some(0.99),
        found: Some(0.97),
        ttft_or_little: Some(1.2),
        preempted: Some(0.005),
        takes_what_fits: true,
        ..Self::NONE
    };

    /// What is wrong with `ours`.
    pub(crate) fn faults(&self, base: &Figures, ours: &Figures) -> Vec<&'static str> {
        let below =
            |most: Option<f64>, base: f64, ours: f64| most.is_some_and(|times| ours < times * base);
        let above =
            |most: Option<f64>, base: f64, ours: f64| most.is_some_and(|times| times * base < ours);
        let refused = |one: &Figures| float(one.refused) / float(one.asked.max(1));
        let preempted = |share: f64| PREEMPTED_FEW.max(share * float(ours.asked));
        let found = [
            (below(self.tokens, base.tokens, ours.tokens), "fewer tokens"),
            (below(self.found, base.found, ours.found), "prefixes lost"),
            (
                self.refused.is_some_and(|more| more < refused(ours) - refused(base))
                    || (self.takes_what_fits && base.preempted == 0 && 0 < ours.refused),
                "refuses what fits",
            ),
            (
                self.preempted.is_some_and(|share| preempted(share) < float(ours.preempted)),
                "preempts",
            ),
            (
                above(self.ttft, base.ttft, ours.ttft)
                    || (above(self.ttft_or_little, base.ttft, ours.ttft)
                        && base.ttft + LATER_MS < ours.ttft),
                "first tokens later",
            ),
            (above(self.p95, base.ttft_p95, ours.ttft_p95), "first tokens of many later"),
            (above(self.tpot_p99, base.tpot_p99, ours.tpot_p99), "answers falter"),
            (above(self.end, base.end, ours.end), "answers end later"),
        ];
        found.into_iter().filter_map(|(is, what)| is.then_some(what)).collect()
    }
}

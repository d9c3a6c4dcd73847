//! Cost accounting: what one request cost, and what the target alone would have cost.
//!
//! The cost adds up over the calls and is recorded once, when the answer has ended, in the access
//! line and the metrics.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::cascade::Path;
use overdraft_core::cost::{Bill, Money, Prices, Usage};
use overdraft_otlp::Attribute;
use overdraft_telemetry::metrics::CascadeMetrics;
use overdraft_units::Tokens;

use super::CascadeLayer;
use super::response_writer::Counts;
use super::state::CascadeState;
use crate::dispatch::Used;
use crate::pipeline::canary::Side;
use crate::pipeline::facts::{FALLBACK, RequestFacts, SharedFacts};
use crate::pipeline::request_guard::Books;

/// Picodollars in a millionth of a dollar.
const PICO_IN_MICRO: u64 = 1_000_000;

/// The books of one request.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct CostAccount {
    layer: Arc<CascadeLayer>,
    state: Arc<CascadeState>,
    tenant: String,
    facts: SharedFacts,
    /// Tokens of its prompt as they were estimated.
    estimated: Tokens,
    drafted: Option<Usage>,
    told: Option<Used>,
    /// The target read the prompt while the draft spoke.
    prefilled: Option<Usage>,
    scored: Vec<Usage>,
    /// How the target was asked for the last score.
    scored_by: Option<Path>,
    /// What the target was asked beyond scores.
    target: Vec<Usage>,
    /// What it was asked to go on behind, and what it has said by now.
    continuing: Option<Usage>,
    pub(super) served: &'static str,
    closed: bool,
    /// Whether nobody waits for what is done.
    background: bool,
    /// The side of a comparison that the request is on.
    side: Option<Side>,
    /// Whether what the answer is worth will be found out.
    pub(super) is_compared: bool,
}

impl CostAccount {
    pub(super) fn new(
        layer: &Arc<CascadeLayer>,
        state: &Arc<CascadeState>,
        tenant: &str,
        facts: &SharedFacts,
        estimated: Tokens,
    ) -> Self {
        Self {
            layer: Arc::clone(layer),
            state: Arc::clone(state),
            tenant: tenant.to_owned(),
            facts: facts.clone(),
            estimated,
            drafted: None,
            told: None,
            prefilled: None,
            scored: Vec::new(),
            scored_by: None,
            target: Vec::new(),
            continuing: None,
            served: "target",
            closed: false,
            background: false,
            side: None,
            is_compared: false,
        }
    }

    /// Books of a request that is on this side of a comparison.
    #[must_use]
    pub(super) fn on(mut self, side: Option<Side>) -> Self {
        self.side = side;
        self
    }

    /// Books for what is done for the same request in the background.
    pub(super) fn of_shadow(&self) -> Self {
        let mut books =
            Self::new(&self.layer, &self.state, &self.tenant, &self.facts, self.estimated);
        (books.served, books.background) = ("shadow", true);
        books
    }

    /// The draft has said so much so far, to a prompt of so many tokens where it told them.
    pub(super) fn drafted(&mut self, used: Option<Used>, prompt: Option<Tokens>, count: Tokens) {
        self.told = used.or(self.told);
        self.drafted = Some(usage(used, prompt.unwrap_or(self.estimated), count));
    }

    /// The target has read the prompt beside the draft.
    pub(super) const fn prefilled(&mut self, usage: Usage) {
        self.prefilled = Some(usage);
    }

    /// The target is asked to score the last of so many tokens: all of them read anew until it tells otherwise.
    pub(super) fn scoring(&mut self, tokens: usize) {
        let prompt = Tokens::new(u32::try_from(tokens).unwrap_or(u32::MAX));
        self.scored.push(Usage { prompt, cached: Tokens::ZERO, completion: Tokens::new(1) });
    }

    /// It refused, and read nothing.
    pub(super) fn unscored(&mut self) {
        self.scored.pop();
    }

    /// It told a score when it was asked that way, and perhaps what it read, what of that was cached and what it said.
    pub(super) fn scored(&mut self, path: Path, told: Option<[Tokens; 3]>) {
        self.scored_by = Some(path);
        if let (Some(last), Some([prompt, cached, completion])) = (self.scored.last_mut(), told) {
            *last = Usage { prompt, cached: cached.min(prompt), completion };
        }
    }

    /// The target is asked to go on behind so many tokens: it reads all of them. What another worker said before stays.
    pub(super) fn continued(&mut self, tokens: usize) {
        self.target.extend(self.continuing.take());
        let prompt = Tokens::new(u32::try_from(tokens).unwrap_or(u32::MAX));
        self.continuing = Some(Usage { prompt, ..Usage::default() });
    }

    /// It failed before it said anything, which costs nothing.
    pub(super) const fn not_continued(&mut self) {
        self.continuing = None;
    }

    /// It has said so much by now.
    pub(super) fn continues(&mut self, used: Option<Used>, count: Tokens) {
        let prompt = self.continuing.map_or(Tokens::ZERO, |asked| asked.prompt);
        self.continuing = Some(usage(used, prompt, count));
    }

    /// It said so much then.
    pub(super) fn completed(&mut self, used: Option<Used>, count: Tokens) {
        self.continues(used, count);
        self.target.extend(self.continuing.take());
    }

    /// A stream ends before its answer does, because its client has left, for instance: this is what was told.
    pub(super) fn told_part(&self, Counts { prompt, completion }: Counts) {
        if !self.closed && !self.background {
            self.facts.note(|record| {
                (record.prompt, record.completion) = (Some(prompt), Some(completion));
            });
        }
    }

    /// Tokens of the prompt, as the draft counted them.
    pub(super) fn prompt(&self) -> Option<Tokens> {
        self.told.map(|used| used.prompt)
    }

    /// What the draft's whole answer came to.
    pub(super) fn counts_of_draft(&self) -> Option<Counts> {
        self.told.map(|used| Counts { prompt: used.prompt, completion: used.completion })
    }

    /// Closes the books over an answer whose tokens are known.
    pub(super) fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.target.extend(self.continuing.take());
        let served = self.served;
        if !self.background {
            self.facts.note(|record| {
                record.served_by = Some(served);
                record.scored_by = self.scored_by.map(Path::name);
            });
            self.facts
                .trace()
                .event("overdraft.cascade", || vec![Attribute::new("overdraft.served_by", served)]);
        }
        let side = self.side.take();
        if let Some(side) = side.as_ref().filter(|_| !self.is_compared) {
            side.judged(None);
        }
        let Some(bill) = self.bill() else { return };
        let micro = |money: Money| money.get() / PICO_IN_MICRO;
        let (paid, alone) = (micro(bill.paid()), micro(bill.target_only));
        if !self.background {
            self.facts.note(|record| {
                record.cost = Some(paid);
                record.cost_alone = Some(alone);
            });
        }
        if let Some(side) = side {
            side.cost(bill.paid());
        }
        let metrics: &CascadeMetrics = &self.layer.metrics;
        metrics.charged(&self.state.name, &self.tenant, served, paid, alone);
    }

    /// What all of it came to; nothing where a price is not known.
    fn bill(&self) -> Option<Bill> {
        let [draft, target] = self.state.settings.prices?;
        let known = if self.background { RequestFacts::default() } else { self.facts.known() };
        let counts = known.prompt.zip(known.completion);
        let answer = |prices: Prices, cached: Option<Tokens>| {
            counts.map_or(Money::ZERO, |(prompt, completion)| {
                let cached = cached.unwrap_or_default();
                prices.of(Usage { prompt, cached, completion })
            })
        };
        let sum = |usages: &[Usage]| {
            usages.iter().fold(Money::ZERO, |sum, usage| sum + target.of(*usage))
        };
        // What its own prefill left in the cache the target would have had to read.
        let prefilled = self.prefilled.and(known.cached);
        let alone = answer(target, self.prefilled.map(|usage| usage.cached));
        let (answered, alone) = match self.served {
            "target" => (answer(target, prefilled), alone),
            // The target gave no answer, so that nothing is spared by another model's.
            FALLBACK => {
                let settings = self.layer.pipeline.settings();
                let prices = settings.prices.of_model(known.priced_as()?, &settings.cascades)?;
                let answered = answer(prices, known.cached);
                (answered, answered)
            }
            _ => (Money::ZERO, alone),
        };
        // What it said behind a draft may be no part of the answer: it was worked for all the same.
        let beside =
            self.prefilled.map_or(Money::ZERO, |usage| target.of(usage)) + sum(&self.target);
        Some(Bill {
            draft: self.drafted.map_or(Money::ZERO, |usage| draft.of(usage)),
            verify: sum(&self.scored),
            target: beside + answered,
            target_only: alone,
        })
    }
}

impl Drop for CostAccount {
    fn drop(&mut self) {
        // For a client that leaves early, workers have still worked.
        self.close();
    }
}

/// Books over an answer of the target. Who relays it closes them at its end, and the request's guard where that goes
/// first: metrics and log count what the access line has.
#[derive(Clone, Debug)]
pub(super) struct SharedAccount(Arc<Mutex<CostAccount>>);

impl SharedAccount {
    pub(super) fn new(account: CostAccount) -> Self {
        Self(Arc::new(Mutex::new(account)))
    }

    /// Another model stands in for the target.
    pub(super) fn falls_back(&self) {
        self.account().served = FALLBACK;
    }

    fn account(&self) -> MutexGuard<'_, CostAccount> {
        // What a panic left half booked is still worth closing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books for SharedAccount {
    fn close(&self) {
        self.account().close();
    }
}

fn usage(used: Option<Used>, prompt: Tokens, completion: Tokens) -> Usage {
    used.map_or(Usage { prompt, cached: Tokens::ZERO, completion }, |used| Usage {
        prompt: used.prompt,
        cached: used.cached.unwrap_or_default(),
        completion: used.completion,
    })
}

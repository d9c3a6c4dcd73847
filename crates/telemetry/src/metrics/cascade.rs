//! Cascade metrics.
//!
//! Cascades and words are bounded by the configuration and by this program, tenants by a cap, for a token may name any;
//! no label is what a client wrote.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::label_cap::LabelCap;
use super::registry::DescribedRegistry;

type Word = [(&'static str, &'static str); 1];
type Of = [(&'static str, String); 1];
type OfWord = [(&'static str, String); 2];
type OfThree = [(&'static str, String); 3];
type RatioGauge = Gauge<f64, AtomicU64>;

/// Tokens of an accepted beginning: from a word to a long answer.
const PREFIX_TOKENS: [f64; 10] = [0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// One cascade as it is at a scrape.
#[derive(Clone, Debug)]
pub struct CascadeGauges {
    /// Its name.
    pub cascade: String,
    /// Whether drafts may be given.
    pub on: bool,
    /// Answers of the draft that were given, of those that were judged of late.
    pub acceptance: Option<f64>,
    /// The share of answers that are worse than the target's: likeliest, low and high.
    pub loss: [f64; 3],
    /// Comparisons learnt from.
    pub labels: u64,
    /// The least share of requests that are compared now.
    pub shadow: f64,
    /// The share of accepted drafts from which it pays, where prices are known.
    pub break_even: Option<f64>,
}

/// The catalogue of cascades.
#[derive(Debug)]
pub struct CascadeMetrics {
    tenants: Arc<LabelCap>,
    answers: Family<OfWord, Counter>,
    excluded: Family<OfWord, Counter>,
    windows: Family<Of, Counter>,
    prefix: Family<Of, Histogram>,
    steps_saved: Family<Of, Counter>,
    ties: Family<Of, Counter>,
    scores: Family<OfThree, Counter>,
    unproven: Family<Of, Counter>,
    shadows: Family<OfWord, Counter>,
    prefills: Family<OfWord, Counter>,
    cost: Family<OfThree, Counter>,
    saving: Family<OfThree, Gauge>,
    on: Family<Of, Gauge>,
    acceptance: Family<Of, RatioGauge>,
    loss: Family<OfWord, RatioGauge>,
    labels: Family<Of, Gauge>,
    shadow: Family<Of, RatioGauge>,
    break_even: Family<Of, RatioGauge>,
    parity: Family<OfWord, Gauge>,
    faults: Family<Word, Counter>,
}

fn prefixes() -> Histogram {
    Histogram::new(PREFIX_TOKENS)
}

impl CascadeMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry, tenants: &Arc<LabelCap>) -> Self {
        let metrics = Self {
            tenants: Arc::clone(tenants),
            answers: Family::default(),
            excluded: Family::default(),
            windows: Family::default(),
            prefix: Family::new_with_constructor(prefixes),
            steps_saved: Family::default(),
            ties: Family::default(),
            scores: Family::default(),
            unproven: Family::default(),
            shadows: Family::default(),
            prefills: Family::default(),
            cost: Family::default(),
            saving: Family::default(),
            on: Family::default(),
            acceptance: Family::default(),
            loss: Family::default(),
            labels: Family::default(),
            shadow: Family::default(),
            break_even: Family::default(),
            parity: Family::default(),
            faults: Family::default(),
        };
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_cascade_answers",
            "Requests to a cascade, by whose answer was given and why",
            self.answers.clone(),
        );
        registry.register(
            "overdraft_cascade_excluded",
            "Requests that never meet a draft, by why",
            self.excluded.clone(),
        );
        registry.register(
            "overdraft_cascade_windows_released",
            "Lots of draft tokens that were given out after they had been judged",
            self.windows.clone(),
        );
        registry.register(
            "overdraft_cascade_accepted_prefix_tokens",
            "Draft tokens of an answer that the target accepted",
            self.prefix.clone(),
        );
        registry.register(
            "overdraft_cascade_target_steps_saved",
            "Tokens of answers that the target did not have to say itself",
            self.steps_saved.clone(),
        );
        registry.register(
            "overdraft_cascade_ties",
            "Draft tokens that were accepted as just as likely, though the target would have said another",
            self.ties.clone(),
        );
        registry.register(
            "overdraft_cascade_scores",
            "Scores that the target was asked for, by the way it was asked and what came of it",
            self.scores.clone(),
        );
        registry.register(
            "overdraft_cascade_unproven",
            "Drafts that were cut where the score did not show whether the target would have said the same",
            self.unproven.clone(),
        );
        registry.register(
            "overdraft_cascade_shadows",
            "Comparisons in the background, by what came of them",
            self.shadows.clone(),
        );
        registry.register(
            "overdraft_cascade_prefills",
            "Prompts that the target was asked to read beside the draft, by what came of it",
            self.prefills.clone(),
        );
        registry.register(
            "overdraft_cascade_cost_microusd",
            "What requests to a cascade cost, in millionths of a dollar",
            self.cost.clone(),
        );
        registry.register(
            "overdraft_cascade_draft_faults",
            "Drafts that were of no use, by why",
            self.faults.clone(),
        );
    }

    fn register_gauges(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_cascade_saving_microusd",
            "What asking the target alone would have cost beyond that, in millionths of a dollar",
            self.saving.clone(),
        );
        registry.register(
            "overdraft_cascade_on",
            "1 while drafts may be given, 0 where comparisons have shown that they do harm or no good",
            self.on.clone(),
        );
        registry.register(
            "speculative_acceptance_ratio",
            "Drafts whose answer was given, of those judged in the last five minutes; absent where none were and while the cascade is off",
            self.acceptance.clone(),
        );
        registry.register(
            "overdraft_cascade_quality_loss",
            "Share of answers that are worse than the target's, with the bounds of its interval",
            self.loss.clone(),
        );
        registry.register(
            "overdraft_cascade_labels",
            "Comparisons that were learnt from",
            self.labels.clone(),
        );
        registry.register(
            "overdraft_cascade_shadow_share",
            "The least share of requests that are compared now",
            self.shadow.clone(),
        );
        registry.register(
            "overdraft_cascade_break_even",
            "Share of accepted drafts from which the cascade costs less than the target alone",
            self.break_even.clone(),
        );
        registry.register(
            "overdraft_cascade_parity",
            "1 for what is known of the two models' tokenizers: same, different, unknown",
            self.parity.clone(),
        );
    }

    /// A request was answered by `served` (`draft`, `verified`, `target`), because of `reason`.
    pub fn answered(&self, cascade: &str, outcome: &'static str) {
        self.answers.get_or_create(&of_word(cascade, "outcome", outcome)).inc();
    }

    /// A request never meets a draft.
    pub fn excluded(&self, cascade: &str, reason: &'static str) {
        self.excluded.get_or_create(&of_word(cascade, "reason", reason)).inc();
    }

    /// A lot of draft tokens was given out.
    pub fn released(&self, cascade: &str) {
        self.windows.get_or_create(&of(cascade)).inc();
    }

    /// So many draft tokens of an answer were accepted, which spared the target as many steps.
    pub fn accepted(&self, cascade: &str, tokens: u32) {
        self.prefix.get_or_create(&of(cascade)).observe(f64::from(tokens));
        self.steps_saved.get_or_create(&of(cascade)).inc_by(tokens.into());
    }

    /// So many draft tokens were accepted that the target would have said otherwise by a hair.
    pub fn tied(&self, cascade: &str, tokens: u64) {
        self.ties.get_or_create(&of(cascade)).inc_by(tokens);
    }

    /// This came of asking the target for a score by that path.
    pub fn scored(&self, cascade: &str, path: &'static str, outcome: &'static str) {
        let labels = [
            ("cascade", cascade.to_owned()),
            ("path", path.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        self.scores.get_or_create(&labels).inc();
    }

    /// A draft was cut where nothing could be shown.
    pub fn unproven(&self, cascade: &str) {
        self.unproven.get_or_create(&of(cascade)).inc();
    }

    /// This came of a comparison.
    pub fn compared(&self, cascade: &str, result: &'static str) {
        self.shadows.get_or_create(&of_word(cascade, "result", result)).inc();
    }

    /// This came of having the target read a prompt beside the draft.
    pub fn prefilled(&self, cascade: &str, outcome: &'static str) {
        self.prefills.get_or_create(&of_word(cascade, "outcome", outcome)).inc();
    }

    /// A draft was of no use.
    pub fn draft_failed(&self, why: &'static str) {
        self.faults.get_or_create(&[("kind", why)]).inc();
    }

    /// A request of `tenant` cost so much, and the target alone would have cost `alone`.
    pub fn charged(
        &self,
        cascade: &str,
        tenant: &str,
        served: &'static str,
        cost: u64,
        alone: u64,
    ) {
        let labels = [
            ("cascade", cascade.to_owned()),
            ("tenant", self.tenants.admit(tenant).to_owned()),
            ("served_by", served.to_owned()),
        ];
        self.cost.get_or_create(&labels).inc_by(cost);
        let (cost, alone) = (i64::try_from(cost), i64::try_from(alone));
        let saving = alone.unwrap_or(i64::MAX).saturating_sub(cost.unwrap_or(i64::MAX));
        self.saving.get_or_create(&labels).inc_by(saving);
    }

    /// Sets the gauges anew.
    pub fn set(&self, cascades: &[CascadeGauges], parities: &[(String, &'static str)]) {
        self.on.clear();
        self.acceptance.clear();
        self.loss.clear();
        self.labels.clear();
        self.shadow.clear();
        self.break_even.clear();
        self.parity.clear();
        for one in cascades {
            let name = one.cascade.as_str();
            self.on.get_or_create(&of(name)).set(i64::from(one.on));
            if let Some(share) = one.acceptance {
                self.acceptance.get_or_create(&of(name)).set(share);
            }
            for (bound, share) in ["estimate", "low", "high"].into_iter().zip(one.loss) {
                self.loss.get_or_create(&of_word(name, "bound", bound)).set(share);
            }
            self.labels.get_or_create(&of(name)).set(i64::try_from(one.labels).unwrap_or(i64::MAX));
            self.shadow.get_or_create(&of(name)).set(one.shadow);
            if let Some(share) = one.break_even {
                self.break_even.get_or_create(&of(name)).set(share);
            }
        }
        for (name, word) in parities {
            self.parity.get_or_create(&of_word(name, "state", word)).set(1);
        }
    }
}

fn of(cascade: &str) -> Of {
    [("cascade", cascade.to_owned())]
}

fn of_word(cascade: &str, key: &'static str, word: &'static str) -> OfWord {
    [("cascade", cascade.to_owned()), (key, word.to_owned())]
}

//! Speculative decoding metrics, under vLLM's names where it has them.
//!
//! Registered only where an engine can guess, as vLLM does. Counts are the engine's own, copied at each
//! scrape.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use super::single::OptionalGauge;
use super::worker::{MetricNames, RatioGauge, ratio};

type Position = [(&'static str, String); 1];
type Word = [(&'static str, &'static str); 1];

/// The engine's counts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeculationFacts {
    /// Drafts verified.
    pub drafts: u64,
    /// Tokens of those.
    pub draft_tokens: u64,
    /// Of those, right ones.
    pub accepted_tokens: u64,
    /// Guesses of the draft model that were not worth verifying.
    pub dropped_tokens: u64,
    /// Right ones by their place in the draft.
    pub accepted_per_position: Vec<u64>,
    /// Share of drafted tokens that were right, since the start.
    pub acceptance_rate: f64,
    /// The same of late; none where nothing was drafted.
    pub recent_acceptance: Option<f64>,
    /// Tokens a sequence yields in a step, on average.
    pub tokens_per_step: f64,
    /// The depth in force.
    pub depth: u32,
    /// Seconds spent on guessing.
    pub draft_seconds: f64,
    /// Seconds the target spent in steps that only decode.
    pub verify_seconds: f64,
    /// The rule in force.
    pub policy: &'static str,
    /// Why the depth last changed.
    pub reason: &'static str,
    /// How often it did.
    pub changes: u64,
}

/// The catalogue of a worker that guesses ahead.
#[derive(Debug, Default)]
pub(super) struct SpeculationMetrics {
    drafts: Counter,
    draft_tokens: Counter,
    accepted_tokens: Counter,
    dropped_tokens: Counter,
    per_position: Family<Position, Counter>,
    acceptance_rate: OptionalGauge,
    tokens_per_step: RatioGauge,
    depth: Gauge,
    draft_seconds: Counter<f64, AtomicU64>,
    verify_seconds: Counter<f64, AtomicU64>,
    policy: Family<Word, Gauge>,
    reason: Family<Word, Gauge>,
    changes: Counter,
    /// Those of vLLM 0.6.
    old: OldMetrics,
}

/// What only vLLM up to 0.6 tells.
#[derive(Debug, Default)]
struct OldMetrics {
    acceptance: RatioGauge,
    efficiency: RatioGauge,
    emitted: Counter,
}

impl SpeculationMetrics {
    /// Registers everything for the model of this name.
    pub(super) fn new(registry: &mut Registry, model: &str, names: MetricNames) -> Self {
        let metrics = Self::default();
        // Its name and its label are this project's own.
        let own = registry.sub_registry_with_label(("model".into(), model.to_owned().into()));
        let help =
            "Accepted of drafted tokens of the last five minutes; absent where none were drafted";
        put(own, "vllm_spec_acceptance_rate", help, &metrics.acceptance_rate);
        let labels =
            [("model_name".into(), model.to_owned().into()), ("engine".into(), "0".into())];
        let to = registry.sub_registry_with_labels(labels.into_iter());
        metrics.expose_counts(to);
        metrics.expose_state(to);
        match names {
            MetricNames::Current => {}
            MetricNames::Both => metrics.old.expose(to),
            MetricNames::V06 => {
                let label = ("model_name".into(), model.to_owned().into());
                metrics.old.expose(registry.sub_registry_with_label(label));
            }
        }
        metrics
    }

    fn expose_counts(&self, to: &mut Registry) {
        put(to, "vllm:spec_decode_num_drafts", "Number of spec decoding drafts", &self.drafts);
        let help = "Number of draft tokens";
        put(to, "vllm:spec_decode_num_draft_tokens", help, &self.draft_tokens);
        let help = "Number of accepted tokens";
        put(to, "vllm:spec_decode_num_accepted_tokens", help, &self.accepted_tokens);
        let help = "Accepted tokens per draft position";
        put(to, "vllm:spec_decode_num_accepted_tokens_per_pos", help, &self.per_position);
    }

    fn expose_state(&self, to: &mut Registry) {
        let help = "Depth of drafts in force, in tokens; steps that explore do not change it";
        put(to, "overdraft_speculation_depth", help, &self.depth);
        let help = "Tokens a decoding sequence yields in a step, on average since the start";
        put(to, "overdraft_speculation_tokens_per_step", help, &self.tokens_per_step);
        let help = "Guesses of the draft model that were not worth verifying";
        put(to, "overdraft_speculation_dropped_tokens", help, &self.dropped_tokens);
        let help = "Time spent on drafts";
        put(to, "overdraft_speculation_draft_seconds", help, &self.draft_seconds);
        let help = "Time the target spent in steps that only decode";
        put(to, "overdraft_speculation_verify_seconds", help, &self.verify_seconds);
        let help = "The rule in force is one, the others are zero";
        put(to, "overdraft_speculation_policy", help, &self.policy);
        let help = "The reason of the last change of depth is one, the others are zero";
        put(to, "overdraft_speculation_last_change", help, &self.reason);
        let help = "Changes of the depth that the policy allows";
        put(to, "overdraft_speculation_depth_changes", help, &self.changes);
    }

    /// Takes over the engine's counts.
    pub(super) fn update(&self, facts: &SpeculationFacts) {
        set(&self.drafts, facts.drafts);
        set(&self.draft_tokens, facts.draft_tokens);
        set(&self.accepted_tokens, facts.accepted_tokens);
        set(&self.dropped_tokens, facts.dropped_tokens);
        for (position, count) in facts.accepted_per_position.iter().enumerate() {
            let label = [("position", position.to_string())];
            set(&self.per_position.get_or_create_owned(&label), *count);
        }
        self.acceptance_rate.set(facts.recent_acceptance);
        self.tokens_per_step.set(facts.tokens_per_step);
        self.depth.set(i64::from(facts.depth));
        self.draft_seconds.inner().store(facts.draft_seconds.to_bits(), Ordering::Relaxed);
        self.verify_seconds.inner().store(facts.verify_seconds.to_bits(), Ordering::Relaxed);
        only(&self.policy, "policy", &POLICIES, facts.policy);
        only(&self.reason, "reason", &REASONS, facts.reason);
        set(&self.changes, facts.changes);
        self.old.update(facts);
    }
}

impl OldMetrics {
    fn expose(&self, to: &mut Registry) {
        let help = "Speculative token acceptance rate";
        put(to, "vllm:spec_decode_draft_acceptance_rate", help, &self.acceptance);
        let help = "Speculative decoding system efficiency";
        put(to, "vllm:spec_decode_efficiency", help, &self.efficiency);
        let help = "Number of emitted tokens";
        put(to, "vllm:spec_decode_num_emitted_tokens", help, &self.emitted);
    }

    /// A verified draft emits what is right of it and one token more; the most it could emit is all of
    /// it and that one.
    fn update(&self, facts: &SpeculationFacts) {
        let emitted = facts.accepted_tokens + facts.drafts;
        let most = facts.draft_tokens + facts.drafts;
        self.acceptance.set(facts.acceptance_rate);
        self.efficiency.set(ratio(emitted, most));
        set(&self.emitted, emitted);
    }
}

/// Rules, as the engine names them.
const POLICIES: [&str; 6] =
    ["off", "fixed", "threshold", "threshold-per-token", "batch-table", "goodput"];
/// Reasons of a change, as the engine names them.
const REASONS: [&str; 6] = ["start", "policy", "pays-more", "pays-less", "cache-full", "queue"];

/// One for this word, zero for the others.
fn only(family: &Family<Word, Gauge>, label: &'static str, words: &[&'static str], word: &str) {
    for known in words {
        let gauge = family.get_or_create_owned(&[(label, *known)]);
        gauge.set(i64::from(*known == word));
    }
}

fn set(counter: &Counter, count: u64) {
    counter.inner().store(count, Ordering::Relaxed);
}

fn put<M: Metric + Clone>(to: &mut Registry, name: &'static str, help: &'static str, metric: &M) {
    to.register(name, help, metric.clone());
}

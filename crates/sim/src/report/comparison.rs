//! Paired comparison of two labels: which differences between them may be chance.
//!
//! Runs of one seed have the same load, so figures are compared seed by seed: what both labels owe
//! to the seed cancels out. Two labels can be told apart by a figure where the interval that holds the mean
//! difference with 95 % confidence does not hold zero.

use serde_json::{Map, Value, json};

use super::summary::{FIGURES, Summary};
use super::{Estimate, Report};

/// Figures that warnings name; JSON has all.
const TOLD: [&str; 8] = [
    "request_goodput",
    "output_throughput",
    "cached_share",
    "refused_share",
    "mean_ttft_ms",
    "p95_ttft_ms",
    "median_tpot_ms",
    "median_e2el_ms",
];

/// Lines of warnings at most.
const LINES_MAX: usize = 12;

/// Two labels by one figure.
struct Difference {
    key: &'static str,
    title: &'static str,
    /// The second label's figure less the first one's.
    estimate: Estimate,
    seeds: usize,
}

/// What a figure says of two labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// They differ by more than chance.
    Apart,
    /// They differ by no more than chance may.
    Alike,
    /// They do not differ with any seed.
    Equal,
}

impl Difference {
    fn verdict(&self) -> Verdict {
        let (mean, half) = (self.estimate.mean, self.estimate.half.unwrap_or(f64::INFINITY));
        if half < mean.abs() {
            Verdict::Apart
        } else if mean.abs() + half == 0.0 {
            Verdict::Equal
        } else {
            Verdict::Alike
        }
    }
}

/// The figures that two labels have for the same seeds; none for fewer than two seeds.
fn differences(one: &[(u64, Summary)], other: &[(u64, Summary)]) -> Vec<Difference> {
    let of = |seed: &u64| other.iter().find(|(known, _)| known == seed).map(|(_, summary)| summary);
    let pairs: Vec<(&Summary, &Summary)> =
        one.iter().filter_map(|(seed, summary)| Some((summary, of(seed)?))).collect();
    if pairs.len() < 2 {
        return Vec::new();
    }
    let difference = |figure: &super::summary::Figure| {
        let differences: Vec<f64> =
            pairs.iter().map(|(one, other)| (figure.value)(other) - (figure.value)(one)).collect();
        let estimate = Estimate::of(&differences);
        let (key, title, seeds) = (figure.key, figure.title, pairs.len());
        estimate.mean.is_finite().then_some(Difference { key, title, estimate, seeds })
    };
    FIGURES.iter().filter_map(difference).collect()
}

/// Every two labels of a report, with what they differ by.
fn pairs(report: &Report) -> Vec<(&str, &str, Vec<Difference>)> {
    let summaries = |label: &str| -> Vec<(u64, Summary)> {
        report.labelled(label).map(|run| (run.seed, run.summary(&report.objectives))).collect()
    };
    let labels: Vec<_> = report.labels().map(|label| (label, summaries(label))).collect();
    let mut pairs = Vec::new();
    for (place, (one, first)) in labels.iter().enumerate() {
        for (other, second) in &labels[place + 1..] {
            pairs.push((*one, *other, differences(first, second)));
        }
    }
    pairs
}

/// A line for every two labels that some figure does not tell apart, and one where nothing can be said.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let pairs = pairs(report);
    if !pairs.is_empty() && pairs.iter().all(|(_, _, differences)| differences.is_empty()) {
        let why =
            "one seed: nothing tells which differences are more than chance (`--seeds 5` does)";
        return vec![why.to_owned()];
    }
    let mut lines = Vec::new();
    for (one, other, differences) in &pairs {
        let alike = |difference: &&Difference| {
            TOLD.contains(&difference.key) && difference.verdict() == Verdict::Alike
        };
        let titles: Vec<&str> =
            differences.iter().filter(alike).map(|difference| difference.title).collect();
        let Some(seeds) = differences.first().map(|difference| difference.seeds) else { continue };
        if !titles.is_empty() {
            let told = titles.join(", ");
            lines.push(format!(
                "{one} and {other} cannot be told apart with {seeds} seeds by: {told}"
            ));
        }
    }
    if LINES_MAX < lines.len() {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!(
            "{more} more pairs cannot be told apart by some figure; the JSON has all"
        ));
    }
    lines
}

/// All pairs and figures, for JSON.
pub(super) fn json_of(report: &Report) -> Value {
    let figure = |difference: &Difference| {
        let verdict = match difference.verdict() {
            Verdict::Apart => "apart",
            Verdict::Alike => "cannot_be_told_apart",
            Verdict::Equal => "equal",
        };
        let Estimate { mean, half } = difference.estimate;
        let told = json!({ "mean_difference": mean, "ci95": half, "verdict": verdict });
        (difference.key.to_owned(), told)
    };
    let pair = |(one, other, differences): &(&str, &str, Vec<Difference>)| {
        let figures: Map<String, Value> = differences.iter().map(figure).collect();
        json!({
            "labels": [one, other],
            "seeds": differences.first().map(|difference| difference.seeds),
            "figures": figures,
        })
    };
    let pairs = pairs(report);
    pairs.iter().filter(|(_, _, differences)| !differences.is_empty()).map(pair).collect()
}

//! Paired comparison of two labels: which differences between them may be chance.
//!
//! Runs of one seed have the same load, so figures are compared seed by seed: what both labels owe
//! to the seed cancels out. Two labels can be told apart by a figure where the interval that holds the mean
//! difference with 95 % confidence does not hold zero. Where the seed changes neither, there is no interval:
//! all pairs are one.

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

/// The runs of a label.
struct Side<'a> {
    label: &'a str,
    is_one_history: bool,
    /// By seed.
    summaries: Vec<(u64, Summary)>,
}

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
        let Estimate { mean, half } = self.estimate;
        if half.is_some_and(|half| half < mean.abs()) {
            Verdict::Apart
        } else if mean.abs() + half.unwrap_or(0.0) == 0.0 {
            Verdict::Equal
        } else {
            Verdict::Alike
        }
    }
}

/// The figures that two labels have for the same seeds; none for fewer than two seeds.
fn differences(one: &Side<'_>, other: &Side<'_>) -> Vec<Difference> {
    let of = |seed: &u64| {
        let mut known = other.summaries.iter();
        known.find(|(known, _)| known == seed).map(|(_, summary)| summary)
    };
    let pairs: Vec<(&Summary, &Summary)> =
        one.summaries.iter().filter_map(|(seed, summary)| Some((summary, of(seed)?))).collect();
    if pairs.len() < 2 {
        return Vec::new();
    }
    let is_one_pair = one.is_one_history && other.is_one_history;
    let difference = |figure: &super::summary::Figure| {
        let less =
            |(one, other): &(&Summary, &Summary)| (figure.value)(other) - (figure.value)(one);
        // Where one of a pair has no such figure, it says nothing of both.
        let known = pairs.iter().map(less).filter(|difference| difference.is_finite());
        let differences: Vec<f64> = known.collect();
        let Estimate { mean, half } = Estimate::of(&differences);
        let estimate = Estimate { mean, half: half.filter(|_| !is_one_pair) };
        let (key, title, seeds) = (figure.key, figure.title, differences.len());
        (1 < seeds).then_some(Difference { key, title, estimate, seeds })
    };
    FIGURES.iter().filter_map(difference).collect()
}

/// Every two labels of a report, with what they differ by.
fn pairs(report: &Report) -> Vec<(&str, &str, Vec<Difference>)> {
    let side = |label| {
        let runs = report.labelled(label);
        let summaries = runs.map(|run| (run.seed, run.summary(&report.objectives))).collect();
        Side { label, is_one_history: report.is_one_history(label), summaries }
    };
    let sides: Vec<Side<'_>> = report.labels().map(side).collect();
    let mut pairs = Vec::new();
    for (place, one) in sides.iter().enumerate() {
        for other in &sides[place + 1..] {
            pairs.push((one.label, other.label, differences(one, other)));
        }
    }
    pairs
}

/// A line on the labels whose seeds are one history; none where there are none.
fn unchanged(report: &Report) -> Option<String> {
    let labels: Vec<&str> = report.labels().filter(|label| report.is_one_history(label)).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "the seed changes nothing of {}: its runs are one history, and nothing tells which \
             differences are more than chance (`--request-rate` draws arrivals, `--from` takes another \
             part of a trace)",
            labels.join(", ")
        )
    })
}

/// A line for every two labels that some figure does not tell apart, and one where nothing can be said.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let pairs = pairs(report);
    if !pairs.is_empty() && pairs.iter().all(|(_, _, differences)| differences.is_empty()) {
        let why =
            "one seed: nothing tells which differences are more than chance (`--seeds 5` does)";
        return vec![why.to_owned()];
    }
    let mut lines: Vec<String> = unchanged(report).into_iter().collect();
    for (one, other, differences) in &pairs {
        let alike = |difference: &&Difference| {
            let is_told = TOLD.contains(&difference.key) && difference.estimate.half.is_some();
            is_told && difference.verdict() == Verdict::Alike
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

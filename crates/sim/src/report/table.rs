//! Reports for a terminal, in the words of vLLM's benchmark.

use std::fmt::Write as _;

use super::cause::Unanswered;
use super::counts::Counts;
use super::summary::{FIGURES, Spread, Summary, shown};
use super::{Estimate, Origin, Report, Run, breakdown, comparison};

/// Columns of vLLM's block.
const WIDTH: usize = 50;

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    if report.origin == Origin::Simulated {
        text.push_str("SIMULATED: figures of a model, nothing was measured\n");
    }
    if let [run] = report.runs.as_slice() {
        block(&mut text, report, run);
    } else {
        compared(&mut text, report);
    }
    for line in notes(report) {
        let _written = writeln!(text, "{line}");
    }
    for label in report.labels() {
        let runs: Vec<&Run> = report.labelled(label).collect();
        breakdown::text(&mut text, label, &runs, &report.objectives);
    }
    text
}

/// What a reader must know of the figures: whose latencies they are, which goodput nothing tells, and which
/// differences may be chance.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let several = 1 < report.labels().count();
    let of = |label: &str, told: String| if several { format!("{label}: {told}") } else { told };
    let unanswered = |label: &str| {
        let told = Unanswered::of(report.labelled(label).map(|run| &run.recorder)).sentence()?;
        Some(of(label, told))
    };
    let mut notes: Vec<String> = report.labels().filter_map(unanswered).collect();
    let unjudged = |label: &str| {
        let mut samples = report.labelled(label).flat_map(|run| run.recorder.samples());
        let tells_all = samples.all(|sample| report.objectives.can_tell_of(sample));
        let told = "some answers were not streamed, so nothing tells how many requests were good";
        (!tells_all).then(|| of(label, told.to_owned()))
    };
    notes.extend(report.labels().filter_map(unjudged));
    let warn = |warning: String| format!("warning: {warning}");
    notes.extend(comparison::warnings(report).into_iter().map(warn));
    notes
}

/// One run.
fn block(text: &mut String, report: &Report, run: &Run) {
    let summary = run.summary(&report.objectives);
    let title = match report.origin {
        Origin::Measured => " Serving Benchmark Result ",
        Origin::Simulated => " Simulated Benchmark Result ",
    };
    let _written = writeln!(text, "{title:=^WIDTH$}");
    counts(text, &summary);
    for (title, name, spread) in [
        ("Time to First Token", "TTFT", summary.ttft),
        ("Time per Output Token (excl. 1st token)", "TPOT", summary.tpot),
        ("Inter-token Latency", "ITL", summary.itl),
        ("End-to-end Latency", "E2EL", summary.e2el),
        ("Client-side Send Lag", "lag", summary.lag),
    ] {
        spread_block(text, title, name, spread);
    }
    let _written = writeln!(text, "{:=^WIDTH$}", "");
}

fn counts(text: &mut String, summary: &Summary) {
    let mut line = |title: &str, value: String| {
        let _written = writeln!(text, "{title:<40} {value:<9}");
    };
    line("Successful requests:", summary.completed.to_string());
    line("Refused requests:", summary.refused.to_string());
    line("Failed requests:", summary.failed.to_string());
    line("Benchmark duration (s):", format!("{:.2}", summary.duration));
    line("Total input tokens:", summary.input_tokens.to_string());
    if let Some(cached) = summary.cached_tokens {
        line("Input tokens found in caches:", cached.to_string());
    }
    line("Total generated tokens:", summary.output_tokens.to_string());
    line("Request throughput (req/s):", format!("{:.2}", summary.request_throughput()));
    if let Some(good) = summary.good {
        line("Request goodput (req/s):", format!("{:.2}", summary.goodput()));
        let share = shown(summary.good_share() * 100.0, 1);
        line("Good of all offered:", format!("{good} of {} ({share} %)", summary.offered));
    }
    line("Output token throughput (tok/s):", format!("{:.2}", summary.output_throughput()));
    for (title, count) in summary.counts.map(Counts::lines).unwrap_or_default() {
        line(title, count.to_string());
    }
    if summary.cost.is_some() {
        let cost = shown(summary.cost_per_million(), 3);
        line("Cost ($ per million output tokens):", cost);
    }
    let peak = shown(summary.peak_output_throughput, 2);
    line("Peak output token throughput (tok/s):", peak);
    line("Peak concurrent requests:", summary.peak_concurrency.to_string());
    line("Total Token throughput (tok/s):", format!("{:.2}", summary.total_throughput()));
}

fn spread_block(text: &mut String, title: &str, name: &str, spread: Spread) {
    let _written = writeln!(text, "{title:-^WIDTH$}");
    for (what, value) in [
        ("Mean", spread.mean),
        ("Median", spread.median),
        ("P90", spread.p90),
        ("P95", spread.p95),
        ("P99", spread.p99),
    ] {
        let title = format!("{what} {name} (ms):");
        let _written = writeln!(text, "{title:<40} {:<9}", shown(value, 2));
    }
}

/// Several labels, a column each.
fn compared(text: &mut String, report: &Report) {
    let labels: Vec<&str> = report.labels().collect();
    let columns: Vec<Vec<String>> = labels
        .iter()
        .map(|label| report.estimates(label).into_iter().map(|one| one.to_string()).collect())
        .collect();
    let width = |(label, column): (&&str, &Vec<String>)| {
        let widest = column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(label.chars().count())
    };
    let widths: Vec<usize> = labels.iter().zip(&columns).map(width).collect();
    let _written = write!(text, "{:<34}", "");
    for (label, width) in labels.iter().zip(&widths) {
        let _written = write!(text, "  {label:>width$}");
    }
    text.push('\n');
    for (place, figure) in FIGURES.iter().enumerate() {
        if columns.iter().all(|column| figure.leaves_out(&column[place])) {
            continue;
        }
        let _written = write!(text, "{:<34}", figure.title);
        for (column, width) in columns.iter().zip(&widths) {
            let _written = write!(text, "  {:>width$}", column[place]);
        }
        text.push('\n');
    }
    if let Some(means) = means(report) {
        let _written = writeln!(text, "means over {means}");
    }
}

/// Over how many seeds columns are means, and what ± is where there is one; none where each is of one run.
pub(super) fn means(report: &Report) -> Option<String> {
    let counts: Vec<_> =
        report.labels().map(|label| (label, report.labelled(label).count())).collect();
    let most = counts.iter().map(|(_, count)| *count).max().filter(|most| 1 < *most)?;
    let seeds = if counts.iter().all(|(_, count)| *count == most) {
        format!("{most} seeds")
    } else {
        // What was recorded has no seeds.
        let each: Vec<String> =
            counts.iter().map(|(label, count)| format!("{label}: {count}")).collect();
        format!("seeds ({})", each.join(", "))
    };
    let varies = |(label, count): &(&str, usize)| 1 < *count && !report.is_one_history(label);
    let interval = "; ± holds the mean with 95 % confidence";
    Some(if counts.iter().any(varies) { seeds + interval } else { seeds })
}

/// `123.4 ±5.6`, or a dash where there is no figure.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.mean.is_finite() {
            return f.write_str("-");
        }
        let digits = if 1_000.0 <= self.mean.abs() { 0 } else { 2 };
        write!(f, "{:.digits$}", self.mean)?;
        match self.half {
            Some(half) => write!(f, " ±{half:.digits$}"),
            None => Ok(()),
        }
    }
}

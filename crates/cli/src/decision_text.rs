//! Routing decision in words: what was decided, and each candidate in a line.

use overdraft_dash::views::{Candidate, Decision};

/// What was decided, and what became of it.
pub(crate) fn sentence(decision: &Decision) -> String {
    let after = time(Some(decision.after_ms));
    let what = match (&decision.worker, &decision.saturation) {
        (Some(worker), _) if decision.by == "trial" => {
            format!("sent to {worker} to find out whether it still fails")
        }
        (Some(worker), _) if decision.sticky => format!("sent to {worker} by its session"),
        (Some(worker), _) => format!("sent to {worker} by {}", decision.policy),
        (None, Some(saturation)) => format!(
            "saturated: needs {} tokens, the most free is {}; waits for {}, {}",
            saturation.asked_tokens,
            saturation.free_tokens,
            saturation.waits_for,
            time(Some(saturation.retry_after_ms))
        ),
        (None, None) => decision.choice.replace('_', " "),
    };
    let prefix =
        decision.prefix.as_deref().map(|fate| format!("; prefix {}", fate.replace('_', " ")));
    let turn =
        if decision.out_of_turn { "; before its turn, its prompt was in use there" } else { "" };
    let failed = decision.failed.as_deref().map(|kind| format!("; the attempt failed: {kind}"));
    format!(
        "after {after}: {what}{}{turn}{}",
        prefix.unwrap_or_default(),
        failed.unwrap_or_default()
    )
}

/// One candidate: why it was chosen or not, and what spoke for it.
pub(crate) fn candidate_line(decision: &Decision, one: &Candidate) -> String {
    let score = match one.score {
        None if matches!(decision.by.as_str(), "session" | "trial") => "-".to_owned(),
        None => "more".to_owned(),
        Some(0) if !matches!(one.reason.as_str(), "chosen" | "outscored") => "-".to_owned(),
        Some(score) if decision.policy == "cost" => time(Some(milliseconds(score))),
        Some(score) => score.to_string(),
    };
    let free = one.free_tokens.map_or_else(|| "?".to_owned(), |free| free.to_string());
    format!(
        "  {:<16} {:<12} {score:>9}  cached {:>6}  before {:>6}  free {free:>7}",
        one.worker,
        one.reason.replace('_', " "),
        one.cached_tokens,
        one.queued_tokens
    )
}

#[expect(clippy::cast_precision_loss, reason = "a cost is shown to a millisecond")]
fn milliseconds(us: u64) -> f64 {
    us as f64 / 1_000.0
}

/// A duration in the unit that fits.
pub(crate) fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 1_000.0 => format!("{ms:.0} ms"),
        Some(ms) if ms < 100_000.0 => format!("{:.1} s", ms / 1_000.0),
        Some(ms) => format!("{:.0} s", ms / 1_000.0),
    }
}

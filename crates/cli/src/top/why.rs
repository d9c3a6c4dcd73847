//! Why page of `overdraft top`: one request, and the decisions about it.

use overdraft_dash::views::{Candidate, Decision, RequestDetail};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::draw::{bold, dim, time};
use super::requests::utc;

/// The request and its decisions.
pub(super) fn paragraph(detail: &RequestDetail) -> Paragraph<'_> {
    let row = &detail.row;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let count = |count: Option<u32>| count.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut lines = vec![
        Line::from(format!(
            "{}  ended {} UTC  {} {}",
            row.id,
            utc(row.ended_ms),
            row.end,
            row.status
        ))
        .style(bold()),
        Line::from(format!(
            "{}  model {}  tenant {}  {}",
            row.route,
            text(&row.model),
            row.tenant.as_deref().unwrap_or("other"),
            text(&row.priority)
        )),
        Line::from(format!(
            "prompt {} tokens, {} cached; answer {} tokens; queued {}, first token {}, total {}",
            count(row.prompt_tokens),
            count(row.cached_tokens),
            count(row.completion_tokens),
            time(row.queued_ms),
            time(row.ttft_ms),
            time(Some(row.total_ms))
        )),
    ];
    if let Some(why) = &detail.refusal {
        lines.push(Line::from(format!("refused, {}: {why}", text(&row.refused))).style(bold()));
    }
    if detail.decisions.is_empty() {
        lines.push(Line::from("no worker was looked for").style(dim()));
    }
    for decision in &detail.decisions {
        lines.push(Line::default());
        lines.push(Line::from(sentence(decision)));
        lines.extend(decision.candidates.iter().map(|one| candidate(decision, one)));
        if 0 < decision.candidates_left_out {
            let more = format!("  and {} more that lost by more", decision.candidates_left_out);
            lines.push(Line::from(more).style(dim()));
        }
    }
    Paragraph::new(lines).wrap(Wrap { trim: false })
}

fn sentence(decision: &Decision) -> String {
    let after = time(Some(decision.after_ms));
    let by = if decision.sticky { "its session" } else { &decision.policy };
    let what = match (&decision.worker, &decision.saturation) {
        (Some(worker), _) => format!("sent to {worker} by {by}"),
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
    let failed = decision.failed.as_deref().map(|kind| format!("; the attempt failed: {kind}"));
    format!("after {after}: {what}{}{}", prefix.unwrap_or_default(), failed.unwrap_or_default())
}

fn candidate(decision: &Decision, one: &Candidate) -> Line<'static> {
    let score = match one.score {
        None => "more".to_owned(),
        Some(0) if !matches!(one.reason.as_str(), "chosen" | "outscored") => "-".to_owned(),
        Some(score) if decision.policy == "cost" => time(Some(milliseconds(score))),
        Some(score) => score.to_string(),
    };
    let free = one.free_tokens.map_or_else(|| "?".to_owned(), |free| free.to_string());
    let line = format!(
        "  {:<16} {:<12} {score:>9}  cached {:>6}  before {:>6}  free {free:>7}",
        one.worker,
        one.reason.replace('_', " "),
        one.cached_tokens,
        one.queued_tokens
    );
    let line = Line::from(line);
    if one.reason == "chosen" { line.style(bold()) } else { line }
}

#[expect(clippy::cast_precision_loss, reason = "a cost is shown to a millisecond")]
fn milliseconds(us: u64) -> f64 {
    us as f64 / 1_000.0
}

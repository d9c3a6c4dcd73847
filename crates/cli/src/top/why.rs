//! Why page of `overdraft top`: one request, and the decisions about it.

use overdraft_dash::views::{Candidate, Decision, RequestDetail};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::draw::{bold, dim};
use super::requests::utc;
use crate::decision_text::{candidate_line, sentence, time};

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
        lines.push(Line::from("no routing decision was made").style(dim()));
    }
    for decision in &detail.decisions {
        lines.push(Line::default());
        lines.push(Line::from(sentence(decision)));
        lines.extend(decision.candidates.iter().map(|one| candidate(decision, one)));
        if 0 < decision.candidates_left_out {
            let more =
                format!("  and {} more candidates with worse scores", decision.candidates_left_out);
            lines.push(Line::from(more).style(dim()));
        }
    }
    Paragraph::new(lines).wrap(Wrap { trim: false })
}

fn candidate(decision: &Decision, one: &Candidate) -> Line<'static> {
    let line = Line::from(candidate_line(decision, one));
    if one.reason == "chosen" { line.style(bold()) } else { line }
}

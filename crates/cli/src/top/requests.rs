//! Requests page of `overdraft top`.

use overdraft_dash::views::{RequestRow, RequestsView};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Row, Table, TableState};

use super::draw::{bold, short};
use crate::decision_text::time;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &RequestsView,
    selected: &mut TableState,
) {
    let head = ["ended", "end", "model", "tenant", "worker", "prompt", "out", "first", "total"];
    let widths = [
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    let table = Table::new(view.rows.iter().map(row), widths)
        .header(Row::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, selected);
}

fn row(one: &RequestRow) -> Row<'static> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let tokens = |count: Option<u32>| count.map_or_else(|| "-".to_owned(), |n| short(n.into()));
    let worker = match one.cache.as_deref() {
        Some(cache @ ("hit" | "coalesced")) => format!("cache {cache}"),
        _ => text(&one.worker),
    };
    Row::new(vec![
        utc(one.ended_ms),
        format!("{} {}", one.end, one.status),
        text(&one.model),
        one.tenant.clone().unwrap_or_else(|| "other".to_owned()),
        worker,
        tokens(one.prompt_tokens),
        tokens(one.completion_tokens),
        time(one.ttft_ms),
        time(Some(one.total_ms)),
    ])
}

/// The time of day by UTC.
pub(super) fn utc(ms: u64) -> String {
    let seconds = ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

//! Fleet page of `overdraft top`.

use overdraft_dash::views::{FleetView, WorkerRow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::draw::{bold, short};
use crate::decision_text::time;

/// Characters of a memory bar.
const BAR: usize = 8;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &FleetView, selected: &mut TableState) {
    let head = ["worker", "state", "kv use > peak", "reqs", "wait", "prefill", "p95", "age"];
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Length(20),
        Constraint::Length(4),
        Constraint::Length(4),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    let table = Table::new(view.workers.iter().map(row), widths)
        .header(Row::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, selected);
}

fn row(worker: &WorkerRow) -> Row<'static> {
    let (mark, word) = state(worker);
    let colour = match mark {
        "!" => Color::Red,
        "~" => Color::Yellow,
        _ => Color::Green,
    };
    let requests = u64::from(worker.requests) + u64::from(worker.requests_foreign);
    let waiting = worker.waiting.map_or_else(|| "-".to_owned(), |waiting| waiting.to_string());
    Row::new(vec![
        Cell::from(worker.worker.clone()),
        Cell::from(format!("{mark} {word}")).style(Style::new().fg(colour)),
        Cell::from(memory(worker)),
        Cell::from(short(requests)),
        Cell::from(waiting),
        Cell::from(short(worker.queued_tokens)),
        Cell::from(time(worker.ttft_p95_ms)),
        Cell::from(time(worker.age_ms.map(as_ms))),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "an age is shown to a tenth of a second")]
fn as_ms(ms: u64) -> f64 {
    ms as f64
}

/// A mark and a word for a worker's state: `!` ill, `~` worth a look, `.` well.
pub(super) fn state(worker: &WorkerRow) -> (&'static str, String) {
    let word = worker.state.replace('_', " ");
    match worker.state.as_str() {
        "up" if worker.breaker != "closed" => ("!", format!("out, {}", worker.breaker)),
        "up" if worker.is_late => ("~", "late".to_owned()),
        "up" => (".", word),
        "draining" | "unproven" => ("~", word),
        _ => ("!", word),
    }
}

/// Use of a worker's cache, in thousandths.
pub(super) fn use_permille(worker: &WorkerRow) -> Option<u64> {
    worker.kv_used_tokens?.saturating_mul(1_000).checked_div(worker.kv_capacity_tokens?)
}

/// `######|...  .62 > .71`: in use, then the predicted peak.
fn memory(worker: &WorkerRow) -> String {
    let Some(used) = use_permille(worker) else { return "not told".to_owned() };
    let capacity = worker.kv_capacity_tokens.unwrap_or(0);
    let peak =
        worker.kv_peak_tokens.and_then(|peak| peak.saturating_mul(1_000).checked_div(capacity));
    let place = |permille: u64| {
        let places = u64::try_from(BAR).unwrap_or(0);
        usize::try_from(permille * places / 1_000).unwrap_or(BAR).min(BAR)
    };
    let mut bar = "#".repeat(place(used)) + &".".repeat(BAR - place(used));
    if let Some(peak) = peak {
        let at = place(peak).min(BAR - 1);
        bar.replace_range(at..=at, "|");
    }
    let percent = |permille: u64| permille / 10;
    match peak {
        Some(peak) => format!("{bar} {}% > {}%", percent(used), percent(peak)),
        None => format!("{bar} {}%", percent(used)),
    }
}

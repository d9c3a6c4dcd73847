//! Frame of `overdraft top`: verdict, what needs an operator's eyes, the page, keys.

use overdraft_dash::conditions::Severity;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::link::Shown;
use super::screen::{Page, Screen};
use super::{fleet, requests, why};
use crate::decision_text::time;

/// Conditions that are listed.
const CONDITIONS_MAX: usize = 3;

/// Draws the whole frame.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let conditions = u16::try_from(screen.now.conditions.len().min(CONDITIONS_MAX)).unwrap_or(0);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(conditions),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [verdict, listed, page, keys] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(headline(screen)), verdict);
    frame.render_widget(Paragraph::new(conditions_of(screen)), listed);
    let selected = &mut screen.selected;
    match &screen.shown {
        Shown::Nothing => frame.render_widget(Paragraph::new("asking…"), page),
        Shown::Fleet(view) => fleet::draw(frame, page, view, selected),
        Shown::Requests(view) => requests::draw(frame, page, view, selected),
        Shown::Why(detail) => frame.render_widget(why::paragraph(detail), page),
    }
    frame.render_widget(Paragraph::new(footer(screen)).style(dim()), keys);
}

/// The state in one sentence.
fn headline(screen: &Screen) -> Line<'_> {
    let now = &screen.now;
    if let Some(why) = &screen.lost {
        return Line::from(format!("! the gateway does not answer, these figures are old: {why}"))
            .style(bold());
    }
    let act = now.conditions.iter().filter(|one| one.severity == Severity::Act).count();
    let word = match (act, now.conditions.len()) {
        (0, 0) => "OK".to_owned(),
        (0, watch) => format!("~ {watch} to watch"),
        (act, _) => format!("! {act} to act on"),
    };
    let figures = format!(
        "  {} in flight  {} waiting  {} refused, {} failed in 5 min  first token p95 {}",
        now.serving,
        now.waiting,
        now.refused_5m,
        now.failed_5m,
        time(now.ttft_p95_ms)
    );
    Line::from(vec![Span::styled(word, bold()), Span::raw(figures)])
}

fn conditions_of(screen: &Screen) -> Vec<Line<'_>> {
    let mark = |severity| if severity == Severity::Act { "!" } else { "~" };
    let listed = screen.now.conditions.iter().take(CONDITIONS_MAX);
    listed.map(|one| Line::from(format!("{} {}", mark(one.severity), one.text))).collect()
}

fn footer(screen: &Screen) -> String {
    let page = match screen.page() {
        Page::Fleet => "fleet",
        Page::Requests => "requests",
        Page::Why(_) => "why",
    };
    let held = if screen.is_held() { "  HELD" } else { "" };
    let order = screen.order.name();
    format!("{page}{held}  f fleet  r requests  j k Enter why  s sort: {order}  p hold  q quit")
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// A count in thousands and millions where it is long.
pub(super) fn short(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

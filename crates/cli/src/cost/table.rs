//! Table of a log's cost for a terminal.

use std::fmt::Write as _;

use super::figures::{Basis, Figures, Share};
use crate::plain_text::plain;

/// Width of names and of numbers.
const NAME: usize = 34;
const NUMBER: usize = 14;

/// Rows of one group that are told; the rest is added up.
const ROWS_MAX: usize = 20;

pub(super) fn table(figures: &Figures) -> String {
    let mut text = String::new();
    total(&mut text, figures);
    spared(&mut text, figures);
    let used = figures.used();
    group(&mut text, "by tenant", &figures.tenants, used);
    group(&mut text, "by model", &figures.models, used);
    group(&mut text, "by pool", &figures.pools, used);
    workers(&mut text, figures);
    notes(&mut text, figures);
    text
}

fn row(text: &mut String, name: &str, cells: &[String]) {
    let _written = write!(text, "{:<NAME$}", cut(&plain(name)));
    for cell in cells {
        let _written = write!(text, "{cell:>NUMBER$}");
    }
    text.push('\n');
}

/// A long name keeps its end, which tells it apart.
fn cut(name: &str) -> String {
    let count = name.chars().count();
    if count < NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 2 - NAME).collect();
    format!("…{end}")
}

fn total(text: &mut String, figures: &Figures) {
    let of = |part: f64| percent(part, figures.paid);
    row(text, &format!("{} requests", figures.requests), &["$".to_owned(), "share".to_owned()]);
    match figures.basis {
        Basis::Hours => {
            let paid = format!("the fleet, {:.3} worker hours", figures.hours);
            row(text, &paid, &[dollars(figures.paid), of(figures.paid)]);
            row(text, "  used by requests", &[dollars(figures.used()), of(figures.used())]);
            if 0.0 < figures.others {
                row(text, "  used by other models", &[dollars(figures.others), of(figures.others)]);
            }
            let idle = format!("  idle, {:.3} hours", figures.idle_hours);
            row(text, &idle, &[dollars(figures.idle), of(figures.idle)]);
        }
        Basis::Tokens => {
            row(text, "tokens at their prices", &[dollars(figures.paid), of(figures.paid)]);
        }
    }
}

fn spared(text: &mut String, figures: &Figures) {
    let used = figures.used();
    text.push('\n');
    row(text, "cost of the requests without", &["$".to_owned(), "more".to_owned()]);
    for (name, more) in &figures.without {
        let share = percent(*more, used);
        let share = if 0.0 < used { format!("+{share}") } else { share };
        row(text, &format!("  {name}"), &[dollars(used + more), share]);
    }
}

fn group(text: &mut String, title: &str, shares: &[Share], used: f64) {
    if shares.is_empty() {
        return;
    }
    text.push('\n');
    row(text, title, &["$", "share", "requests", "$ each"].map(str::to_owned));
    let line = |text: &mut String, name: &str, requests: u64, sum: f64| {
        let each = sum / count(requests).max(1.0);
        let cells = [dollars(sum), percent(sum, used), requests.to_string(), format!("{each:.6}")];
        row(text, &format!("  {name}"), &cells);
    };
    for share in shares.iter().take(ROWS_MAX) {
        line(text, &share.name, share.requests, share.dollars);
    }
    if let Some(rest) = shares.get(ROWS_MAX..).filter(|rest| !rest.is_empty()) {
        let requests = rest.iter().map(|share| share.requests).sum();
        let sum = rest.iter().map(|share| share.dollars).sum();
        line(text, &format!("{} others", rest.len()), requests, sum);
    }
}

fn workers(text: &mut String, figures: &Figures) {
    if figures.workers.is_empty() {
        return;
    }
    text.push('\n');
    row(text, "by worker", &["$", "idle", "hours", "idle hours", "$/h"].map(str::to_owned));
    for bill in &figures.workers {
        let cells = [
            dollars(bill.dollars()),
            percent(bill.idle_hours, bill.hours),
            format!("{:.3}", bill.hours),
            format!("{:.3}", bill.idle_hours),
            format!("{:.2}", bill.price),
        ];
        row(text, &format!("  {}", bill.worker), &cells);
    }
}

fn notes(text: &mut String, figures: &Figures) {
    if !figures.unpriced.is_empty() {
        let names = plain(&figures.unpriced.join("`, `"));
        let _written = write!(text, "\nno price is known of `{names}`: left out\n");
    }
    if !figures.models_unpriced.is_empty() {
        let names = plain(&figures.models_unpriced.join("`, `"));
        let so = match figures.basis {
            Basis::Hours => "savings count an output token as four prompt tokens, for all models",
            Basis::Tokens => "its requests cost nothing here",
        };
        let _written = write!(text, "\nno price of tokens is known of `{names}`: {so}\n");
    }
    if 0 < figures.unanswered {
        let _written = write!(text, "\n{} requests got no answer: left out\n", figures.unanswered);
    }
    if 0 < figures.cascaded_unpriced {
        let _written = write!(
            text,
            "\n{} cascaded requests have no cost in the log: counted without savings\n",
            figures.cascaded_unpriced
        );
    }
}

fn dollars(value: f64) -> String {
    // No zero has a sign.
    format!("{:.4}", if value.abs() < 5e-5 { 0.0 } else { value })
}

fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 { "-".to_owned() } else { format!("{:.1} %", part / whole * 100.0) }
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn count(number: u64) -> f64 {
    number as f64
}

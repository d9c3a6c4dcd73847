//! Page of a log's cost, with plots over time.

use std::collections::BTreeMap;

use overdraft_sim::report::{Plot, Scale, page_of_table};
use overdraft_sim::workload::AccessLog;

use super::figures::Figures;
use super::table::table;

/// Points of a line.
const POINTS: usize = 120;

/// Tenants with a line of their own.
const LINES_MAX: usize = 7;

/// Microseconds of an hour.
const HOUR_US: f64 = 3.6e9;

pub(super) fn html(log: &AccessLog, figures: &Figures) -> String {
    let title = format!("Cost: ${:.4}", figures.paid);
    let others = if 0.0 < figures.others {
        format!(" Other models used ${:.4}.", figures.others)
    } else {
        String::new()
    };
    let sentence = format!(
        "{} requests. Requests used ${:.4}; ${:.4} was idle.{others} All figures follow from the access log.",
        figures.requests,
        figures.used(),
        figures.idle
    );
    page_of_table(&title, &sentence, &table(figures), &plots(log, figures))
}

fn plots(log: &AccessLog, figures: &Figures) -> Vec<Plot> {
    let names = log.tenants();
    let first: Vec<&str> =
        figures.tenants.iter().take(LINES_MAX).map(|one| one.name.as_str()).collect();
    let of_tenant = |place: usize| {
        let tenant = log.entries()[place].sender.tenant;
        let name =
            tenant.and_then(|place| names.get(usize::from(place))).map_or("-", String::as_str);
        if first.contains(&name) { name.to_owned() } else { "others".to_owned() }
    };
    let of_model = |place: usize| log.entries()[place].model.to_string();
    vec![
        Plot {
            title: "Dollars used, added up, by tenant".to_owned(),
            x: ("hours", Scale::Linear),
            y: "dollars".to_owned(),
            lines: added_up(log, figures, &of_tenant),
        },
        Plot {
            title: "Dollars used, added up, by model".to_owned(),
            x: ("hours", Scale::Linear),
            y: "dollars".to_owned(),
            lines: added_up(log, figures, &of_model),
        },
        Plot {
            title: "Dollars used by the hour".to_owned(),
            x: ("hours", Scale::Linear),
            y: "dollars by the hour".to_owned(),
            lines: vec![("all requests".to_owned(), by_hour(log, figures))],
        },
    ]
}

/// When each request ended, in hours from the first on.
fn ends(log: &AccessLog) -> Vec<f64> {
    let end = |entry: &overdraft_sim::workload::Entry| {
        let at = entry.at.since(overdraft_units::Instant::ORIGIN);
        float((at + entry.total).get()) / HOUR_US
    };
    log.entries().iter().map(end).collect()
}

fn added_up(
    log: &AccessLog,
    figures: &Figures,
    group: &dyn Fn(usize) -> String,
) -> Vec<(String, Vec<(f64, f64)>)> {
    let ends = ends(log);
    let last = ends.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut steps: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (place, end) in ends.iter().enumerate() {
        let sums = steps.entry(group(place)).or_insert_with(|| vec![0.0; POINTS + 1]);
        sums[step(*end, last)] += figures.each[place];
    }
    let line = |(name, sums): (String, Vec<f64>)| {
        let mut sum = 0.0;
        let points = sums.iter().enumerate().map(|(step, more)| {
            sum += more;
            (last * index(step) / index(POINTS), sum)
        });
        (name, points.collect())
    };
    steps.into_iter().map(line).collect()
}

fn by_hour(log: &AccessLog, figures: &Figures) -> Vec<(f64, f64)> {
    let ends = ends(log);
    let last = ends.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut sums = vec![0.0; POINTS + 1];
    for (end, dollars) in ends.iter().zip(&figures.each) {
        sums[step(*end, last)] += dollars;
    }
    let width = last / index(POINTS);
    sums.iter().enumerate().map(|(step, sum)| (index(step) * width, sum / width)).collect()
}

/// Which point of a line a moment belongs to.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between nothing and the number of points"
)]
fn step(end: f64, last: f64) -> usize {
    ((end / last * index(POINTS)).ceil() as usize).min(POINTS)
}

#[expect(clippy::cast_precision_loss, reason = "a number of points")]
fn index(step: usize) -> f64 {
    step as f64
}

#[expect(clippy::cast_precision_loss, reason = "a moment of a plot")]
fn float(micros: u64) -> f64 {
    micros as f64
}

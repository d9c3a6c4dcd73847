//! Breakdown of the figures by pool, priority and tenant.
//!
//! **Invariant:** a request counts once on each side; who was answered by no worker is of no pool.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use overdraft_core::admit::Priority;
use serde_json::{Map, Value, json};

use super::groups::{Belongs, Groups, PoolTold};
use super::plot::escaped;
use super::recorder::{Recorder, Sample};
use super::summary::Summary;
use super::{Objectives, Run};
use crate::float_conversion::{float, length};

/// Rows of a table at most; JSON has all.
const ROWS_MAX: usize = 24;

/// What figures are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Pool,
    Priority,
    Tenant,
}

/// One group of a side.
struct Row {
    name: String,
    summary: Summary,
    pool: Option<PoolTold>,
    /// For all of the pool's workers, whatever they did.
    dollars: Option<f64>,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Pool, Self::Priority, Self::Tenant];

    const fn title(self) -> &'static str {
        match self {
            Self::Pool => "By pool",
            Self::Priority => "By priority",
            Self::Tenant => "By tenant",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Pool => "by_pool",
            Self::Priority => "by_priority",
            Self::Tenant => "by_tenant",
        }
    }

    fn place(self, belongs: Belongs) -> Option<usize> {
        match self {
            Self::Pool => belongs.pool.map(usize::from),
            Self::Priority => belongs.priority.map(Priority::index),
            Self::Tenant => belongs.tenant.map(usize::from),
        }
    }

    fn name(self, groups: &Groups, place: usize) -> String {
        let known = match self {
            Self::Pool => groups.pools.get(place).map(|pool| pool.name.clone()),
            Self::Priority => Priority::ALL.get(place).map(ToString::to_string),
            Self::Tenant => groups.tenants.get(place).cloned(),
        };
        known.unwrap_or_else(|| (place + 1).to_string())
    }

    /// The groups of these runs, seeds of one label, put together; none where there is nothing to tell apart.
    fn rows(self, runs: &[&Run], objectives: &Objectives) -> Vec<Row> {
        let Some(groups) = runs.first().map(|run| &run.groups) else { return Vec::new() };
        let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
        if self == Self::Pool {
            if groups.pools.len() < 2 {
                return Vec::new();
            }
            // A pool that answered nothing costs as well.
            samples.extend((0..groups.pools.len()).map(|place| (place, Vec::new())));
        }
        for sample in runs.iter().flat_map(|run| run.recorder.samples()) {
            if let Some(place) = self.place(sample.belongs) {
                samples.entry(place).or_default().push(*sample);
            }
        }
        let seconds: f64 = runs.iter().map(|run| run.recorder.seconds()).sum();
        let row = |(place, samples): (usize, Vec<Sample>)| {
            let summary = Summary::of(&Recorder { samples, ..Recorder::new() }, objectives);
            let pool = groups.pools.get(place).filter(|_: &&PoolTold| self == Self::Pool).cloned();
            let dollars = pool
                .as_ref()
                .map(|pool| f64::from(pool.workers) * pool.dollars_per_hour * seconds / 3_600.0);
            Row { name: self.name(groups, place), summary, pool, dollars }
        };
        samples.into_iter().map(row).collect()
    }

    /// A table with a header; empty where there is nothing to tell apart.
    fn grid(self, runs: &[&Run], objectives: &Objectives) -> Vec<Vec<String>> {
        let mut rows = self.rows(runs, objectives);
        if rows.is_empty() {
            return Vec::new();
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.summary.offered));
        let mut header = vec![self.title(), "offered", "completed", "refused", "failed"];
        header.extend(["output tokens", "mean TTFT ms", "P95 TTFT ms", "P95 TPOT ms"]);
        header.extend((!objectives.is_empty()).then_some("good %"));
        if self == Self::Pool {
            header.extend(["workers", "$/h each", "$", "$ per 1M output"]);
        }
        let mut grid = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        grid.extend(rows.iter().take(ROWS_MAX).map(Row::cells));
        if ROWS_MAX < rows.len() {
            grid.push(vec![format!("{} more", rows.len() - ROWS_MAX)]);
        }
        grid
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let Summary { offered, completed, refused, failed, output_tokens, .. } = self.summary;
        let mut cells = vec![self.name.clone()];
        cells.extend([offered, completed, refused, failed, output_tokens].map(|n| n.to_string()));
        let (ttft, tpot) = (self.summary.ttft, self.summary.tpot);
        cells.extend([ttft.mean, ttft.p95, tpot.p95].map(|ms| format!("{ms:.2}")));
        cells
            .extend(self.summary.good.map(|_| format!("{:.1}", self.summary.good_share() * 100.0)));
        if let (Some(pool), Some(dollars)) = (&self.pool, self.dollars) {
            cells.push(pool.workers.to_string());
            cells.push(format!("{:.2}", pool.dollars_per_hour));
            cells.push(format!("{dollars:.4}"));
            let per_million = dollars / float(output_tokens) * 1e6;
            cells.push(if output_tokens == 0 {
                "-".to_owned()
            } else {
                format!("{per_million:.3}")
            });
        }
        cells
    }

    fn json(&self) -> Value {
        let mut told = self.summary.json();
        // Those of the whole run: a group has none of its own.
        for whole in ["cost_dollars", "mean_itl_ms", "median_itl_ms", "std_itl_ms"] {
            told.remove(whole);
        }
        for whole in ["p90_itl_ms", "p95_itl_ms", "p99_itl_ms", "max_output_tokens_per_s"] {
            told.remove(whole);
        }
        told.insert("name".to_owned(), self.name.clone().into());
        if let Some(pool) = &self.pool {
            told.insert("workers".to_owned(), pool.workers.into());
            told.insert("dollars_per_hour".to_owned(), json!(pool.dollars_per_hour));
            told.insert("cost_dollars".to_owned(), json!(self.dollars));
        }
        Value::Object(told)
    }
}

/// All sides of a run that tell something apart, for JSON.
pub(super) fn json_of(run: &Run, objectives: &Objectives) -> Map<String, Value> {
    let side = |side: Side| {
        let rows = side.rows(&[run], objectives);
        let told: Vec<Value> = rows.iter().map(Row::json).collect();
        (!told.is_empty()).then(|| (side.key().to_owned(), Value::Array(told)))
    };
    Side::ALL.into_iter().filter_map(side).collect()
}

/// The same of a label's runs, for a terminal.
pub(super) fn text(text: &mut String, label: &str, runs: &[&Run], objectives: &Objectives) {
    for side in Side::ALL {
        let grid = side.grid(runs, objectives);
        let Some(header) = grid.first() else { continue };
        let widest = |place: usize| {
            let cells = grid.iter().filter_map(|row| row.get(place));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(widest).collect();
        let _written = writeln!(text, "\n{label}{}", over(runs));
        for row in &grid {
            for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _written = match place {
                    0 => write!(text, "{cell:<width$}"),
                    _ => write!(text, "  {cell:>width$}"),
                };
            }
            text.push('\n');
        }
    }
}

/// The same for a page.
pub(super) fn html(page: &mut String, label: &str, runs: &[&Run], objectives: &Objectives) {
    for side in Side::ALL {
        let grid = side.grid(runs, objectives);
        if grid.is_empty() {
            continue;
        }
        let _written = write!(page, "<h2>{}{}</h2>\n<table>", escaped(label), over(runs));
        for row in &grid {
            page.push_str("<tr>");
            for cell in row {
                let _written = write!(page, "<td>{}</td>", escaped(cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
    }
}

fn over(runs: &[&Run]) -> String {
    match length(runs.len()) {
        0 | 1 => String::new(),
        seeds => format!(", {seeds} seeds together"),
    }
}

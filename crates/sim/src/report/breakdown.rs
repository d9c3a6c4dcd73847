//! Breakdown of the figures by pool, priority and tenant.
//!
//! Rates of a group are over the whole run, so that those of all groups add up. Stages come one after the other: theirs
//! are over the span of their own requests.
//!
//! **Invariant:** a request counts once on each side; who was answered by no worker is of no pool.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use overdraft_core::admit::Priority;
use serde_json::{Map, Value, json};

use super::groups::{Belongs, Groups, PoolTold, WorkerTold};
use super::histogram::Histogram;
use super::plot::escaped;
use super::recorder::{GapGroup, Recorder, Sample, seconds_of};
use super::summary::{Summary, shown};
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
    Stage,
    Worker,
}

/// One group of a side.
struct Row {
    name: String,
    summary: Summary,
    pool: Option<PoolTold>,
    worker: Option<WorkerTold>,
    /// Times between tokens, where they are kept apart.
    gaps: Option<Histogram>,
    /// For all of the pool's workers, whatever they did.
    dollars: Option<f64>,
}

/// The requests of a group in all runs.
#[derive(Default)]
struct Gathered {
    samples: Vec<Sample>,
    /// The sum of its spans in each run: runs begin at one time and would lie over each other.
    seconds: f64,
}

impl Gathered {
    /// Takes in the requests of one more run.
    fn add(&mut self, samples: Vec<Sample>) {
        self.seconds += seconds_of(&samples);
        self.samples.extend(samples);
    }
}

impl Side {
    /// Those that tables tell.
    const TOLD: [Self; 4] = [Self::Pool, Self::Priority, Self::Tenant, Self::Stage];

    /// Those that JSON has.
    const ALL: [Self; 5] = [Self::Pool, Self::Priority, Self::Tenant, Self::Stage, Self::Worker];

    const fn title(self) -> &'static str {
        match self {
            Self::Pool => "By pool",
            Self::Priority => "By priority",
            Self::Tenant => "By tenant",
            Self::Stage => "By stage",
            Self::Worker => "By worker",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Pool => "by_pool",
            Self::Priority => "by_priority",
            Self::Tenant => "by_tenant",
            Self::Stage => "by_stage",
            Self::Worker => "by_worker",
        }
    }

    fn place(self, belongs: Belongs) -> Option<usize> {
        match self {
            Self::Pool => belongs.pool.map(usize::from),
            Self::Priority => belongs.priority.map(Priority::index),
            Self::Tenant => belongs.tenant.map(usize::from),
            Self::Stage => belongs.stage.map(usize::from),
            Self::Worker => belongs.worker.map(usize::from),
        }
    }

    fn name(self, groups: &Groups, place: usize) -> String {
        let number = || (place + 1).to_string();
        match self {
            Self::Pool => groups.pools.get(place).map_or_else(number, |pool| pool.name.clone()),
            Self::Priority => Priority::ALL.get(place).map_or_else(number, ToString::to_string),
            Self::Tenant => groups.tenant(place),
            Self::Stage => groups.stage(place),
            // As flags name it.
            Self::Worker => place.to_string(),
        }
    }

    /// Groups that are told even where no request was of them.
    const fn always(self, groups: &Groups) -> usize {
        match self {
            Self::Pool => groups.pools.len(),
            Self::Worker => groups.workers.len(),
            Self::Stage => groups.stages.len(),
            Self::Priority | Self::Tenant => 0,
        }
    }

    /// The times between tokens of a group; none where they are not kept apart.
    fn gaps(self, runs: &[&Run], place: usize) -> Option<Histogram> {
        let is_of = |group: &GapGroup| match self {
            Self::Tenant => group.tenant.map(usize::from) == Some(place),
            Self::Stage => group.stage.map(usize::from) == Some(place),
            Self::Pool | Self::Priority | Self::Worker => false,
        };
        let all = runs.iter().flat_map(|run| &run.recorder.gaps_of);
        let own = all.filter(|(group, _)| is_of(group)).map(|(_, gaps)| gaps);
        own.fold(None, |sum: Option<Histogram>, gaps| {
            let mut sum = sum.unwrap_or_default();
            sum.merge(gaps);
            Some(sum)
        })
    }

    /// The requests of a run by group.
    fn divided(self, run: &Run) -> BTreeMap<usize, Vec<Sample>> {
        let mut groups: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
        for sample in run.recorder.samples() {
            if let Some(place) = self.place(sample.belongs) {
                groups.entry(place).or_default().push(*sample);
            }
        }
        groups
    }

    /// The groups of these runs, seeds of one label, put together; none where there is nothing to tell apart.
    fn rows(self, runs: &[&Run], objectives: &Objectives) -> Vec<Row> {
        let Some(groups) = runs.first().map(|run| &run.groups) else { return Vec::new() };
        if self == Self::Pool && groups.pools.len() < 2 {
            return Vec::new();
        }
        // A pool that answered nothing costs as well.
        let mut gathered: BTreeMap<usize, Gathered> =
            (0..self.always(groups)).map(|place| (place, Gathered::default())).collect();
        for run in runs {
            for (place, samples) in self.divided(run) {
                gathered.entry(place).or_default().add(samples);
            }
        }
        let whole = runs.iter().map(|run| run.recorder.seconds()).sum::<f64>();
        let row = |(place, Gathered { samples, seconds }): (usize, Gathered)| {
            let gaps = self.gaps(runs, place);
            let own = gaps.clone().unwrap_or_default();
            let recorder = Recorder { samples, gaps: own, ..Recorder::new() };
            let duration = if self == Self::Stage { seconds } else { whole };
            let summary = Summary { duration, ..Summary::of(&recorder, objectives) };
            // A worker's counts are those of one run.
            let is_worker = self == Self::Worker && runs.len() == 1;
            let worker = groups.workers.get(place).filter(|_| is_worker).copied();
            let pool = groups.pools.get(place).filter(|_: &&PoolTold| self == Self::Pool).cloned();
            let an_hour = |pool: &PoolTold| f64::from(pool.workers) * pool.dollars_per_hour;
            let dollars = pool.as_ref().map(|pool| an_hour(pool) * whole / 3_600.0);
            Row { name: self.name(groups, place), summary, pool, worker, gaps, dollars }
        };
        gathered.into_iter().map(row).collect()
    }

    /// A table with a header; empty where there is nothing to tell apart.
    fn grid(self, runs: &[&Run], objectives: &Objectives) -> Vec<Vec<String>> {
        let mut rows = self.rows(runs, objectives);
        if rows.is_empty() {
            return Vec::new();
        }
        if self != Self::Stage {
            rows.sort_by_key(|row| std::cmp::Reverse(row.summary.offered));
        }
        let tells_gaps = rows.iter().any(|row| row.gaps.is_some());
        let mut header = vec![self.title(), "offered", "completed", "refused", "failed"];
        header.extend(["output tokens", "mean TTFT ms", "P95 TTFT ms", "P95 TPOT ms"]);
        if tells_gaps {
            header.extend(["mean ITL ms", "P95 ITL ms"]);
        }
        if self == Self::Stage {
            header.push("output tok/s");
        }
        header.extend((!objectives.is_empty()).then_some("good %"));
        if self == Self::Pool {
            header.extend(["workers", "$/h each", "$", "$ per 1M output"]);
        }
        let mut grid = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        grid.extend(rows.iter().take(ROWS_MAX).map(|row| row.cells(self, tells_gaps, objectives)));
        if ROWS_MAX < rows.len() {
            grid.push(vec![format!("{} more", rows.len() - ROWS_MAX)]);
        }
        grid
    }
}

impl Row {
    fn cells(&self, side: Side, tells_gaps: bool, objectives: &Objectives) -> Vec<String> {
        let Summary { offered, completed, refused, failed, output_tokens, .. } = self.summary;
        let mut cells = vec![self.name.clone()];
        cells.extend([offered, completed, refused, failed, output_tokens].map(|n| n.to_string()));
        let (ttft, tpot) = (self.summary.ttft, self.summary.tpot);
        cells.extend([ttft.mean, ttft.p95, tpot.p95].map(|ms| shown(ms, 2)));
        if tells_gaps {
            let itl = self.summary.itl;
            cells.extend([itl.mean, itl.p95].map(|ms| shown(ms, 2)));
        }
        if side == Side::Stage {
            // A stage that the load did not reach has no time in which it made none.
            let rate = if offered == 0 { f64::NAN } else { self.summary.output_throughput() };
            cells.push(shown(rate, 1));
        }
        let good = || shown(self.summary.good_share() * 100.0, 1);
        cells.extend((!objectives.is_empty()).then(good));
        if let (Some(pool), Some(dollars)) = (&self.pool, self.dollars) {
            cells.push(pool.workers.to_string());
            cells.push(format!("{:.2}", pool.dollars_per_hour));
            cells.push(format!("{dollars:.4}"));
            cells.push(shown(dollars / float(output_tokens) * 1e6, 3));
        }
        cells
    }

    fn json(&self) -> Value {
        let mut told = self.summary.json();
        // Those of the whole run: a group has none of its own.
        for whole in ["cost_dollars", "max_output_tokens_per_s", "turns_not_asked"] {
            told.remove(whole);
        }
        if self.gaps.is_none() {
            told.retain(|name, _| !name.ends_with("_itl_ms"));
        }
        told.insert("name".to_owned(), self.name.clone().into());
        if let Some(pool) = &self.pool {
            told.insert("workers".to_owned(), pool.workers.into());
            told.insert("dollars_per_hour".to_owned(), json!(pool.dollars_per_hour));
            told.insert("cost_dollars".to_owned(), json!(self.dollars));
        }
        if let Some(worker) = self.worker {
            told.insert("pool".to_owned(), worker.pool.into());
            told.insert("preemptions".to_owned(), worker.preemptions.into());
            told.insert("cache_pages_evicted".to_owned(), worker.evictions.into());
            told.insert("crashes".to_owned(), worker.crashes.into());
            told.insert("busy_seconds".to_owned(), worker.busy_seconds.into());
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
    for side in Side::TOLD {
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
    for side in Side::TOLD {
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

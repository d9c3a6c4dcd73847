//! Conditions: what of the views needs an operator's eyes, in a sentence with a remedy.
//!
//! Each rule is a function of the views and names its evidence. The thresholds are those of the
//! Prometheus alerts, so that page and pager agree.

use serde::{Deserialize, Serialize};

use crate::views::{CascadeRow, SourceRow, SpeculationRow, StoreRow, WorkerRow};

/// Use of a cache, in thousandths, that is worth a look.
pub const KV_HIGH_PERMILLE: u64 = 850;
/// Use of a cache, in thousandths, at which requests wait.
pub const KV_FULL_PERMILLE: u64 = 950;
/// Share of drafted tokens that were right, below which drafts hardly pay.
pub const ACCEPTANCE_LOW: f64 = 0.5;
/// The same, below which they harm.
pub const ACCEPTANCE_BAD: f64 = 0.2;
/// Drafted tokens of five minutes before their acceptance is judged.
const DRAFTED_MIN: u64 = 500;
/// Share of refused requests in five minutes, in thousandths, that is a spike.
pub const REFUSED_HIGH_PERMILLE: u64 = 50;
/// Share of failed requests in five minutes, in thousandths.
pub const FAILED_HIGH_PERMILLE: u64 = 10;
/// Requests in five minutes before shares are judged.
const ENDED_MIN: u64 = 20;
/// Names that one sentence lists.
const NAMES_MAX: usize = 3;

/// How urgent a condition is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// An operator should act now.
    Act,
    /// Worth a look.
    #[default]
    Watch,
}

/// Something that holds now and needs an operator's eyes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Names it; equal keys are the same condition.
    pub key: String,
    /// How urgent it is.
    pub severity: Severity,
    /// The page that shows it.
    pub page: String,
    /// What holds.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
    /// Since when it holds, in milliseconds since 1970; 0 until the history has noted it.
    pub since_ms: u64,
}

/// What conditions are found in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Every worker.
    pub workers: &'a [WorkerRow],
    /// Every source of workers.
    pub sources: &'a [SourceRow],
    /// What gateways share; `None` where they share nothing.
    pub store: Option<&'a StoreRow>,
    /// Every cascade.
    pub cascades: &'a [CascadeRow],
    /// Every worker that guesses ahead.
    pub speculation: &'a [SpeculationRow],
    /// Requests that ended in five minutes.
    pub ended_5m: u64,
    /// Those refused for want of room or budget.
    pub refused_5m: u64,
    /// Those that a worker or a defect ended.
    pub failed_5m: u64,
}

/// Every condition that holds, the urgent first.
pub fn conditions(facts: &Facts<'_>) -> Vec<Condition> {
    let mut found = Vec::new();
    health(facts, &mut found);
    memory(facts, &mut found);
    traffic(facts, &mut found);
    drafts(facts, &mut found);
    shared(facts, &mut found);
    found.sort_by_key(|one| one.severity);
    found
}

/// A rule over workers: those for which it holds make one condition.
struct Rule {
    key: &'static str,
    severity: Severity,
    page: &'static str,
    /// What holds of the workers whose names follow.
    text: &'static str,
    remedy: &'static str,
}

impl Rule {
    fn over<'a>(self, names: impl Iterator<Item = &'a str>, found: &mut Vec<Condition>) {
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return;
        }
        found.push(Condition {
            key: self.key.to_owned(),
            severity: self.severity,
            page: self.page.to_owned(),
            text: format!("{}: {}", self.text, list(&names)),
            remedy: self.remedy.to_owned(),
            since_ms: 0,
        });
    }
}

/// `w1, w2, w3 and 9 more`.
fn list(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn of<'a>(
    facts: &Facts<'a>,
    holds: impl Fn(&WorkerRow) -> bool + 'a,
) -> impl Iterator<Item = &'a str> {
    facts.workers.iter().filter(move |one| holds(one)).map(|one| one.worker.as_str())
}

fn health(facts: &Facts<'_>, found: &mut Vec<Condition>) {
    let takes = |one: &&WorkerRow| one.state == "up" && one.breaker == "closed";
    if facts.workers.iter().find(takes).is_none() {
        found.push(Condition {
            key: "none_up".to_owned(),
            severity: Severity::Act,
            page: "fleet".to_owned(),
            text: format!("None of {} workers takes requests", facts.workers.len()),
            remedy: "clients get 503; look at the state column, then at the workers' own logs"
                .to_owned(),
            since_ms: 0,
        });
    }
    let is_down = |one: &WorkerRow| !matches!(one.state.as_str(), "up" | "draining" | "unproven");
    Rule {
        key: "down",
        severity: Severity::Act,
        page: "fleet",
        text: "Down, a probe or a request failed",
        remedy: "nothing is sent there until a probe succeeds; see the state for what failed",
    }
    .over(of(facts, is_down), found);
    Rule {
        key: "breaker",
        severity: Severity::Act,
        page: "fleet",
        text: "Out by the circuit breaker, too many requests failed there",
        remedy: "one request at a time finds out whether it still fails; see its recent requests",
    }
    .over(of(facts, |one| one.breaker != "closed"), found);
    Rule {
        key: "late",
        severity: Severity::Watch,
        page: "fleet",
        text: "Load report overdue, decisions rest on the ledger alone",
        remedy: "see whether its /metrics answers within scrape.timeout",
    }
    .over(of(facts, |one| one.state == "up" && one.is_late), found);
    Rule {
        key: "draining",
        severity: Severity::Watch,
        page: "fleet",
        text: "Draining, nothing new is sent there",
        remedy: "POST /admin/workers/NAME/rejoin calls the drain off",
    }
    .over(of(facts, |one| one.state == "draining"), found);
}

fn use_permille(one: &WorkerRow) -> Option<u64> {
    one.kv_used_tokens?.saturating_mul(1_000).checked_div(one.kv_capacity_tokens?)
}

fn memory(facts: &Facts<'_>, found: &mut Vec<Condition>) {
    let is_full = |one: &WorkerRow| use_permille(one).is_some_and(|used| KV_FULL_PERMILLE <= used);
    let is_high = |one: &WorkerRow| {
        let high = KV_HIGH_PERMILLE..KV_FULL_PERMILLE;
        use_permille(one).is_some_and(|used| high.contains(&used))
    };
    Rule {
        key: "kv_full",
        severity: Severity::Act,
        page: "queue",
        text: "KV cache 95 % full or more, requests wait and some are computed twice",
        remedy: "add a worker, or lower max_tokens and the load of priority flex",
    }
    .over(of(facts, is_full), found);
    Rule {
        key: "kv_high",
        severity: Severity::Watch,
        page: "fleet",
        text: "KV cache 85 % full or more",
        remedy: "see the predicted peak; past the valve requests wait",
    }
    .over(of(facts, is_high), found);
}

fn traffic(facts: &Facts<'_>, found: &mut Vec<Condition>) {
    let Facts { ended_5m: ended, refused_5m: refused, failed_5m: failed, .. } = *facts;
    let share = |count: u64| count.saturating_mul(1_000) / ended.max(1);
    if ENDED_MIN <= ended && REFUSED_HIGH_PERMILLE <= share(refused) {
        found.push(Condition {
            key: "refusals".to_owned(),
            severity: Severity::Act,
            page: "queue".to_owned(),
            text: format!("{refused} of {ended} requests were refused in five minutes"),
            remedy:
                "see the reasons; `late` and `queue_full` want more workers, `budget` a larger \
                     budget"
                    .to_owned(),
            since_ms: 0,
        });
    }
    if ENDED_MIN <= ended && FAILED_HIGH_PERMILLE <= share(failed) {
        found.push(Condition {
            key: "failures".to_owned(),
            severity: Severity::Act,
            page: "requests".to_owned(),
            text: format!("{failed} of {ended} requests failed at a worker in five minutes"),
            remedy: "filter the requests by their end and see whether one worker fails them"
                .to_owned(),
            since_ms: 0,
        });
    }
}

fn drafts(facts: &Facts<'_>, found: &mut Vec<Condition>) {
    for one in facts.cascades.iter().filter(|one| !one.on && one.mode != "off") {
        let why = one.off_reason.as_deref().unwrap_or("unknown");
        found.push(Condition {
            key: format!("cascade:{}", one.cascade),
            severity: Severity::Watch,
            page: "cascade".to_owned(),
            text: format!("The cascade {} is off ({why}), the target answers", one.cascade),
            remedy: "it turns on again by itself once comparisons speak for the draft".to_owned(),
            since_ms: 0,
        });
    }
    let acceptance = |one: &SpeculationRow| one.acceptance_5m.filter(|_| judged(one));
    let names = |low: f64, high: f64| {
        let is_it = move |one: &&SpeculationRow| {
            acceptance(one).is_some_and(|share| low <= share && share < high)
        };
        facts.speculation.iter().filter(is_it).map(|one| one.worker.as_str())
    };
    Rule {
        key: "acceptance_bad",
        severity: Severity::Act,
        page: "speculation",
        text: "Fewer than 20 % of the drafted tokens accepted, drafts cost more than they bring",
        remedy: "turn speculation off there, or give it another draft model; `overdraft tune` helps",
    }
    .over(names(0.0, ACCEPTANCE_BAD), found);
    Rule {
        key: "acceptance_low",
        severity: Severity::Watch,
        page: "speculation",
        text: "Fewer than 50 % of the drafted tokens accepted",
        remedy: "a shallower depth may be faster; `overdraft tune` says which",
    }
    .over(names(ACCEPTANCE_BAD, ACCEPTANCE_LOW), found);
}

fn judged(one: &SpeculationRow) -> bool {
    one.drafted_5m.is_some_and(|drafted| DRAFTED_MIN <= drafted)
}

fn shared(facts: &Facts<'_>, found: &mut Vec<Condition>) {
    if let Some(store) = facts.store.filter(|store| store.degraded) {
        found.push(Condition {
            key: "store".to_owned(),
            severity: Severity::Watch,
            page: "fleet".to_owned(),
            text: format!(
                "The store at {} does not answer, this gateway stands alone",
                store.place
            ),
            remedy: "requests go on; breakers, budgets and answers are not shared until it is back"
                .to_owned(),
            since_ms: 0,
        });
    }
    for source in facts.sources {
        let Some(error) = &source.error else { continue };
        found.push(Condition {
            key: format!("source:{}", source.name),
            severity: Severity::Watch,
            page: "fleet".to_owned(),
            text: format!("{} finds no workers: {error}", source.name),
            remedy: "the workers that it last named stay".to_owned(),
            since_ms: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str) -> WorkerRow {
        WorkerRow {
            worker: name.to_owned(),
            state: "up".to_owned(),
            breaker: "closed".to_owned(),
            ..WorkerRow::default()
        }
    }

    #[track_caller]
    fn check(facts: &Facts<'_>, expected: &[&str]) {
        let found = conditions(facts);
        let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, expected, "{found:?}");
    }

    #[test]
    fn a_fleet_that_is_fine_has_no_conditions() {
        check(&Facts { workers: &[worker("a"), worker("b")], ..Facts::default() }, &[]);
    }

    #[test]
    fn a_fleet_of_nobody_needs_somebody() {
        check(&Facts::default(), &["none_up"]);
    }

    #[test]
    fn workers_in_one_state_make_one_sentence() {
        let late = |name| WorkerRow { is_late: true, ..worker(name) };
        let workers = ["a", "b", "c", "d", "e"].map(late);
        let facts = Facts { workers: &workers, ..Facts::default() };
        check(&facts, &["late"]);
        assert!(conditions(&facts)[0].text.ends_with(": a, b, c and 2 more"));
    }

    #[test]
    fn the_urgent_come_first() {
        let workers = [
            WorkerRow { is_late: true, ..worker("late") },
            WorkerRow { breaker: "open".to_owned(), ..worker("out") },
            WorkerRow { state: "connect".to_owned(), ..worker("down") },
            WorkerRow { kv_used_tokens: Some(96), kv_capacity_tokens: Some(100), ..worker("full") },
            WorkerRow { kv_used_tokens: Some(90), kv_capacity_tokens: Some(100), ..worker("high") },
        ];
        let facts = Facts { workers: &workers, ..Facts::default() };
        check(&facts, &["down", "breaker", "kv_full", "late", "kv_high"]);
    }

    #[test]
    fn shares_of_few_requests_say_nothing() {
        let workers = [worker("a")];
        let few = Facts { workers: &workers, ended_5m: 10, refused_5m: 9, ..Facts::default() };
        check(&few, &[]);
        check(&Facts { ended_5m: 100, ..few }, &["refusals"]);
        let failing = Facts { ended_5m: 100, refused_5m: 0, failed_5m: 1, ..few };
        check(&failing, &["failures"]);
    }

    #[test]
    fn acceptance_is_judged_where_enough_was_drafted_of_late() {
        let workers = [worker("a")];
        // However much it has drafted since its start.
        let row = |drafted, share| SpeculationRow {
            worker: "a".to_owned(),
            draft_tokens: 10_000,
            acceptance_5m: Some(share),
            drafted_5m: Some(drafted),
            ..SpeculationRow::default()
        };
        for (drafted, share, expected) in [
            (3, 0.0, &[][..]),
            (100, 0.1, &[]),
            (1_000, 0.1, &["acceptance_bad"]),
            (1_000, 0.2, &["acceptance_low"]),
            (1_000, 0.5, &[]),
        ] {
            let rows = [row(drafted, share)];
            check(&Facts { workers: &workers, speculation: &rows, ..Facts::default() }, expected);
        }
    }
}

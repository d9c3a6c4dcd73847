//! Use and cost by tenant, model and who answered, for today and the day before.
//!
//! Days are those of UTC. What a request cost is among its facts (`pricing.rs`). Tenants are those that the configuration names, models
//! those that a worker answered for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::Ended;
use crate::pipeline::facts::RequestFacts;
use crate::pipeline::keys::NAMELESS;

/// Rows of one day at most; what comes beyond is added up under [`NAMELESS`].
const ROWS_MAX: usize = 1_000;

const SECONDS_IN_DAY: u64 = 86_400;

/// Whose use of what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsageKey {
    pub(crate) tenant: Arc<str>,
    pub(crate) model: Box<str>,
    /// `target`, `draft` or `verified`, or `cache`.
    pub(crate) by: &'static str,
}

/// How much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageSum {
    pub(crate) requests: u64,
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) completion: u64,
    /// Requests of which the price is known.
    pub(crate) priced: u64,
    /// In millionths of a dollar.
    pub(crate) cost: u64,
    pub(crate) cost_alone: u64,
}

/// One day's use.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageOfDay {
    /// Days since 1970.
    pub(crate) day: u64,
    pub(crate) rows: BTreeMap<UsageKey, UsageSum>,
}

/// Today's use, and the day before's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) today: UsageOfDay,
    pub(crate) yesterday: UsageOfDay,
}

impl Usage {
    /// Adds what a request used that ended `at` seconds since 1970.
    pub(super) fn add(&mut self, at: f64, mut key: UsageKey, sum: UsageSum) {
        self.turn(day_of(at));
        let rows = &mut self.today.rows;
        if ROWS_MAX <= rows.len() && !rows.contains_key(&key) {
            key.tenant = NAMELESS.into();
            key.model = NAMELESS.into();
        }
        rows.entry(key).or_default().add(&sum);
    }

    fn turn(&mut self, day: u64) {
        if day <= self.today.day {
            return;
        }
        let ended = std::mem::replace(&mut self.today, UsageOfDay { day, ..UsageOfDay::default() });
        self.yesterday = if ended.day + 1 == day { ended } else { UsageOfDay::default() };
    }
}

impl UsageSum {
    fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.prompt += more.prompt;
        self.cached += more.cached;
        self.completion += more.completion;
        self.priced += more.priced;
        self.cost += more.cost;
        self.cost_alone += more.cost_alone;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds since 1970 are neither negative nor beyond 64 bits"
)]
fn day_of(at: f64) -> u64 {
    at as u64 / SECONDS_IN_DAY
}

/// What a request used, if it was answered.
pub(crate) fn used(ended: &Ended, facts: &RequestFacts) -> Option<(UsageKey, UsageSum)> {
    let model = facts.model.as_deref()?;
    let is_answered = (200..300).contains(&ended.status);
    let by = match (facts.reused, facts.served_by, ended.pool) {
        (Some(_), ..) => "cache",
        (None, Some(served), _) => served,
        (None, None, Some(pool)) => pool.name(),
        (None, None, None) => return None,
    };
    if !is_answered {
        return None;
    }
    let tenant = facts.tenant.clone().unwrap_or_else(|| NAMELESS.into());
    let key = UsageKey { tenant, model: model.into(), by };
    // Of an answer that broke off or was left, the prompt alone may be unknown.
    let counted = (facts.prompt.unwrap_or_default(), facts.completion.unwrap_or_default());
    let (prompt, completion) = facts.reused.unwrap_or(counted);
    let cached = facts.cached.unwrap_or_default();
    let mut sum = UsageSum {
        requests: 1,
        prompt: prompt.get().into(),
        cached: cached.get().into(),
        completion: completion.get().into(),
        ..UsageSum::default()
    };
    if let Some((cost, alone)) = facts.cost.zip(facts.cost_alone) {
        (sum.priced, sum.cost, sum.cost_alone) = (1, cost, alone);
    }
    Some((key, sum))
}

#[cfg(test)]
mod tests {
    use overdraft_telemetry::{EndCode, Ender, Phase};
    use overdraft_units::{Micros, Tokens};

    use super::*;
    use crate::settings::Pool;

    fn key(tenant: &str) -> UsageKey {
        UsageKey { tenant: tenant.into(), model: "m".into(), by: "target" }
    }

    fn one() -> UsageSum {
        UsageSum { requests: 1, prompt: 10, ..UsageSum::default() }
    }

    #[test]
    fn tokens_of_an_answer_count_whether_or_not_those_of_its_prompt_are_known() {
        let ended = Ended {
            status: 200,
            end: EndCode { ender: Ender::Client, phase: Phase::Data },
            pool: Some(Pool::Target),
            total: Micros::ZERO,
        };
        let facts = RequestFacts {
            model: Some("m".to_owned()),
            completion: Some(Tokens::new(4)),
            ..RequestFacts::default()
        };
        let (_, sum) = used(&ended, &facts).expect("it was answered");
        assert_eq!((sum.prompt, sum.completion, sum.priced), (0, 4, 0));
    }

    const NOON: f64 = 20_000.5 * 86_400.0;
    const DAY: f64 = 86_400.0;

    #[test]
    fn days_end_at_midnight_and_the_one_before_is_kept() {
        let mut usage = Usage::default();
        usage.add(NOON, key("a"), one());
        usage.add(NOON, key("a"), one());
        assert_eq!(usage.today.rows[&key("a")].prompt, 20);
        usage.add(NOON + DAY, key("b"), one());
        assert_eq!(usage.today.rows.len(), 1);
        assert_eq!(usage.yesterday.rows[&key("a")].requests, 2);
        usage.add(NOON + 3.0 * DAY, key("b"), one());
        assert!(usage.yesterday.rows.is_empty(), "nobody asked anything the day before");
    }

    #[test]
    fn rows_beyond_the_bound_are_added_up() {
        let mut usage = Usage::default();
        for number in 0..ROWS_MAX + 10 {
            usage.add(NOON, key(&number.to_string()), one());
        }
        assert_eq!(usage.today.rows.len(), ROWS_MAX + 1);
        let other = UsageKey { model: NAMELESS.into(), ..key(NAMELESS) };
        assert_eq!(usage.today.rows[&other].requests, 10);
    }
}

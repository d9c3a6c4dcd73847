//! KEDA trigger state: the wanted number of workers of each trigger, with cooldown.
//!
//! A trigger's number must not flap between queries, so each has a [`Hold`] of its own, keyed by
//! the query. It also updates all of them by itself: KEDA polls every half a minute, and a
//! peak in between must not be missed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::scale::Hold;
use overdraft_units::{Instant, Micros};
use tonic::Status;

use crate::message::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, MetricSpec, MetricValue,
    ScaledObjectRef,
};
use crate::query::Query;
use crate::{Source, TRIGGERS_MAX};

/// The one metric: workers wanted. Its target is one worker to a replica.
pub(crate) const METRIC: &str = "desired_workers";

/// Time without a query after which a trigger is forgotten; by default KEDA polls at least each
/// minute.
const FORGOTTEN_AFTER: Micros = Micros::new(1_800_000_000);

/// What a trigger asks for wants, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) workers: u64,
    pub(crate) active: bool,
}

#[derive(Debug)]
struct Trigger {
    hold: Hold,
    asked: Instant,
}

/// The triggers that KEDA has asked for, each with its held number of workers.
#[derive(Debug)]
pub(crate) struct Triggers<S> {
    source: Arc<S>,
    followed: Mutex<BTreeMap<Query, Trigger>>,
}

impl<S: Source> Triggers<S> {
    pub(crate) fn new(source: Arc<S>) -> Self {
        Self { source, followed: Mutex::new(BTreeMap::new()) }
    }

    /// What a trigger's metadata asks for.
    pub(crate) fn query(&self, object: &ScaledObjectRef) -> Result<Query, Status> {
        let targets = self.source.settings().targets;
        Query::read(&object.metadata, self.source.pools(), targets).map_err(|error| {
            let (namespace, name) = (&object.namespace, &object.name);
            tracing::warn!(namespace, name, %error, "a trigger cannot be followed");
            Status::invalid_argument(error.to_string())
        })
    }

    /// What that wants now.
    pub(crate) fn wanted(&self, query: &Query) -> Result<Wanted, Status> {
        let now = self.source.now();
        let mut triggers = self.followed();
        if !triggers.contains_key(query) {
            if TRIGGERS_MAX <= triggers.len() {
                return Err(Status::resource_exhausted(format!(
                    "{TRIGGERS_MAX} different triggers are followed already; use one `pool`, \
                     `model` and set of targets in several, or fewer of them"
                )));
            }
            triggers.insert(query.clone(), Trigger { hold: Hold::default(), asked: now });
        }
        let trigger = triggers.get_mut(query).expect("it is there or was put there");
        trigger.asked = now;
        Ok(self.look(query, trigger, now))
    }

    /// Looks at every trigger, so that no peak between two questions is missed.
    pub(crate) fn tick(&self) {
        let now = self.source.now();
        let mut triggers = self.followed();
        triggers.retain(|_, trigger| now.since(trigger.asked) < FORGOTTEN_AFTER);
        for (query, trigger) in triggers.iter_mut() {
            self.look(query, trigger, now);
        }
    }

    fn look(&self, query: &Query, trigger: &mut Trigger, now: Instant) -> Wanted {
        let load = self.source.load(query.pool, query.model.as_deref());
        let desired = load.desired(query.targets).workers();
        let workers = trigger.hold.observe(desired, self.source.settings().cooldown, now);
        Wanted { workers, active: load.is_active() }
    }

    pub(crate) fn specs(&self, object: &ScaledObjectRef) -> Result<GetMetricSpecResponse, Status> {
        self.query(object)?;
        let spec = MetricSpec { name: METRIC.to_owned(), target: 1, target_float: 1.0 };
        Ok(GetMetricSpecResponse { specs: vec![spec] })
    }

    pub(crate) fn metrics(&self, asked: &GetMetricsRequest) -> Result<GetMetricsResponse, Status> {
        if asked.name != METRIC {
            let name = asked.name.chars().take(64).collect::<String>();
            let why = format!("`{name}` is not a metric of this scaler; expected `{METRIC}`");
            return Err(Status::invalid_argument(why));
        }
        let object = asked.object.as_ref().ok_or_else(|| {
            Status::invalid_argument("`scaledObjectRef` is missing; expected a trigger")
        })?;
        let wanted = self.wanted(&self.query(object)?)?;
        let value = u32::try_from(wanted.workers).unwrap_or(u32::MAX);
        let value = MetricValue {
            name: METRIC.to_owned(),
            value: i64::from(value),
            value_float: f64::from(value),
        };
        Ok(GetMetricsResponse { values: vec![value] })
    }

    fn followed(&self) -> MutexGuard<'_, BTreeMap<Query, Trigger>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

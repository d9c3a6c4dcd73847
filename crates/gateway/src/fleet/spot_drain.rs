//! Drains on spot termination: workers of a machine that the cloud takes away are sent nothing new.
//!
//! A notice stands for a while, so that workers which join meanwhile are drained too. Each is drained once: an operator
//! may call that off.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::WorkerId;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Fleet;
use super::spot_termination::{self, Notice};
use crate::dispatch::Member;
use crate::settings::TerminationSettings;

/// Notices that wait to be acted on, at most.
const NOTICES_MAX: usize = 8;

/// For how long a notice stands beyond the time that the cloud gives; a machine that is there after that stays.
const STANDS_BEYOND: Duration = Duration::from_mins(5);

/// Between two looks for workers that have joined, while a notice stands.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sends workers of this machine nothing new once the cloud says that it takes it away.
pub(crate) async fn drain_on_notice(fleet: Arc<Fleet>, termination: TerminationSettings) {
    let (sink, notices) = mpsc::channel(NOTICES_MAX);
    let asking = spot_termination::watch(termination.cloud, termination.notice.clone(), sink);
    let acting = act(&fleet, notices, &termination.workers);
    let (asked, ()) = tokio::join!(asking, acting);
    if let Err(error) = asked {
        tracing::error!(%error, "termination notices of this machine cannot be read");
    }
}

/// Acts on notices until nobody sends any more.
async fn act(fleet: &Fleet, mut notices: mpsc::Receiver<Notice>, named: &[String]) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut standing: Option<Standing> = None;
    loop {
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(notice) => standing = Some(Standing::new(notice)),
                None => return,
            },
            _ = looks.tick(), if standing.is_some() => {}
        }
        standing.take_if(|standing| standing.is_over());
        if let Some(standing) = &mut standing {
            standing.drain(fleet, named);
        }
    }
}

/// A notice that stands.
struct Standing {
    notice: Notice,
    since: Instant,
    /// The workers that were drained for it, with their addresses: a place may be another worker's by now.
    drained: BTreeSet<(WorkerId, String)>,
}

impl Standing {
    fn new(notice: Notice) -> Self {
        Self { notice, since: Instant::now(), drained: BTreeSet::new() }
    }

    fn is_over(&self) -> bool {
        self.notice.ahead + STANDS_BEYOND < self.since.elapsed()
    }

    /// Drains the workers of the machine that it has not drained yet.
    fn drain(&mut self, fleet: &Fleet, named: &[String]) {
        let dispatcher = &fleet.dispatcher;
        let ids: Vec<WorkerId> = dispatcher.view().fleet().workers().map(|(id, _)| id).collect();
        for id in ids {
            let member = dispatcher.member(id);
            let one = (id, member.settings.url.clone());
            if is_here(&member, named) && self.drained.insert(one) {
                dispatcher.drain(id);
                let notice = &self.notice;
                tracing::warn!(worker = member.upstream.name(), cloud = %notice.cloud,
                    fate = ?notice.fate, at = notice.at, ahead = ?notice.ahead,
                    "termination notice: the worker gets no new requests, and its streams may finish");
            }
        }
    }
}

/// Whether a worker is of this machine: it is named, or, where none is, listens on the loopback interface.
fn is_here(member: &Member, named: &[String]) -> bool {
    if named.is_empty() {
        return member.upstream.is_local();
    }
    named.iter().any(|name| name == member.upstream.name())
}

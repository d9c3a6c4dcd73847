//! Drains on spot termination: workers of a machine that the cloud takes away are sent nothing new.

use std::sync::Arc;

use overdraft_core::fleet::WorkerId;
use tokio::sync::mpsc;

use super::Fleet;
use super::spot_termination::{self, Notice};
use crate::settings::TerminationSettings;

/// Notices that wait to be acted on, at most.
const NOTICES_MAX: usize = 8;

/// Sends workers of this machine nothing new once the cloud says that it takes it away.
pub(crate) async fn drain_on_notice(fleet: Arc<Fleet>, termination: TerminationSettings) {
    let (sink, mut notices) = mpsc::channel(NOTICES_MAX);
    let asking = spot_termination::watch(termination.cloud, termination.notice.clone(), sink);
    let acting = async {
        while let Some(notice) = notices.recv().await {
            act_on(&fleet, &notice, &termination.workers);
        }
    };
    let (asked, ()) = tokio::join!(asking, acting);
    if let Err(error) = asked {
        tracing::error!(%error, "termination notices of this machine cannot be heard");
    }
}

fn act_on(fleet: &Fleet, notice: &Notice, named: &[String]) {
    let dispatcher = &fleet.dispatcher;
    let ids: Vec<WorkerId> = dispatcher.view().fleet().workers().map(|(id, _)| id).collect();
    for id in ids {
        let member = dispatcher.member(id);
        let here = if named.is_empty() {
            member.upstream.is_local()
        } else {
            named.iter().any(|name| name == member.upstream.name())
        };
        if here {
            dispatcher.drain(id);
            tracing::warn!(worker = member.upstream.name(), cloud = %notice.cloud,
                fate = ?notice.fate, at = notice.at, ahead = ?notice.ahead,
                "machine of the worker is taken away: it is sent nothing new, its streams may finish");
        }
    }
}

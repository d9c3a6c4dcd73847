//! Hedge: a second attempt while the first one's token is late; whichever begins first is the answer.
//!
//! The core says when and where ([`overdraft_core::hedge`]). Here both are waited for, and the loser's connection is
//! closed as soon as there is a winner, which tells its worker.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::Ending;
use overdraft_core::hedge::{Denial, Watch};
use overdraft_core::route::Tried;
use tokio::time::sleep;

use super::Pipeline;
use super::attempt::{Answer, converse};
use super::context::RequestContext;
use super::failed_attempt::Failed;
use super::question::Question;
use super::request_info::RequestInfo;
use crate::dispatch::Lease;

/// What came first.
enum First {
    Asked(Result<Answer, Failed>),
    Other(Result<Answer, Failed>),
}

/// Asks the worker that `first` is for, and another one besides where its first token is late; the lease is the
/// winner's, or the last one's that failed.
pub(super) async fn race(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'_>,
    tried: &mut Tried,
    mut first: Lease,
) -> (Lease, Result<Answer, Failed>) {
    let Some(watch) = first.watch().filter(|watch| watch.due().is_some()) else {
        let answered = converse(pipeline, info, question, &mut first).await;
        return (first, answered);
    };
    let mut denied = None;
    let mut asked = Box::pin(converse(pipeline, info, question, &mut first));
    let mut second = tokio::select! {
        biased;
        answered = &mut asked => {
            drop(asked);
            if let Some(why) = denied {
                pipeline.requests.hedged(why.name());
            }
            return (first, answered);
        }
        second = second(pipeline, context, info, watch, &mut denied) => second,
    };
    let mut other = Box::pin(converse(pipeline, info, question, &mut second));
    let began = tokio::select! {
        biased;
        answered = &mut asked => First::Asked(answered),
        answered = &mut other => First::Other(answered),
    };
    let told = |result| {
        pipeline.requests.hedged(result);
        context.note(|record| record.hedged = Some(result));
    };
    match began {
        First::Asked(Ok(answer)) => {
            drop((asked, other));
            told("lost");
            second.end(Ending::Abandoned, None);
            (first, Ok(answer))
        }
        First::Other(Ok(answer)) if answer.is_taken() => {
            drop((asked, other));
            told("won");
            first.end(Ending::Abandoned, None);
            (second, Ok(answer))
        }
        First::Asked(Err(failed)) => {
            drop(asked);
            give_up(pipeline, info, tried, first, &failed);
            let answered = other.await;
            told(if answered.is_ok() { "won" } else { "failed" });
            (second, answered)
        }
        First::Other(answered) => {
            drop(other);
            told("failed");
            match answered {
                Ok(_declined) => second.end(Ending::Declined, None),
                Err(failed) => give_up(pipeline, info, tried, second, &failed),
            }
            let answered = asked.await;
            (first, answered)
        }
    }
}

/// A second attempt, when the core sends one; for ever where it sends none. Why it last sent none stands in `denied`.
async fn second(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    watch: Watch,
    denied: &mut Option<Denial>,
) -> Lease {
    let dispatcher = &pipeline.dispatcher;
    let (mut at, mut looks) = (watch.due(), 0);
    while let Some(due) = at {
        sleep(Duration::from(due.since(dispatcher.clock.now()))).await;
        match dispatcher.hedge(info.request(), watch, &mut context.explanation) {
            Ok(lease) => return lease,
            // It is not late.
            Err(Denial::Off) => {}
            Err(why) => *denied = Some(why),
        }
        looks += 1;
        at = watch.next_look(looks);
    }
    std::future::pending().await
}

/// One of two failed, and the other one goes on.
fn give_up(
    pipeline: &Pipeline,
    info: &RequestInfo,
    tried: &mut Tried,
    lease: Lease,
    failed: &Failed,
) {
    pipeline.requests.upstream_failed(failed.kind());
    pipeline.dispatcher.attempt_failed(&info.model, tried, lease.worker(), failed.failure);
    lease.refused(failed.failure, failed.retry_after());
}

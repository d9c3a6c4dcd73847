//! Discovery reports: the workers that a source found, and since when it has been failing.
//!
//! [`Found`] goes through a queue, each the whole set; [`Standing`] is the latest of its kind.
//! A log line is written when a source's trouble begins, changes or ends, and not in between.

use overdraft_core::fleet::WORKERS_MAX;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::found::FoundWorker;
use crate::settings::Each;
use crate::settings::Source;
use crate::settings::WorkerSettings;

/// The workers that a source knows now.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Which source, by the number that its reporter was given.
    pub(crate) source: usize,
    /// All of them, by name; a worker that is not among them any more is to be drained.
    pub(crate) workers: Vec<WorkerSettings>,
    /// The same as they were found, before the settings of the source described them; nothing where
    /// the settings name them.
    pub(crate) unsettled: Vec<FoundWorker>,
}

/// Whether what is known of a source is what it says now.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// Since when it has answered, or failed for whatever reason.
    pub(crate) since: Instant,
    /// What is in the way of knowing better; nothing while the source answers, and before the first
    /// look.
    pub(crate) error: Option<String>,
}

/// Sends what a source found to the fleet.
#[derive(Debug)]
pub(crate) struct Reporter {
    source: usize,
    /// As log lines call it.
    title: String,
    each: Each,
    sink: mpsc::Sender<Found>,
    standing: watch::Sender<Standing>,
    known: Option<Vec<FoundWorker>>,
}

impl Reporter {
    /// For `source`, which is to be known by the number `index`.
    pub(crate) fn new(
        index: usize,
        source: &Source,
        sink: mpsc::Sender<Found>,
    ) -> (Self, watch::Receiver<Standing>) {
        let (standing, latest) = watch::channel(Standing { since: Instant::now(), error: None });
        let title = source.to_string();
        let each = source.each();
        (Self { source: index, title, each, sink, standing, known: None }, latest)
    }

    /// The sender, to wait for the receiver to be dropped.
    pub(super) fn listener(&self) -> mpsc::Sender<Found> {
        self.sink.clone()
    }

    /// The source answered with `workers`, each name once. Equal sets are told once.
    pub(super) async fn found(&mut self, workers: Vec<FoundWorker>) {
        self.heard(workers, None).await;
    }

    /// The source did not answer; what was known stays.
    pub(super) fn failed(&self, error: &impl ToString) {
        self.stand(Some(error.to_string()));
    }

    /// The source stands for `workers`, though there may be trouble with it. A set that the gateway
    /// would refuse is trouble of its own and changes nothing.
    pub(super) async fn heard(&mut self, mut workers: Vec<FoundWorker>, trouble: Option<String>) {
        workers.sort_unstable();
        if self.known.as_ref() == Some(&workers) {
            self.stand(trouble);
        } else {
            match settle(&workers, &self.each) {
                Err(fault) => self.stand(Some(fault)),
                Ok(settled) => {
                    self.stand(trouble);
                    self.known = Some(workers);
                    self.hand_on(settled).await;
                }
            }
        }
    }

    pub(super) async fn hand_on(&mut self, workers: Vec<WorkerSettings>) {
        let unsettled = self.known.clone().unwrap_or_default();
        let membership = Found { source: self.source, workers, unsettled };
        // That nobody listens is noticed where the source is watched, which then ends.
        let _told = self.sink.send(membership).await;
    }

    fn stand(&self, error: Option<String>) {
        let source = self.title.as_str();
        self.standing.send_if_modified(|standing| {
            if standing.error == error {
                return false;
            }
            if let Some(error) = &error {
                tracing::warn!(
                    source,
                    error,
                    "service discovery failed; the workers found last stay"
                );
            } else {
                tracing::info!(source, "service discovery works again");
            }
            let turned = standing.error.is_none() || error.is_none();
            let since = if turned { Instant::now() } else { standing.since };
            *standing = Standing { since, error };
            true
        });
    }
}

/// The settings of all of them, or why the gateway would refuse such a set.
pub(super) fn settle(workers: &[FoundWorker], each: &Each) -> Result<Vec<WorkerSettings>, String> {
    if WORKERS_MAX < workers.len() {
        let count = workers.len();
        return Err(format!("`{count}` workers; at most {WORKERS_MAX} fit one gateway"));
    }
    let settled = workers.iter().map(|worker| each.settle(worker.clone()));
    settled.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

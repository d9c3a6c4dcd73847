//! Cause of a refusal or a failure, as reports count it.

use super::recorder::{Fate, Recorder};
use crate::float_conversion::{float, length};

/// Why a request got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The gateway's wait queue was full.
    QueueFull,
    /// As many requests of its tenant waited at the gateway as may.
    TenantQueueFull,
    /// It waited at the gateway as long as it may, or would have.
    WaitedTooLong,
    /// No worker had room, and nothing waits at the gateway.
    NoRoom,
    /// No worker could be asked: all were down, or had failed the request already.
    NoWorker,
    /// Prompt and answer never fit the context or the cache.
    TooLarge,
    /// Its worker's own queue was full.
    WorkerQueueFull,
    /// Its worker turned it away.
    TurnedAway,
    /// Its worker died or could not be reached.
    WorkerLost,
    /// No whole answer came in time.
    TimedOut,
    /// The endpoint answered with an error, or with what is no answer.
    ErrorAnswer,
    /// Nobody says why.
    Untold,
}

impl Cause {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 12] = [
        Self::QueueFull,
        Self::TenantQueueFull,
        Self::WaitedTooLong,
        Self::NoRoom,
        Self::NoWorker,
        Self::TooLarge,
        Self::WorkerQueueFull,
        Self::TurnedAway,
        Self::WorkerLost,
        Self::TimedOut,
        Self::ErrorAnswer,
        Self::Untold,
    ];

    /// As JSON and CSV have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::TenantQueueFull => "tenant_queue_full",
            Self::WaitedTooLong => "waited_too_long",
            Self::NoRoom => "no_room",
            Self::NoWorker => "no_worker",
            Self::TooLarge => "too_large",
            Self::WorkerQueueFull => "worker_queue_full",
            Self::TurnedAway => "turned_away",
            Self::WorkerLost => "worker_lost",
            Self::TimedOut => "timed_out",
            Self::ErrorAnswer => "error_answer",
            Self::Untold => "untold",
        }
    }

    /// As a person reads it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::QueueFull => "the gateway's queue was full",
            Self::TenantQueueFull => "the tenant's share of the gateway's queue was full",
            Self::WaitedTooLong => "waited too long at the gateway",
            Self::NoRoom => "no worker had room",
            Self::NoWorker => "no worker could be asked",
            Self::TooLarge => "never fits the context or the cache",
            Self::WorkerQueueFull => "the worker's queue was full",
            Self::TurnedAway => "the worker turned it away",
            Self::WorkerLost => "the worker died or was out of reach",
            Self::TimedOut => "no whole answer came in time",
            Self::ErrorAnswer => "answered with an error",
            Self::Untold => "for a reason that is not told",
        }
    }
}

/// Requests by why they got no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes([u64; Cause::ALL.len()]);

impl Causes {
    pub(super) fn of(causes: impl Iterator<Item = Cause>) -> Self {
        let mut counts = Self::default();
        for cause in causes {
            counts.0[cause as usize] += 1;
        }
        counts
    }

    /// How many there are of one.
    pub const fn count(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Those that there are, the most frequent first.
    pub(super) fn told(&self) -> Vec<(Cause, u64)> {
        let counted = Cause::ALL.into_iter().map(|cause| (cause, self.count(cause)));
        let mut told: Vec<_> = counted.filter(|(_, count)| 0 < *count).collect();
        told.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        told
    }
}

/// What the latencies of some runs leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unanswered {
    offered: u64,
    refused: u64,
    failed: u64,
    unasked: u64,
    causes: Causes,
}

impl Unanswered {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Recorder>) -> Self {
        let mut all = Self::default();
        for run in runs {
            all.offered += length(run.samples.len()) + run.dropped;
            all.failed += run.dropped;
            all.unasked += run.unasked;
            for sample in &run.samples {
                let Some(cause) = sample.cause() else { continue };
                all.causes.0[cause as usize] += 1;
                all.refused += u64::from(sample.fate == Fate::Refused);
                all.failed += u64::from(sample.fate == Fate::Failed);
            }
        }
        all
    }

    /// In a sentence; none where every request got its answer.
    pub(super) fn sentence(&self) -> Option<String> {
        let Self { offered, refused, failed, unasked, causes } = self;
        if refused + failed == 0 {
            return None;
        }
        let percent = |count: u64| float(count) / float((*offered).max(1)) * 100.0;
        let reason =
            |(cause, count): (Cause, u64)| format!("{} {:.1} %", cause.title(), percent(count));
        let reasons: Vec<String> = causes.told().into_iter().map(reason).collect();
        let turns = match unasked {
            0 => String::new(),
            turns => format!("; {turns} later turns were not asked"),
        };
        Some(format!(
            "latencies are those of answered requests: {:.1} % of all offered were refused, {:.1} % failed \
             ({}){turns}",
            percent(*refused),
            percent(*failed),
            reasons.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_counted_each_for_itself_and_told_by_frequency() {
        let causes = [Cause::Untold, Cause::QueueFull, Cause::WorkerLost, Cause::QueueFull];
        let counted = Causes::of(causes.into_iter());
        let told: Vec<_> =
            counted.told().into_iter().map(|(one, count)| (one.name(), count)).collect();
        assert_eq!(told, [("queue_full", 2), ("worker_lost", 1), ("untold", 1)]);
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(
                Causes::of([cause].into_iter()).0[place],
                1,
                "{cause:?} has a place of its own"
            );
        }
    }
}

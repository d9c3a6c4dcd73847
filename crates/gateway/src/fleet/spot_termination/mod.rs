//! Spot termination: notices that the cloud is about to take the machine away.
//!
//! Each cloud publishes notices on a link-local address in a format of its own. The trait
//! [`TerminationNotice`] polls once; [`watch`] polls repeatedly and reports each notice once. The
//! fleet then drains the worker. See docs/design/discovery.md#r7.

mod aws;
mod azure;
mod gcp;
mod metadata;

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::aws::Aws;
use self::azure::Azure;
use self::gcp::Gcp;
use self::metadata::Metadata;
use crate::settings::Cloud;
use crate::settings::NoticeSettings;

/// Notices that are remembered, so that each is reported once.
const NOTICES_MAX: usize = 64;

/// The machine is about to be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The cloud.
    pub(crate) cloud: Cloud,
    /// What will happen to it.
    pub(crate) fate: Fate,
    /// What tells this notice from another.
    pub(crate) id: String,
    /// When, as the cloud writes it, if it does.
    pub(crate) at: Option<String>,
    /// How long before it happens the cloud promises to say so; less may be left.
    pub(crate) ahead: Duration,
}

/// What will happen to a machine. Its processes end in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is taken back and gone.
    Terminated,
    /// It is taken back, and may come again with its disk.
    Stopped,
    /// It is started anew, here or elsewhere.
    Restarted,
}

/// Why a poll failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoticeError {
    /// The settings name a server that cannot be spoken to.
    #[error("`{url}` is not a metadata server; expected one as in `http://169.254.169.254`")]
    Server {
        /// As configured.
        url: String,
    },
    /// No connection, or it broke.
    #[error("the metadata server does not answer: {0}")]
    Unreachable(std::io::Error),
    /// What came is not HTTP, or it broke off.
    #[error("the metadata server's answer broke off: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing in time.
    #[error("the metadata server did not answer within {0:?}")]
    TimedOut(Duration),
    /// It answered with something else.
    #[error("the metadata server answered `{path}` with {status}")]
    Status {
        /// What it was asked.
        path: &'static str,
        /// How it answered.
        status: StatusCode,
    },
    /// The answer makes no sense.
    #[error("the metadata server's answer to `{path}` is not understood: expected {expected}")]
    Answer {
        /// What it was asked.
        path: &'static str,
        /// What an answer looks like.
        expected: &'static str,
    },
}

/// Somebody who knows whether the machine is about to be taken away.
pub(crate) trait TerminationNotice: Send {
    /// Asks once. `None` if nothing is announced.
    fn poll(&mut self) -> impl Future<Output = Result<Option<Notice>, NoticeError>> + Send;
}

/// Asks `cloud` for ever and hands each notice on once, until nobody listens.
///
/// # Errors
/// [`NoticeError::Server`] if the settings cannot work.
pub(crate) async fn watch(
    cloud: Cloud,
    settings: NoticeSettings,
    sink: mpsc::Sender<Notice>,
) -> Result<(), NoticeError> {
    let metadata = Metadata::new(&settings)?;
    match cloud {
        Cloud::Aws => follow(Aws::new(metadata), &settings, sink).await,
        Cloud::Gcp => follow(Gcp::new(metadata), &settings, sink).await,
        Cloud::Azure => follow(Azure::new(metadata), &settings, sink).await,
    }
    Ok(())
}

async fn follow(
    mut source: impl TerminationNotice,
    settings: &NoticeSettings,
    sink: mpsc::Sender<Notice>,
) {
    let mut ticks = interval(settings.interval.max(Duration::from_millis(1)));
    // A question that took long is not made up for by asking twice.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = VecDeque::new();
    let mut trouble: Option<String> = None;
    loop {
        tokio::select! {
            () = sink.closed() => return,
            _ = ticks.tick() => {}
        }
        let polled = source.poll().await;
        let error = polled.as_ref().err().map(ToString::to_string);
        if trouble != error {
            log(error.as_deref());
            trouble = error;
        }
        let Ok(Some(notice)) = polled else { continue };
        if told.contains(&notice.id) {
            continue;
        }
        if told.len() == NOTICES_MAX {
            told.pop_front();
        }
        told.push_back(notice.id.clone());
        if sink.send(notice).await.is_err() {
            return;
        }
    }
}

/// Says that trouble began, changed or ended.
fn log(trouble: Option<&str>) {
    if let Some(error) = trouble {
        tracing::warn!(error, "termination notices cannot be asked for");
    } else {
        tracing::info!("termination notices can be asked for again");
    }
}

#[cfg(test)]
mod tests;

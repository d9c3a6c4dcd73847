//! Service discovery: finds the workers by settings, DNS, a file or Kubernetes.
//!
//! A [`Source`] is the settings themselves, a DNS name, a file or a Kubernetes service. [`watch`]
//! polls or watches the source and sends the whole set of workers each time it has changed; the
//! fleet's membership decides what to do with workers that came, went or moved.
//!
//! **Invariant.** An error never removes a worker: the last known set stays until the source says
//! otherwise, and [`Standing`] says since when the source has been failing. See
//! docs/design/discovery.md.

mod backoff;
mod dns;
mod each;
mod file;
mod found;
mod kubernetes;
mod look_up;
mod report;
mod succession;

pub(crate) use self::found::FoundWorker;
pub use self::look_up::look_up;
pub(crate) use self::report::{Found, Reporter, Standing};
pub(crate) use self::succession::{settle_anew, successors};
use crate::settings::Source;

/// Sends the workers that `source` knows to `reporter`, until its receiver is dropped.
pub(crate) async fn watch(source: Source, reporter: Reporter) {
    let closed = reporter.listener();
    tokio::select! {
        () = closed.closed() => {}
        () = follow(source, reporter) => {}
    }
}

/// Follows `source` for ever; [`watch`] ends it.
async fn follow(source: Source, mut reporter: Reporter) {
    match source {
        Source::Static(workers) => {
            reporter.hand_on(workers).await;
            std::future::pending::<()>().await;
        }
        Source::Dns(settings) => dns::follow(settings, reporter).await,
        Source::File(settings) => file::follow(settings, reporter).await,
        Source::Kubernetes(settings) => kubernetes::follow(settings, reporter).await,
    }
}

#[cfg(test)]
mod tests;

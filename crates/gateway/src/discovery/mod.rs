//! Where are the workers?
//!
//! A [`Source`] is a place that knows: the settings themselves, a name in the DNS, a file, a
//! Kubernetes service. [`watch`] looks there again and again and hands on the whole set of workers
//! each time it has changed; what to do with those that came, went or moved is not decided here.
//!
//! **Invariant.** An error never takes a worker away: what was known last stays until the source
//! says otherwise, and [`Standing`] tells since when it has been silent. See
//! docs/design/discovery.md.

mod dns;
mod each;
mod file;
mod found;
mod kubernetes;
mod patience;
mod report;

pub(crate) use self::report::{Found, Reporter, Standing};
use crate::settings::Source;

/// Tells `reporter` the workers that `source` knows, until nobody listens any more.
pub(crate) async fn watch(source: Source, reporter: Reporter) {
    let closed = reporter.listener();
    tokio::select! {
        () = closed.closed() => {}
        () = follow(source, reporter) => {}
    }
}

/// Looks at `source` for ever; [`watch`] ends it.
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

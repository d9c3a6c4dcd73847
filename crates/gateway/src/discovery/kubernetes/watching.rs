//! Kubernetes watch: lists and watches the `EndpointSlice`s of a service.
//!
//! kube's watcher lists, then watches from there and renews a watch that ended in order. Its own
//! error recovery is not used: after an error this module lists the slices anew, once the backoff
//! is over. Until that list is complete, the known workers stay.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use tokio::time::{Instant, sleep};

use super::slices::{Slices, SlicesError};
use crate::discovery::backoff::Backoff;
use crate::discovery::report::Reporter;
use crate::settings::KubernetesSettings;

/// Page size of a list: slices in one response.
const PAGE_SLICES: u32 = 100;

/// Seconds after which the server is to end a watch, which is then renewed. It bounds for how long a
/// connection that died without a word is believed.
const WATCH_SECONDS: u32 = 60;

/// For how long the server may say nothing, to the request for a list or a watch too. kube gives up a watch that is
/// under way, and renews it, 5 s after the server should have ended it; this is later.
const SILENCE_MAX: Duration = Duration::from_secs(75);

/// Why a watch ended.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("no way to the Kubernetes API: {0}")]
    Config(String),
    #[error("the Kubernetes API failed: {}", chain(.0))]
    Watch(watcher::Error),
    #[error("the watch ended")]
    Ended,
    #[error(transparent)]
    Slices(SlicesError),
}

/// Lists and watches for ever.
pub(in crate::discovery) async fn follow(settings: KubernetesSettings, mut reporter: Reporter) {
    let mut backoff = Backoff::new(settings.retry_min, settings.retry_max);
    loop {
        let began = Instant::now();
        let error = session(&settings, &mut reporter).await;
        // A list alone is no success: a server may answer that and refuse every watch.
        if settings.retry_max < began.elapsed() {
            backoff.answered();
        }
        if !is_expiry(&error) {
            reporter.failed(&error);
        }
        sleep(backoff.failed()).await;
    }
}

/// From a list to the error that ends the watch after it.
async fn session(settings: &KubernetesSettings, reporter: &mut Reporter) -> WatchError {
    let api = match connect(settings).await {
        Ok(api) => api,
        Err(error) => return error,
    };
    let mut config = watcher::Config::default()
        .labels(&format!("kubernetes.io/service-name={}", settings.service))
        .timeout(WATCH_SECONDS);
    config.page_size = Some(PAGE_SLICES);
    let mut events = pin!(watcher(api, config));
    let mut slices = Slices::default();
    let mut listed = Listed::No;
    loop {
        let applied = match events.next().await {
            None => return WatchError::Ended,
            Some(Err(error)) => return WatchError::Watch(error),
            Some(Ok(Event::Init)) => {
                (slices, listed) = (Slices::default(), Listed::No);
                Ok(())
            }
            Some(Ok(Event::InitDone)) => {
                listed = Listed::Yes;
                Ok(())
            }
            Some(Ok(Event::InitApply(slice) | Event::Apply(slice))) => {
                slices.apply(slice, settings)
            }
            Some(Ok(Event::Delete(slice))) => {
                slices.delete(&slice);
                Ok(())
            }
        };
        if let Err(error) = applied {
            return WatchError::Slices(error);
        }
        if listed == Listed::Yes {
            match slices.workers(settings) {
                Ok(workers) => reporter.found(workers).await,
                // The service may be mended, and the watch will tell.
                Err(error) => reporter.failed(&error),
            }
        }
    }
}

/// Whether the list is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    No,
    Yes,
}

/// Credentials are read anew each time; a token that was rotated is found.
async fn connect(settings: &KubernetesSettings) -> Result<Api<EndpointSlice>, WatchError> {
    let fault = |error: &dyn std::fmt::Display| WatchError::Config(error.to_string());
    let mut config = match &settings.server {
        Some(url) => Config::new(url.parse().map_err(|error| fault(&error))?),
        None => Config::infer().await.map_err(|error| fault(&error))?,
    };
    // How often a failure is tried again is decided in one place, which is ours.
    config.default_retry = false;
    // Without it a list, or the start of a watch, is awaited for ever. It counts from the last byte either way.
    config.read_timeout = Some(SILENCE_MAX);
    config.reset_reader_on_write = true;
    let own = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| fault(&error))?;
    Ok(Api::namespaced(client, settings.namespace.as_deref().unwrap_or(&own)))
}

/// Whether the server only says that what we last saw is too long ago to go on from. That happens in
/// good order and is mended by the list that follows.
fn is_expiry(error: &WatchError) -> bool {
    const GONE: u16 = 410;
    match error {
        WatchError::Watch(watcher::Error::WatchError(status)) => status.code == GONE,
        WatchError::Watch(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => {
            status.code == GONE
        }
        _ => false,
    }
}

/// An error with its causes, which kube leaves out.
fn chain(error: &dyn std::error::Error) -> String {
    const CAUSES_MAX: usize = 8;
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut said = Vec::<String>::new();
    for cause in causes.take(CAUSES_MAX) {
        let cause = cause.to_string();
        // Some already quote the one below.
        if !said.last().is_some_and(|above| above.ends_with(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}

//! Discovery by Kubernetes: the workers behind a service.
//!
//! Its `EndpointSlice`s are listed and watched. A pod that is ready and not on its way out is a
//! worker; when it is told to end it leaves the set, and the gateway drains it while it still runs.
//! Every error ends the watch, and the next one begins with a new list, so that nothing depends on
//! which events were missed.

#[cfg(feature = "kubernetes")]
mod slices;
#[cfg(feature = "kubernetes")]
mod watching;

#[cfg(feature = "kubernetes")]
pub(super) use self::watching::follow;

#[cfg(not(feature = "kubernetes"))]
use crate::settings::{KubernetesSettings, SourceError};

/// Without Kubernetes there is nothing to follow; [`KubernetesSettings::check`] says so before.
#[cfg(not(feature = "kubernetes"))]
pub(super) async fn follow(settings: KubernetesSettings, reporter: super::Reporter) {
    reporter.failed(&SourceError::NoKubernetes { service: settings.service });
    std::future::pending::<()>().await;
}

#[cfg(feature = "kubernetes")]
#[cfg(test)]
mod tests;

//! Settings of discovery by the `EndpointSlice`s of a Kubernetes service.

use std::time::Duration;

use super::Each;
use crate::settings::error::SourceError;
use crate::settings::worker::Pool;

/// Bytes of the name of a service or a namespace at most, as of a DNS label.
const LABEL_BYTES_MAX: usize = 63;

/// A Kubernetes service whose pods are workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// The service's name.
    pub service: String,
    /// Its namespace; the gateway's own where none is given.
    pub namespace: Option<String>,
    /// The port at which its pods listen.
    pub port: ServicePort,
    /// The API server, as in `http://127.0.0.1:8001` for `kubectl proxy`; the cluster's own, with
    /// the credentials of the gateway's service account, where none is given.
    pub server: Option<String>,
    /// What the workers are for.
    pub pool: Pool,
    /// The model that they serve; without one they are asked.
    pub model: Option<String>,
    /// What else they have in common.
    pub each: Each,
    /// The pause after the first failure; each further one doubles it.
    pub retry_min: Duration,
    /// The longest pause after a failure.
    pub retry_max: Duration,
}

/// A port of a service's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicePort {
    /// As the service calls it.
    Name(String),
    /// As the pods have it, which is the service's `targetPort`.
    Number(u16),
}

impl KubernetesSettings {
    /// Target workers at `port` of the pods of `service` in the gateway's own namespace.
    pub fn new(service: impl Into<String>, port: ServicePort) -> Self {
        Self {
            service: service.into(),
            namespace: None,
            port,
            server: None,
            pool: Pool::default(),
            model: None,
            each: Each::default(),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(15),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SourceError> {
        let service = || self.service.clone();
        if !is_label(&self.service) {
            return Err(SourceError::ServiceName { service: service() });
        }
        if let Some(namespace) = self.namespace.as_ref().filter(|name| !is_label(name)) {
            return Err(SourceError::Namespace { namespace: namespace.clone() });
        }
        let reachable = |url: &String| {
            let uri = url.parse::<http::Uri>();
            uri.is_ok_and(|uri| uri.scheme().is_some() && uri.authority().is_some())
        };
        if let Some(url) = self.server.as_ref().filter(|url| !reachable(url)) {
            return Err(SourceError::ApiServer { url: url.clone() });
        }
        if cfg!(feature = "kubernetes") {
            Ok(())
        } else {
            Err(SourceError::NoKubernetes { service: service() })
        }
    }
}

/// Whether it may stand in a path and a label selector.
fn is_label(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= LABEL_BYTES_MAX && name.bytes().all(plain)
}

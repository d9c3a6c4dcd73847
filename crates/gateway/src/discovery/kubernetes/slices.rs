//! Kubernetes `EndpointSlice` aggregation: which pods of a service are workers.
//!
//! A service has many slices, and a pod may for a moment be in two of them, or in one for each
//! address family. Pods are therefore deduplicated by name. No I/O here.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::discovery::found::FoundWorker;
use crate::settings::{KubernetesSettings, ServicePort};

/// Maximum slices of a service; each holds up to 1,000 pods, most hold up to 100.
pub(super) const SLICES_MAX: usize = 1_024;

/// Why slices name no workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SlicesError {
    #[error("`{service}` has no TCP port called `{port}`; it has {there}")]
    NoSuchPort { service: String, port: String, there: String },
    #[error(
        "`{service}` has more than {SLICES_MAX} EndpointSlices, which are more than can be used"
    )]
    TooMany { service: String },
}

/// The slices of a service, by name.
#[derive(Debug, Default)]
pub(super) struct Slices {
    slices: BTreeMap<String, EndpointSlice>,
}

impl Slices {
    pub(super) fn apply(
        &mut self,
        slice: EndpointSlice,
        settings: &KubernetesSettings,
    ) -> Result<(), SlicesError> {
        let name = slice.metadata.name.clone().unwrap_or_default();
        if self.slices.len() == SLICES_MAX && !self.slices.contains_key(&name) {
            return Err(SlicesError::TooMany { service: settings.service.clone() });
        }
        self.slices.insert(name, slice);
        Ok(())
    }

    pub(super) fn delete(&mut self, slice: &EndpointSlice) {
        self.slices.remove(slice.metadata.name.as_deref().unwrap_or_default());
    }

    /// The pods that can take requests, in all zones.
    pub(super) fn workers(
        &self,
        settings: &KubernetesSettings,
    ) -> Result<Vec<FoundWorker>, SlicesError> {
        let mut pods = BTreeMap::new();
        let mut portless = None;
        for slice in self.slices.values() {
            let endpoints = slice.endpoints.as_deref().unwrap_or_default();
            if endpoints.is_empty() {
                continue;
            }
            let Some(port) = port(slice, &settings.port) else {
                portless = Some(slice);
                continue;
            };
            for endpoint in endpoints {
                Pod::see(&mut pods, slice, endpoint, port);
            }
        }
        if pods.is_empty()
            && let Some(slice) = portless
        {
            return Err(no_such_port(slice, settings));
        }
        let ready = pods.into_iter().filter(|(_, pod)| pod.ready && !pod.terminating);
        let found = ready.map(|(name, pod)| FoundWorker {
            name,
            pool: settings.pool,
            model: settings.model.clone(),
            ..pod.found
        });
        Ok(found.collect())
    }
}

/// What all slices together say of a pod.
#[derive(Debug)]
struct Pod {
    found: FoundWorker,
    kind: AddressKind,
    ready: bool,
    terminating: bool,
}

/// Address families of a pod; the first is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressKind {
    Four,
    Six,
    Name,
}

impl Pod {
    /// Takes in what a slice says of an endpoint. A pod is ready if any slice says so and is on its
    /// way out if any says that, for that is not taken back.
    fn see(
        pods: &mut BTreeMap<String, Self>,
        slice: &EndpointSlice,
        endpoint: &Endpoint,
        port: u16,
    ) {
        // Only the first address is defined to be that of the endpoint.
        let Some(address) = endpoint.addresses.first() else { return };
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let seen = Self {
            found: FoundWorker::at(address, port),
            kind: match slice.address_type.as_str() {
                "IPv4" => AddressKind::Four,
                "IPv6" => AddressKind::Six,
                _ => AddressKind::Name,
            },
            // What the API says of conditions that are left out.
            ready: conditions.ready.unwrap_or(true),
            terminating: conditions.terminating.unwrap_or(false),
        };
        let pod = endpoint.target_ref.as_ref().and_then(|pod| pod.name.clone());
        let name = pod.unwrap_or_else(|| seen.found.name.clone());
        match pods.get_mut(&name) {
            None => {
                pods.insert(name, seen);
            }
            Some(known) => known.merge(seen),
        }
    }

    fn merge(&mut self, seen: Self) {
        // An address at which it is ready is better than one at which it is not.
        let better = (!seen.ready, seen.kind) < (!self.ready, self.kind);
        self.ready |= seen.ready;
        self.terminating |= seen.terminating;
        if better {
            (self.found, self.kind) = (seen.found, seen.kind);
        }
    }
}

fn port(slice: &EndpointSlice, wanted: &ServicePort) -> Option<u16> {
    let matching = ports(slice).find(|port| match wanted {
        ServicePort::Name(name) => port.name.as_deref().unwrap_or_default() == name,
        ServicePort::Number(number) => port.port == Some(i32::from(*number)),
    });
    matching.and_then(|port| port.port).and_then(|number| u16::try_from(number).ok())
}

/// The ports at which HTTP can be spoken.
fn ports(slice: &EndpointSlice) -> impl Iterator<Item = &EndpointPort> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    ports.iter().filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
}

fn no_such_port(slice: &EndpointSlice, settings: &KubernetesSettings) -> SlicesError {
    let there = ports(slice).map(|port| {
        let name = port.name.as_deref().unwrap_or_default();
        port.port.map_or_else(|| format!("`{name}`"), |number| format!("`{name}` ({number})"))
    });
    let there: Vec<String> = there.collect();
    SlicesError::NoSuchPort {
        service: settings.service.clone(),
        port: match &settings.port {
            ServicePort::Name(name) => name.clone(),
            ServicePort::Number(number) => number.to_string(),
        },
        there: if there.is_empty() { "none".to_owned() } else { there.join(", ") },
    }
}

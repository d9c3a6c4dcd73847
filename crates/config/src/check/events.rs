//! Addresses of KV events.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::KvEvents;

pub(super) fn events(
    events: &KvEvents,
    place: &[Step],
    fill: fn(&str) -> String,
    findings: &mut Findings<'_>,
) {
    let KvEvents::At(events) = events else { return };
    let replay = events.replay_endpoint.iter().map(|it| ("replay_endpoint", it));
    for (key, endpoint) in std::iter::once(("endpoint", &events.endpoint)).chain(replay) {
        if !is_endpoint(&fill(endpoint)) {
            let keys = ["kv_events", key].map(Step::from);
            let path: Vec<Step> = place.iter().cloned().chain(keys).collect();
            let message = format!("`{endpoint}` is not an address of events");
            findings.value(&path, message, "expected one as in `tcp://10.0.0.5:5557`");
        }
    }
}

fn is_endpoint(text: &str) -> bool {
    let place = text.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
    place.is_some_and(|(host, port)| {
        // ZeroMQ knows neither user names nor queries, and a view would show what stands in one.
        let is_host = !host.is_empty() && !host.contains(['/', '?', '@']);
        is_host && port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}

//! A service whose API server lists, watches, forgets, refuses and hangs up.

mod server;

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use self::server::ApiServer;
use super::slices::{SLICES_MAX, Slices, SlicesError};
use crate::discovery::tests::Watching;
use crate::settings::Source;
use crate::settings::{KubernetesSettings, ServicePort};

fn settings(port: ServicePort) -> KubernetesSettings {
    let mut settings = KubernetesSettings::new("vllm", port);
    settings.namespace = Some("inference".to_owned());
    (settings.retry_min, settings.retry_max) = (Duration::from_millis(2), Duration::from_millis(2));
    settings
}

fn http() -> ServicePort {
    ServicePort::Name("http".to_owned())
}

fn pod(name: &str, address: &str, conditions: &Value) -> Value {
    json!({
        "addresses": [address],
        "conditions": conditions,
        "targetRef": {"kind": "Pod", "name": name, "namespace": "inference"},
        "zone": format!("zone-of-{name}"),
    })
}

fn ready(name: &str, address: &str) -> Value {
    pod(name, address, &json!({"ready": true, "serving": true, "terminating": false}))
}

fn slice_of(kind: &str, name: &str, version: u32, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "inference",
            "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/service-name": "vllm"},
        },
        "addressType": kind,
        "endpoints": endpoints,
        "ports": [
            {"name": "dns", "port": 8000, "protocol": "UDP"},
            {"name": "http", "port": 8000, "protocol": "TCP"},
            {"name": "metrics", "port": 9000},
        ],
    })
}

fn slice(name: &str, version: u32, endpoints: &[Value]) -> Value {
    slice_of("IPv4", name, version, endpoints)
}

async fn start() -> (ApiServer, Watching) {
    let server = ApiServer::start().await;
    let mut settings = settings(http());
    settings.server = Some(server.url());
    (server, Watching::start(Source::Kubernetes(settings)))
}

#[tokio::test]
async fn a_service_is_listed_and_watched() {
    let (server, mut watching) = start().await;
    let request = server.next().await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices?";
    assert!(request.target.starts_with(path), "{}", request.target);
    let label = "labelSelector=kubernetes.io%2Fservice-name%3Dvllm";
    assert!(request.target.contains(label), "{}", request.target);
    let unready = json!({"ready": false, "serving": false, "terminating": false});
    let leaving = json!({"ready": true, "serving": true, "terminating": true});
    let pods = [
        ready("vllm-0", "10.0.0.1"),
        pod("vllm-1", "10.0.0.2", &unready),
        pod("vllm-2", "10.0.0.3", &leaving),
    ];
    request.list(10, &[slice("a", 5, &pods)]).await;
    assert_eq!(watching.next().await, ["vllm-0 http://10.0.0.1:8000"]);

    let mut watch = server.next().await.watch(10).await;
    // Another slice, another zone.
    let far = [ready("vllm-3", "10.1.0.1")];
    watch.event("ADDED", &slice("b", 11, &far)).await;
    let both = ["vllm-0 http://10.0.0.1:8000", "vllm-3 http://10.1.0.1:8000"];
    assert_eq!(watching.next().await, both);
    let gone = [pod("vllm-0", "10.0.0.1", &leaving), ready("vllm-1", "10.0.0.2")];
    watch.event("MODIFIED", &slice("a", 12, &gone)).await;
    let moved = ["vllm-1 http://10.0.0.2:8000", "vllm-3 http://10.1.0.1:8000"];
    assert_eq!(watching.next().await, moved);
    watch.event("DELETED", &slice("b", 13, &far)).await;
    assert_eq!(watching.next().await, ["vllm-1 http://10.0.0.2:8000"]);
    // A watch that ends in order is renewed from where it ended.
    watch.end().await;
    let mut watch = server.next().await.watch(13).await;
    watch.event("MODIFIED", &slice("a", 14, &[])).await;
    assert_eq!(watching.next().await, Vec::<String>::new());
    assert_eq!(watching.error(), None);
    watching.end().await;
}

#[tokio::test]
async fn a_list_has_pages() {
    let (server, mut watching) = start().await;
    let first = [slice("a", 5, &[ready("vllm-0", "10.0.0.1")])];
    server.next().await.page(10, "more", &first).await;
    let request = server.next().await;
    assert!(request.target.contains("continue=more"), "{}", request.target);
    watching.is_silent();
    request.list(10, &[slice("b", 6, &[ready("vllm-1", "10.0.0.2")])]).await;
    let both = ["vllm-0 http://10.0.0.1:8000", "vllm-1 http://10.0.0.2:8000"];
    assert_eq!(watching.next().await, both);
    watching.end().await;
}

// Faults: 82
#[tokio::test]
async fn a_watch_from_too_long_ago_begins_with_a_new_list() {
    let (server, mut watching) = start().await;
    server.next().await.list(10, &[slice("a", 5, &[ready("vllm-0", "10.0.0.1")])]).await;
    assert_eq!(watching.next().await, ["vllm-0 http://10.0.0.1:8000"]);
    let mut watch = server.next().await.watch(10).await;
    watch.event("ERROR", &server::status(410, "Expired", "too old resource version")).await;
    let request = server.next().await;
    assert!(!request.is_watch(), "{}", request.target);
    // That is the protocol, no trouble.
    assert_eq!(watching.error(), None);
    request.list(90, &[slice("c", 80, &[ready("vllm-9", "10.0.0.9")])]).await;
    assert_eq!(watching.next().await, ["vllm-9 http://10.0.0.9:8000"]);
    server.next().await.watch(90).await;
    watching.end().await;
}

// Faults: 82
#[tokio::test]
async fn a_server_that_hangs_up_and_refuses_keeps_the_last_good() {
    let (server, mut watching) = start().await;
    let known = [slice("a", 5, &[ready("vllm-0", "10.0.0.1")])];
    server.next().await.list(10, &known).await;
    assert_eq!(watching.next().await, ["vllm-0 http://10.0.0.1:8000"]);
    let mut watch = server.next().await.watch(10).await;
    watch.partial(r#"{"type":"MODIFIED","object":{"kind":"Endp"#).await;
    watch.cut();
    for (code, reason) in [(503, "ServiceUnavailable"), (403, "Forbidden"), (401, "Unauthorized")] {
        server.next().await.refuse(code, reason).await;
        let error = watching.trouble(reason).await;
        assert!(error.starts_with("the Kubernetes API failed: "), "{error}");
    }
    // Not even the first page of a list that is never finished.
    let request = server.next_list().await;
    request.page(20, "more", &[slice("b", 19, &[ready("vllm-1", "10.0.0.2")])]).await;
    server.next().await.garble().await;
    let request = server.next_list().await;
    watching.is_silent();
    request.list(30, &known).await;
    watching.fine().await;
    watching.is_silent();
    watching.end().await;
}

/// Lets time pass until the source is in trouble.
async fn until_trouble(watching: &Watching) -> String {
    for _ in 0..60 {
        if let Some(error) = watching.error() {
            return error;
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        tokio::time::resume();
        tokio::task::yield_now().await;
    }
    panic!("a server that says nothing is believed for ever")
}

// Faults: 82
#[tokio::test]
async fn a_server_that_accepts_and_stays_silent_is_told_and_keeps_the_last_good() {
    let (server, mut watching) = start().await;
    let list = server.next().await;
    let error = until_trouble(&watching).await;
    assert!(error.starts_with("the Kubernetes API failed: "), "{error}");
    watching.is_silent();
    watching.end().await;
    drop(list);

    let (server, mut watching) = start().await;
    let known = [slice("a", 5, &[ready("vllm-0", "10.0.0.1")])];
    server.next().await.list(10, &known).await;
    assert_eq!(watching.next().await, ["vllm-0 http://10.0.0.1:8000"]);
    let watch = server.next().await;
    assert!(watch.is_watch(), "{}", watch.target);
    until_trouble(&watching).await;
    server.next_list().await.list(30, &known).await;
    watching.fine().await;
    watching.is_silent();
    watching.end().await;
    drop(watch);
}

#[tokio::test]
async fn a_server_that_is_not_there_leaves_nothing_known() {
    // Bound, so that nobody else is there, and closed at once.
    let server = ApiServer::start().await;
    let mut settings = settings(http());
    settings.server = Some(server.url());
    drop(server);
    let mut watching = Watching::start(Source::Kubernetes(settings));
    watching.trouble("the Kubernetes API failed").await;
    watching.is_silent();
    watching.end().await;
}

/// The workers that slices stand for, as `name url`.
fn workers(port: ServicePort, slices: &[Value]) -> Result<Vec<String>, SlicesError> {
    let settings = settings(port);
    let mut known = Slices::default();
    for slice in slices {
        known.apply(serde_json::from_value(slice.clone()).unwrap(), &settings).unwrap();
    }
    let found = known.workers(&settings)?;
    Ok(found.into_iter().map(|found| format!("{} {}", found.name, found.url)).collect())
}

#[track_caller]
fn check(port: ServicePort, slices: &[Value], expected: &[&str]) {
    assert_eq!(workers(port, slices).unwrap(), expected);
}

#[test]
fn conditions_that_are_left_out_mean_ready() {
    let bare = json!({"addresses": ["10.0.0.1"]});
    check(http(), &[slice("a", 1, &[bare])], &["10.0.0.1:8000 http://10.0.0.1:8000"]);
    let null = pod("p", "10.0.0.1", &json!({"ready": null, "terminating": null}));
    check(http(), &[slice("a", 1, &[null])], &["p http://10.0.0.1:8000"]);
}

#[test]
fn a_pod_in_two_slices_is_one_worker() {
    let unready = json!({"ready": false});
    let leaving = json!({"ready": true, "terminating": true});
    let four = [ready("p", "10.0.0.1")];
    let six = slice_of("IPv6", "z", 1, &[ready("p", "2001:db8::1")]);
    check(http(), &[slice("a", 1, &four), six.clone()], &["p http://10.0.0.1:8000"]);
    check(http(), std::slice::from_ref(&six), &["p http://[2001:db8::1]:8000"]);
    let late = slice("a", 1, &[pod("p", "10.0.0.1", &unready)]);
    check(http(), &[late, six.clone()], &["p http://[2001:db8::1]:8000"]);
    let gone = slice("a", 1, &[pod("p", "10.0.0.1", &leaving)]);
    check(http(), &[gone, slice("b", 1, &four), six], &[]);
    // Whichever is seen first.
    let gone = slice("z", 1, &[pod("p", "10.0.0.1", &leaving)]);
    check(http(), &[slice("b", 1, &four), gone], &[]);
}

#[test]
fn a_port_goes_by_name_or_number() {
    let slices = [slice("a", 1, &[ready("p", "10.0.0.1")])];
    check(ServicePort::Number(8000), &slices, &["p http://10.0.0.1:8000"]);
    check(ServicePort::Name("metrics".to_owned()), &slices, &["p http://10.0.0.1:9000"]);
    let error = workers(ServicePort::Name("grpc".to_owned()), &slices).unwrap_err();
    let expected = "`vllm` has no TCP port called `grpc`; it has `http` (8000), `metrics` (9000)";
    assert_eq!(error.to_string(), expected);
    assert!(workers(ServicePort::Name("dns".to_owned()), &slices).is_err(), "that one is UDP");
    // Nobody there is no fault of the port.
    check(ServicePort::Number(1), &[slice("a", 1, &[])], &[]);
}

#[test]
fn slices_have_a_bound() {
    let settings = settings(http());
    let mut known = Slices::default();
    let slice = |name: String| EndpointSlice {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some(name),
            ..Default::default()
        },
        ..Default::default()
    };
    for index in 0..SLICES_MAX {
        known.apply(slice(index.to_string()), &settings).unwrap();
    }
    known.apply(slice("0".to_owned()), &settings).expect("it is there already");
    let refused = known.apply(slice("x".to_owned()), &settings);
    assert_eq!(refused, Err(SlicesError::TooMany { service: "vllm".to_owned() }));
    known.delete(&slice("0".to_owned()));
    known.apply(slice("x".to_owned()), &settings).expect("there is room");
}

//! The audit log: each change at `/admin` and each call that is turned away leaves one record, and no secret.

use std::fs;
use std::path::Path;

use overdraft_gateway::{KeyDigest, KeySettings};
use serde_json::{Value, json};

use crate::harness::{Gateway, MODEL, in_time};
use crate::mock::Mock;

const TOKEN: &str = "operators-secret";
const KEY: &str = "sk-acme-0123456789";

/// A gateway whose audit log is this file.
async fn gateway(mock: &Mock, path: &Path) -> Gateway {
    Gateway::start_with(&[mock], |settings| {
        settings.admin.token = Some(TOKEN.to_owned());
        settings.admin.audit_log = Some(path.to_owned());
        settings.keys = vec![KeySettings::new(KeyDigest::of(KEY), "acme")];
    })
    .await
}

/// Posts as whoever has this key or token; the status.
async fn post(gateway: &Gateway, path: &str, key: &str, body: &str) -> (u16, String) {
    let mut client = gateway.client().await;
    let headers = format!("authorization: Bearer {key}\r\nx-request-id: r-1\r\n");
    client.post_with(path, &headers, body).await;
    let (head, body) = client.whole().await;
    (head.status, body)
}

/// The records, without what differs from run to run.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(!text.contains(TOKEN) && !text.contains(KEY), "{text}");
    let records = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let told = record.as_object_mut().unwrap();
        let time = told.remove("time").unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{line}");
        assert!(told.remove("remote").unwrap().as_str().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(told.remove("request").unwrap(), "r-1");
        record
    });
    records.collect()
}

fn record(action: &str, subject: &str, outcome: &str, status: u16) -> Value {
    json!({
        "action": action, "subject": subject, "outcome": outcome, "status": status,
        "key": "admin.token",
    })
}

#[tokio::test]
async fn each_change_leaves_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mock = Mock::start(&[MODEL]).await;
    let gateway = gateway(&mock, &path).await;
    let asked = [
        ("/admin/workers/worker-0/drain", "", 200),
        ("/admin/workers/worker-0/rejoin", "", 200),
        ("/admin/workers/no%0Abody/drain", "", 404),
        ("/admin/cache/purge", "", 200),
        ("/admin/cache/purge", r#"{"tenant":"acme","model":"m"}"#, 200),
        ("/admin/cache/purge", r#"{"tenants":"acme"}"#, 400),
    ];
    for (path, body, status) in asked {
        assert_eq!(post(&gateway, path, TOKEN, body).await.0, status, "{path} {body}");
    }
    // What only looks leaves none.
    let body = format!(r#"{{"model":"{MODEL}","prompt":"p"}}"#);
    assert_eq!(post(&gateway, "/admin/explain", TOKEN, &body).await.0, 200);
    let expected = [
        record("drain", "worker-0", "done", 200),
        record("rejoin", "worker-0", "done", 200),
        record("drain", "no body", "refused", 404),
        record("purge", "all answers", "done", 200),
        record("purge", "tenant acme, model m", "done", 200),
        record("purge", "unreadable", "refused", 400),
    ];
    assert_eq!(records(&path), expected);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn who_is_turned_away_is_recorded_within_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mock = Mock::start(&[MODEL]).await;
    let gateway = gateway(&mock, &path).await;
    let drain = "/admin/workers/worker-0/drain";
    assert_eq!(post(&gateway, drain, "guessed", "").await.0, 403);
    assert_eq!(post(&gateway, drain, KEY, "").await.0, 403);
    let refused = |key: &str| {
        json!({
            "action": "call", "subject": format!("POST {drain}"), "outcome": "refused",
            "reason": "no operator", "status": 403, "key": key,
        })
    };
    assert_eq!(records(&path), [refused("none"), refused("acme")]);
    for _ in 0..100 {
        assert_eq!(post(&gateway, drain, "guessed", "").await.0, 403);
    }
    assert_eq!(records(&path).len(), 60);
    // Changes are recorded however many were turned away.
    assert_eq!(post(&gateway, drain, TOKEN, "").await.0, 200);
    assert_eq!(records(&path).last(), Some(&record("drain", "worker-0", "done", 200)));
}

#[tokio::test]
async fn a_foreign_host_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mock = Mock::start(&[MODEL]).await;
    let audit_log = path.clone();
    let gateway = Gateway::start_with_admin(&[&mock], |settings| {
        settings.admin.audit_log = Some(audit_log);
    })
    .await;
    let mut operator = gateway.operator().await;
    let path_of = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: page.example\r\nx-request-id: r-1\r\n\r\n")
    };
    operator.send(path_of("/admin/cache/purge")).await;
    assert_eq!(operator.whole().await.0.status, 403);
    let expected = json!({
        "action": "call", "subject": "POST /admin/cache/purge", "outcome": "refused",
        "reason": "foreign host", "status": 403, "key": "none",
    });
    assert_eq!(records(&path), [expected]);
}

#[tokio::test]
async fn nothing_is_changed_that_cannot_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("logs");
    let path = place.join("audit.jsonl");
    let mock = Mock::start(&[MODEL]).await;
    let gateway = gateway(&mock, &path).await;
    let drain = "/admin/workers/worker-0/drain";
    let (status, text) = post(&gateway, drain, TOKEN, "").await;
    assert_eq!(status, 500);
    assert!(text.contains("admin.audit_log") && text.contains("nothing was done"), "{text}");
    let (_, listed) = gateway_workers(&gateway).await;
    assert!(listed.contains(r#""draining":false"#), "{listed}");
    // It is opened anew for each call, so that it may be mended, or moved away.
    fs::create_dir(&place).unwrap();
    assert_eq!(post(&gateway, drain, TOKEN, "").await.0, 200);
    assert_eq!(records(&path), [record("drain", "worker-0", "done", 200)]);
    fs::rename(&path, place.join("audit.1")).unwrap();
    assert_eq!(post(&gateway, "/admin/workers/worker-0/rejoin", TOKEN, "").await.0, 200);
    assert_eq!(records(&path), [record("rejoin", "worker-0", "done", 200)]);
}

/// The list of workers, as the operator sees it.
async fn gateway_workers(gateway: &Gateway) -> (u16, String) {
    let mut client = gateway.client().await;
    let head = format!("host: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    client.send(format!("GET /admin/workers HTTP/1.1\r\n{head}")).await;
    let (head, body) = in_time(client.whole()).await;
    (head.status, body)
}

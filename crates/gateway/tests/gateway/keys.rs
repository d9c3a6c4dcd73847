//! Who is served, what does not exist for them, how urgent they get and what they may spend.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use overdraft_core::admit::Priority;
use overdraft_gateway::{Budget, GatewaySettings, KeyDigest, KeySettings};

use crate::client::{Client, Head};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::{Call, Mock};

const ACME: &str = "sk-acme-0123456789";
const BATCH: &str = "sk-batch-0123456789";

/// One that may do everything, and one that may do little.
fn keys() -> Vec<KeySettings> {
    let mut batch = KeySettings::new(KeyDigest::of(BATCH), "batch");
    (batch.priority, batch.priority_max) = (Priority::Flex, Priority::Default);
    batch.models = Some(BTreeSet::from(["small".to_owned(), "chat".to_owned()]));
    vec![KeySettings::new(KeyDigest::of(ACME), "acme"), batch]
}

/// The code of an error object, or `served` where a worker was asked and answered.
async fn asked(mock: &mut Mock, client: &mut Client, header: &str, body: &str) -> (Head, String) {
    client.post_with(CHAT, header, body).await;
    let (head, body) = tokio::select! {
        call = mock.call() => {
            assert!(!call.head.contains("sk-"), "a key reached a worker: {}", call.head);
            call.answer(200, ANSWER).await;
            client.whole().await
        }
        refused = client.whole() => refused,
    };
    let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
    let code = parsed["error"]["code"].as_str().unwrap_or("served").to_owned();
    (head, if head_is_error(&parsed) { code } else { "served".to_owned() })
}

fn head_is_error(body: &serde_json::Value) -> bool {
    body["error"].is_object()
}

pub(crate) fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

/// A gateway that asks for [`keys`], before one worker.
async fn guarded(adjust: impl FnOnce(&mut GatewaySettings)) -> (Gateway, Mock) {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.keys = keys();
        adjust(settings);
    })
    .await;
    (gateway, mock)
}

/// A stream that a key has begun, of which the client has the first token.
pub(crate) struct Streaming {
    client: Client,
    call: Call,
}

impl Streaming {
    pub(crate) async fn begin(gateway: &Gateway, mock: &mut Mock, key: &str) -> Self {
        let mut client = gateway.client().await;
        client.post_with(CHAT, &bearer(key), &chat(r#","stream":true"#)).await;
        let mut call = mock.call().await;
        call.stream().await;
        call.chunk(&token("one")).await;
        assert_eq!(client.head().await.status, 200);
        Self { client, call }
    }

    /// The worker ends the answer, and the client gets all of it.
    pub(crate) async fn goes_on(mut self) {
        self.call.chunk(&format!("{}{DONE}", finish("stop"))).await;
        self.call.end().await;
        let (text, _) = self.client.rest().await;
        assert!(text.ends_with(DONE), "{text}");
    }
}

// Faults: 75
#[tokio::test]
async fn with_keys_only_those_who_have_one_are_served() {
    let (gateway, mut mock) = guarded(|_| {}).await;
    let mut client = gateway.client().await;
    let cases = [
        ("", 401, "invalid_api_key"),
        (&bearer("sk-nobody"), 401, "invalid_api_key"),
        (&bearer(""), 401, "invalid_api_key"),
        ("authorization: Basic sk-acme-0123456789\r\n", 401, "invalid_api_key"),
        (&bearer(ACME), 200, "served"),
        ("x-api-key: sk-acme-0123456789\r\n", 200, "served"),
        ("api-key: sk-acme-0123456789\r\n", 200, "served"),
    ];
    for (header, status, code) in cases {
        let (head, said) = asked(&mut mock, &mut client, header, &chat("")).await;
        assert_eq!((head.status, said.as_str()), (status, code), "{header}");
        if head.header("connection") == Some("close") {
            client = gateway.client().await;
        }
    }
    // Machines that watch need none; whoever lists models does.
    let mut client = gateway.client().await;
    assert_eq!(client.get("/healthz").await.0.status, 200);
    assert_eq!(client.get("/v1/models").await.0.status, 401);
    let (_, metrics) = client.get("/metrics").await;
    assert!(!metrics.contains("sk-"), "{metrics}");
    let line = "overdraft_tenant_requests_total{tenant=\"acme\",priority=\"default\"} 3";
    assert!(metrics.contains(line), "{metrics}");
}

// Faults: 75
#[tokio::test]
async fn a_key_that_has_expired_is_refused_with_the_date_and_without_the_key() {
    let (gateway, mut mock) = guarded(|settings| {
        settings.keys[0].expires = Some("2001-09-09T01:46:40Z".parse().unwrap());
        settings.keys[1].expires = Some("2201-09-09T01:46:40Z".parse().unwrap());
        settings.keys[1].models = None;
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, &bearer(ACME), &chat("")).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 401);
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error["error"]["code"], "invalid_api_key");
    assert!(body.contains("expired at `2001-09-09T01:46:40Z`"), "{body}");
    assert!(!body.contains("sk-") && mock.is_idle(), "{body}");
    let mut client = gateway.client().await;
    let (head, said) = asked(&mut mock, &mut client, &bearer(BATCH), &chat("")).await;
    assert_eq!((head.status, said.as_str()), (200, "served"));
}

// Faults: 75
#[tokio::test]
async fn a_revoked_key_is_refused_and_what_it_began_goes_on() {
    let (gateway, mut mock) = guarded(|_| {}).await;
    let streaming = Streaming::begin(&gateway, &mut mock, ACME).await;
    let mut settings = gateway.settings();
    settings.keys.remove(0);
    gateway.change(settings);
    let revoked = async {
        loop {
            let mut client = gateway.client().await;
            let (head, _) = asked(&mut mock, &mut client, &bearer(ACME), &chat("")).await;
            if head.status == 401 {
                return;
            }
        }
    };
    in_time(revoked).await;
    streaming.goes_on().await;
}

#[tokio::test]
async fn a_model_that_a_key_may_not_have_does_not_exist_for_it() {
    let mut mock = Mock::start(&["large", "small"]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.keys = keys();
        let own = settings.routing.models.entry("large".to_owned()).or_default();
        own.aliases = ["chat", "gpt-4o", "claude-*"].map(str::to_owned).into();
    })
    .await;
    let ask = |model: &str| format!(r#"{{"model":"{model}","messages":[]}}"#);
    let mut client = gateway.client().await;
    let paths = [
        (CHAT, r#""messages":[]"#),
        ("/v1/messages", r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#),
        ("/v1/responses", r#""store":false,"input":"hi""#),
    ];
    for (path, more) in paths {
        let mut told = Vec::new();
        for model in ["huge", "large", "gpt-4o", "claude-3-opus"] {
            let body = format!(r#"{{"model":"{model}",{more}}}"#);
            client.post_with(path, &bearer(BATCH), &body).await;
            let (head, body) = client.whole().await;
            assert_eq!(head.status, 404, "{path}: {body}");
            let error: serde_json::Value = serde_json::from_str(&body).unwrap();
            let message = error["error"]["message"].as_str().unwrap();
            told.push(message.replace(&format!("`{model}`"), "MODEL"));
        }
        let first = &told[0];
        assert!(told.iter().all(|other| other == first), "something tells of it: {told:?}");
        assert!(first.contains("MODEL") && first.contains("known models: `small`"), "{first}");
        assert!(!first.contains("large"), "{first}");
    }
    // By the alias that it was given, it may ask for the same model.
    for model in ["small", "chat"] {
        let (head, said) = asked(&mut mock, &mut client, &bearer(BATCH), &ask(model)).await;
        assert_eq!((head.status, said.as_str()), (200, "served"), "{model}");
    }
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", bearer(BATCH));
    client.send(get("/v1/models")).await;
    let (_, list) = client.whole().await;
    assert!(list.contains("\"small\"") && list.contains("\"chat\""), "{list}");
    assert!(!list.contains("\"large\""), "{list}");
    client.send(get("/v1/models/large")).await;
    assert_eq!(client.whole().await.0.status, 404);
    client.send(get("/v1/models/small")).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_priority_is_clamped_told_and_passed_on_where_it_is_understood() {
    let mut plain = Mock::start(&["small"]).await;
    let mut ranking = Mock::start(&["large"]).await;
    let gateway = Gateway::start_with(&[&plain, &ranking], |settings| {
        settings.keys = keys();
        settings.keys[1].models = None;
        settings.workers[1].traits.priority_scheduling = true;
    })
    .await;
    let cases = [
        (ACME, "", r#","priority":-99"#, "default", 0),
        (ACME, "", r#","service_tier":"flex""#, "flex", 10),
        (ACME, "x-overdraft-priority: priority\r\n", r#","service_tier":"flex""#, "priority", -10),
        (BATCH, "", r#","service_tier":"auto""#, "flex", 10),
        (BATCH, "", r#","priority":0,"service_tier":"priority","priority":1"#, "default", 0),
    ];
    for (key, header, more, told, rank) in cases {
        for (mock, model) in [(&mut plain, "small"), (&mut ranking, "large")] {
            let mut client = gateway.client().await;
            let body = format!(r#"{{"model":"{model}","messages":[]{more}}}"#);
            let header = format!("{}{header}", bearer(key));
            client.post_with(CHAT, &header, &body).await;
            let call = mock.call().await;
            let sent = call.json();
            let expected = (model == "large").then_some(rank);
            assert_eq!(sent["priority"].as_i64(), expected, "{more} to {model}");
            call.answer(200, ANSWER).await;
            let (head, _) = client.whole().await;
            assert_eq!(head.header("x-overdraft-priority"), Some(told), "{more}");
        }
    }
}

#[tokio::test]
async fn a_priority_that_does_not_exist_names_those_that_do() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let cases = [
        ("", r#","service_tier":"scale""#, "service_tier", "`scale`"),
        ("", r#","service_tier":7"#, "service_tier", "a string"),
        ("x-overdraft-priority: high\r\n", "", "x-overdraft-priority", "`high`"),
    ];
    for (header, more, param, part) in cases {
        client.post_with(CHAT, header, &chat(more)).await;
        let (head, body) = client.whole().await;
        let error: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((head.status, error["error"]["param"].as_str()), (400, Some(param)), "{body}");
        assert!(body.contains(part) && body.contains("expected"), "{body}");
    }
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_key_that_has_spent_its_requests_is_told_when_it_has_more() {
    let (gateway, mut mock) = guarded(|settings| {
        settings.keys[0].budget =
            Budget { requests_per_minute: NonZeroU32::new(2), tokens_per_minute: None };
    })
    .await;
    let mut client = gateway.client().await;
    for remaining in ["1", "0"] {
        let (head, _) = asked(&mut mock, &mut client, &bearer(ACME), &chat("")).await;
        assert_eq!(head.header("x-ratelimit-limit-requests"), Some("2"));
        assert_eq!(head.header("x-ratelimit-remaining-requests"), Some(remaining));
        assert!(head.header("x-ratelimit-limit-tokens").is_none());
    }
    let (head, code) = asked(&mut mock, &mut client, &bearer(ACME), &chat("")).await;
    assert_eq!((head.status, code.as_str()), (429, "rate_limit_exceeded"));
    assert_eq!(head.header("x-ratelimit-remaining-requests"), Some("0"));
    let reset = head.header("x-ratelimit-reset-requests").unwrap();
    assert!(reset.ends_with('s'), "{reset}");
    let seconds: u64 = head.header("retry-after").unwrap().parse().unwrap();
    let millis: u64 = head.header("retry-after-ms").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds) && (1_000..=30_000).contains(&millis), "{}", head.text);
    // A client of Anthropic's reads the same in its own words.
    let message = chat(r#","max_tokens":1"#);
    let mut anthropic = gateway.client().await;
    anthropic.post_with("/v1/messages", &bearer(ACME), &message).await;
    let (head, body) = anthropic.whole().await;
    assert!(head.status == 429 && body.contains("rate_limit_error"), "{body}");
    assert_eq!(head.header("anthropic-ratelimit-requests-limit"), Some("2"));
    assert_eq!(head.header("anthropic-ratelimit-requests-remaining"), Some("0"));
    let reset = head.header("anthropic-ratelimit-requests-reset").unwrap();
    assert!(reset.contains('T') && reset.ends_with('Z'), "{reset}");
    assert!(head.header("anthropic-ratelimit-tokens-limit").is_none());
    let line = "overdraft_budget_refusals_total{tenant=\"acme\",budget=\"budget_requests\"} 2";
    gateway.until_line(line).await;
    let line = "router_rejections_total{reason=\"budget_requests\",priority=\"default\"} 2";
    gateway.until_line(line).await;
}

#[tokio::test]
async fn tokens_are_charged_by_what_the_worker_counted() {
    let (gateway, mut mock) = guarded(|settings| {
        settings.keys[0].budget =
            Budget { requests_per_minute: None, tokens_per_minute: NonZeroU32::new(1_000) };
    })
    .await;
    let limited = r#","max_tokens":500"#;
    let mut client = gateway.client().await;
    let (head, _) = asked(&mut mock, &mut client, &bearer(ACME), &chat(limited)).await;
    assert_eq!(head.status, 200);
    // ANSWER says that it took four; the budget is settled when the answer has been sent.
    let line = "overdraft_tenant_tokens_total{tenant=\"acme\",kind=\"prompt\"} 3";
    gateway.until_line(line).await;
    let (head, _) = asked(&mut mock, &mut client, &bearer(ACME), &chat(r#","max_tokens":1"#)).await;
    let left: u32 = head.header("x-ratelimit-remaining-tokens").unwrap().parse().unwrap();
    assert!(900 < left, "{left}");
    // What no minute can pay for is refused for good.
    let long = chat("").replace("hi", &"hello ".repeat(10_000));
    client.post_with(CHAT, &bearer(ACME), &long).await;
    let (head, body) = tokio::select! {
        refused = client.whole() => refused,
        _call = mock.call() => panic!("it cannot be paid for"),
    };
    assert_eq!(head.status, 429, "{body}");
    assert_eq!(head.header("x-should-retry"), Some("false"));
    assert!(body.contains("1000 that its key"), "{body}");
}

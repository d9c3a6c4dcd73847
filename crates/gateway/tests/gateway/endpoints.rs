//! Endpoints: each one of `wire::Endpoint` is served, counted and listed without a word about it anywhere else.

mod media;

use overdraft_core::admit::Mode;
use overdraft_gateway::{KeyDigest, KeySettings, SaltPolicy};
use overdraft_wire::Endpoint;

use crate::client::End;
use crate::harness::{ANSWER, Gateway, MODEL};
use crate::mock::Mock;

#[tokio::test]
async fn every_endpoint_is_served_counted_and_listed() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = format!(r#"{{"model":"{MODEL}","messages":[],"prompt":"p","input":"i"}}"#);
    for endpoint in Endpoint::ALL {
        let path = endpoint.path();
        let mut client = gateway.client().await;
        client.post(path, &body).await;
        let call = mock.call().await;
        assert!(call.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{}", call.head);
        call.answer(200, ANSWER).await;
        let (head, answer) = client.whole().await;
        assert_eq!((head.status, answer.as_str()), (200, ANSWER), "{path}");
        // Who asks in another way is told which way there is.
        let (head, _) = gateway.client().await.get(path).await;
        assert_eq!((head.status, head.header("allow")), (405, Some("POST")), "{path}");
    }
    let metrics = gateway.metrics().await;
    let (_, index) = gateway.client().await.get("/").await;
    for endpoint in Endpoint::ALL {
        let (path, summary) = (endpoint.path(), endpoint.summary());
        assert!(metrics.contains(&format!("route=\"{path}\"")), "{path} is not counted");
        assert!(index.contains(&format!("POST {path}")), "{path} is not listed");
        assert!(index.contains(summary), "{path} is not explained");
    }
}

#[tokio::test]
async fn what_a_model_reads_waits_for_room_and_what_takes_no_engine_does_not() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.routing.route.admission.mode = Mode::Static(1);
    })
    .await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let body = format!(r#"{{"model":"{MODEL}","input":"a text","prompt":"a text"}}"#);
    let reads = |path: &&str| {
        matches!(*path, "/v1/embeddings" | "/classify" | "/pooling" | "/v1/moderations")
    };
    let paths = Endpoint::ALL.into_iter().map(Endpoint::path);
    let mut reading = Vec::new();
    for path in paths.filter(reads) {
        let mut client = gateway.client().await;
        client.post(path, &body).await;
        reading.push(client);
    }
    assert_eq!(reading.len(), 4);
    for path in ["/tokenize", "/v1/chat/completions/render", "/v1/completions/render"] {
        let mut chore = gateway.client().await;
        chore.post(path, &body).await;
        let call = mock.call().await;
        assert!(call.head.starts_with(&format!("POST {path} ")), "{}", call.head);
        call.answer(200, "{}").await;
        assert_eq!(chore.whole().await.0.status, 200);
    }
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    for mut client in reading {
        let call = mock.call().await;
        let path = call.head.split(' ').nth(1).unwrap_or_default();
        assert!(reads(&path), "{}", call.head);
        call.answer(200, r#"{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}"#).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

/// The salt that the next request tells its worker, `-` where it tells none.
async fn told_salt(
    gateway: &Gateway,
    mock: &mut Mock,
    path: &str,
    header: &str,
    own: &str,
) -> String {
    let body = format!(
        r#"{{"model":"{MODEL}","input":"a text","query":"q","documents":["d"],"text_1":"a","text_2":"b"{own}}}"#
    );
    let mut client = gateway.client().await;
    client.post_with(path, header, &body).await;
    let call = mock.call().await;
    let told = call.json();
    for name in ["priority", "stream_options"] {
        assert!(told[name].is_null(), "{path} is told `{name}`: {told}");
    }
    let salt = told["cache_salt"].as_str().unwrap_or("-").to_owned();
    call.answer(200, r#"{"data":[],"results":[]}"#).await;
    assert_eq!(client.whole().await.0.status, 200);
    salt
}

#[tokio::test]
async fn what_a_model_only_reads_carries_its_tenant_s_salt_as_well() {
    let (one, other) = ("authorization: Bearer one\r\n", "authorization: Bearer other\r\n");
    let mine = r#","cache_salt":"mine""#;
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.priority_scheduling = true;
    })
    .await;
    let paths =
        ["/v1/embeddings", "/v1/rerank", "/v1/score", "/classify", "/pooling", "/v1/moderations"];
    for path in paths {
        let mut salts = Vec::new();
        for (header, own) in [(one, ""), (other, ""), (one, mine), (other, mine)] {
            salts.push(told_salt(&gateway, &mut mock, path, header, own).await);
        }
        for (at, salt) in salts.iter().enumerate() {
            assert!(salt.len() == 43 && !salts[..at].contains(salt), "{path}: {salts:?}");
        }
        assert_eq!(told_salt(&gateway, &mut mock, path, "", mine).await, "mine", "{path}");
        assert_eq!(told_salt(&gateway, &mut mock, path, "", "").await, "-", "{path}");
    }
    // Where workers are told no salt, a tenant's own does not pass either.
    for path in ["/v1/audio/speech", "/v1/images/generations", "/tokenize"] {
        assert_eq!(told_salt(&gateway, &mut mock, path, one, mine).await, "-", "{path}");
    }
}

#[tokio::test]
async fn a_worker_that_is_told_no_salts_reads_texts_without_one() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.cache_salt = SaltPolicy::Untold;
    })
    .await;
    let (tenant, mine) = ("authorization: Bearer one\r\n", r#","cache_salt":"mine""#);
    for own in ["", mine] {
        let salt = told_salt(&gateway, &mut mock, "/v1/embeddings", tenant, own).await;
        assert_eq!(salt, "-");
    }
}

#[tokio::test]
async fn a_worker_is_asked_at_the_path_that_its_client_wrote() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = format!(r#"{{"model":"{MODEL}","query":"q","documents":["d"]}}"#);
    let spelled = [
        ("/rerank", "/v1/rerank"),
        ("/v2/rerank", "/v1/rerank"),
        ("//v2/rerank/", "/v1/rerank"),
        ("/score", "/v1/score"),
    ];
    for (path, counted_as) in spelled {
        let mut client = gateway.client().await;
        client.post(path, &body).await;
        let call = mock.call().await;
        let asked = path.replace("//", "/");
        let start = format!("POST {} HTTP/1.1\r\n", asked.trim_end_matches('/'));
        assert!(call.head.starts_with(&start), "{path}: {}", call.head);
        assert_eq!(call.text(), body);
        call.answer(200, r#"{"results":[]}"#).await;
        assert_eq!(client.whole().await.0.status, 200);
        let metrics = gateway.metrics().await;
        assert!(metrics.contains(&format!("route=\"{counted_as}\"")), "{path}");
        assert!(!metrics.contains(&format!("route=\"{path}\"")), "{path}");
    }
}

#[tokio::test]
async fn what_a_worker_does_not_serve_is_its_own_404_and_says_nothing_of_its_health() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let says = r#"{"detail":"Not Found"}"#;
    let body = format!(r#"{{"model":"{MODEL}","input":"a text"}}"#);
    for path in ["/v1/moderations", "/classify", "/pooling"].repeat(4) {
        let mut client = gateway.client().await;
        client.post(path, &body).await;
        mock.call().await.answer(404, says).await;
        let (head, answer) = client.whole().await;
        assert_eq!((head.status, answer.as_str()), (404, says), "{path}");
        assert_eq!(head.header("x-overdraft-worker"), Some("worker-0"));
    }
    let mut client = gateway.chat("").await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let metrics = gateway.metrics().await;
    let opened = r#"overdraft_breaker_transitions_total{to="open"} 0"#;
    assert!(metrics.contains(opened), "a breaker has opened");
}

#[tokio::test]
async fn a_moderation_without_a_model_goes_to_the_default_one() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.model_default = Some(MODEL.to_owned());
    })
    .await;
    let mut client = gateway.client().await;
    client.post("/v1/moderations", r#"{"input":["a","b"]}"#).await;
    let call = mock.call().await;
    assert_eq!(call.text(), r#"{"input":["a","b"]}"#);
    call.answer(200, r#"{"id":"modr-1","model":"m","results":[]}"#).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn numbers_that_a_client_asks_for_pass_and_no_breaker_opens() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.answer_bytes = 64;
    })
    .await;
    let body = format!(r#"{{"model":"{MODEL}","input":"a text","encoding_format":"bytes"}}"#);
    let mut client = gateway.client().await;
    // Held back as a whole, and longer than that.
    for numbers in ["short".to_owned(), "numbers ".repeat(1_000)].iter().cycle().take(12) {
        client.post("/pooling", &body).await;
        let mut call = mock.call().await;
        let length = numbers.len();
        call.write(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nmetadata: m\r\n\
             content-length: {length}\r\n\r\n{numbers}"
        ))
        .await;
        call.serve_on();
        let (head, answer) = client.whole().await;
        assert!((head.status, &answer) == (200, numbers), "{}", head.text);
        assert_eq!(head.header("content-type"), Some("application/octet-stream"));
        assert_eq!(head.header("metadata"), Some("m"));
    }
    let metrics = gateway.metrics().await;
    let opened = r#"overdraft_breaker_transitions_total{to="open"} 0"#;
    assert!(metrics.contains(opened), "a breaker has opened");
}

/// Embeddings that are longer than what is held back.
fn long_embeddings() -> String {
    let numbers = "0.125,".repeat(1_000);
    format!(
        r#"{{"object":"list","data":[{{"embedding":[{numbers}1]}}],"model":"{MODEL}","usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#
    )
}

#[tokio::test]
async fn an_answer_too_long_to_hold_back_is_in_the_books_and_has_limits() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.answer_bytes = 64;
        settings.keys.push(KeySettings::new(KeyDigest::of("sk-a"), "acme"));
    })
    .await;
    let key = "authorization: Bearer sk-a\r\n";
    let body = format!(r#"{{"model":"{MODEL}","input":"a text"}}"#);
    let answer = long_embeddings();
    let mut client = gateway.client().await;
    client.post_with("/v1/embeddings", key, &body).await;
    mock.call().await.answer(200, &answer).await;
    let (head, told) = client.whole().await;
    assert_eq!((head.status, told), (200, answer.clone()));
    let length = answer.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
    let counted = r#"overdraft_tenant_tokens_total{tenant="acme",kind="prompt"} 7"#;
    gateway.until_words(counted).await;
    // Its worker stops in the middle: it is in flight until its deadline, and ends by its connection.
    let hurried = format!("{key}x-overdraft-deadline-ms: 300\r\n");
    client.post_with("/v1/embeddings", &hurried, &body).await;
    let mut call = mock.call().await;
    let (begun, length) = (&answer[..answer.len() / 2], answer.len());
    call.write(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{begun}"
    ))
    .await;
    assert_eq!(client.head().await.status, 200);
    let (page, inflight) = (gateway.metrics().await, "overdraft_inflight_requests 2\n");
    assert!(page.contains(inflight), "it is in flight, and who asks for the page");
    call.gone().await;
    assert_ne!(client.rest().await.1, End::Clean);
}

//! Where a request to a cascade goes first, told beforehand and with its answer.

use serde_json::Value;

use super::{Pair, ended, give_draft, said};
use crate::harness::{CHAT, chat};

/// What `/admin/explain` says of a request with these header lines.
async fn explained(pair: &Pair, headers: &str) -> Value {
    let mut client = pair.gateway.client().await;
    client.post_with("/admin/explain", headers, &chat(r#","max_tokens":64"#)).await;
    let (head, told) = client.whole().await;
    assert_eq!(head.status, 200, "{told}");
    serde_json::from_str(&told).unwrap()
}

/// The worker, its model and the cascade.
#[track_caller]
fn check(told: &Value, expected: [Option<&str>; 3]) {
    let named = ["worker", "model", "cascade"].map(|name| told[name].as_str());
    assert_eq!((named, told["choice"].as_str()), (expected, Some("send")), "{told}");
}

#[tokio::test]
async fn an_explanation_names_the_draft_that_would_be_asked_and_asks_nobody() {
    let mut pair = Pair::start(1, |_| {}).await;
    for _ in 0..3 {
        check(&explained(&pair, "").await, [Some("worker-1"), Some("small"), Some("m")]);
    }
    let told = explained(&pair, "x-overdraft-cascade: off\r\n").await;
    check(&told, [Some("worker-0"), Some("m"), None]);
    assert!(pair.draft.is_idle() && pair.targets[0].is_idle());
}

#[tokio::test]
async fn an_answer_of_the_draft_tells_why_it_went_to_the_draft() {
    let mut pair = Pair::start(1, |_| {}).await;
    let mut client = pair.gateway.client().await;
    let body = chat(r#","max_tokens":64"#);
    client.post_with(CHAT, "x-overdraft-explain: 1\r\n", &body).await;
    give_draft(&mut pair.draft, &(said("Hel", 11) + &said("lo", 12) + &ended(3))).await;
    let (head, _) = client.whole().await;
    assert_eq!(head.header("x-overdraft-served-by"), Some("draft"));
    let told = head.header("x-overdraft-explain").expect("it was asked for");
    let told: Value = serde_json::from_str(told).unwrap();
    check(&told, [Some("worker-1"), Some("small"), Some("m")]);
}

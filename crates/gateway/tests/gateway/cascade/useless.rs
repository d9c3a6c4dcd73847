//! A draft that knows nothing: its route switches itself off, and says so.

use overdraft_core::cascade::Shadow;
use serde_json::json;

use super::{Pair, SMALL, ended, give_draft};
use crate::harness::ANSWER;
use crate::mock::Mock;

/// Requests within which a useless draft is to be found out.
const REQUESTS_MAX: u32 = 500;

/// Tokens of each of its answers.
const TOKENS: u32 = 24;

/// A number that nobody could guess from the one before.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A word of random weights over some two thousand: none is likelier than another.
fn any_word(state: &mut u64) -> String {
    let word = format!("w{} ", next(state) % 2_048);
    let noise = u32::try_from(next(state) % 100).unwrap();
    let surprise = -7.0 - f64::from(noise) / 100.0;
    let logprobs = json!({"content": [{"token": word, "logprob": surprise,
        "top_logprobs": [{"token": "x", "logprob": -6.9}, {"token": "y", "logprob": -6.95}]}]});
    let chunk = json!({"id": "d", "model": SMALL, "choices": [{"index": 0,
        "token_ids": [11], "delta": {"content": word}, "logprobs": logprobs}]});
    format!("data: {chunk}\n\n")
}

/// Answers whatever it is asked with words at random.
async fn ramble(mut draft: Mock) {
    let mut state = 1;
    loop {
        let words: String = (0..TOKENS).map(|_| any_word(&mut state)).collect();
        give_draft(&mut draft, &(words + &ended(TOKENS + 1))).await;
    }
}

#[tokio::test]
async fn a_route_whose_draft_answers_at_random_is_off_within_500_requests_and_says_so() {
    let pair = Pair::start(1, |it| {
        it.threshold = None;
        it.shadow = Shadow::default();
    })
    .await;
    let Pair { gateway, draft, mut targets } = pair;
    let target = targets.remove(0).answer_alone();
    let rambling = tokio::spawn(ramble(draft));
    let mut client = gateway.client().await;
    let mut requests = 0;
    while !client.get("/healthz").await.1.contains(r#""cascades_off":{"m":"useless"}"#) {
        assert!(requests < REQUESTS_MAX, "it is still on after {requests} requests");
        let mut asking = gateway.chat(r#","max_tokens":64"#).await;
        let (head, told) = asking.whole().await;
        assert_eq!((told.as_str(), head.header("x-overdraft-served-by")), (ANSWER, Some("target")));
        requests += 1;
        // One comparison after the other, so that none finds no place.
        let compared =
            format!(r#"overdraft_cascade_shadows_total{{cascade="m",result="worse"}} {requests}"#);
        gateway.until_words(&compared).await;
    }
    let (_, page) = client.get("/metrics").await;
    assert!(page.contains(r#"overdraft_cascade_on{cascade="m"} 0"#), "{page}");
    assert!(!page.contains(r#"outcome="draft""#), "none of its answers was given");
    assert_eq!(u32::try_from(target.asked()).unwrap(), requests, "the target answered each");
    rambling.abort();
}

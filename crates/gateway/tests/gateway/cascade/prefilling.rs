//! The target reads a prompt while the draft still speaks.

use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::CascadeSettings;
use overdraft_units::{Ratio, Tokens};

use super::{Pair, begin_answer, ended, give_draft, said};
use crate::harness::ANSWER;

/// Long enough for a worker to be known by it.
fn long() -> String {
    "Say it in your own words. ".repeat(400)
}

fn prefilled(cascade: &mut CascadeSettings) {
    cascade.prefill_from = Some(Tokens::new(256));
    let price = Price::new(1_000_000);
    let prices = Prices { prompt: price, cached: Price::new(0), completion: price };
    cascade.prices = Some([prices, prices]);
}

impl Pair {
    /// A request with a long prompt.
    async fn long(&self) -> crate::client::Client {
        let mut client = self.gateway.client().await;
        let request = serde_json::json!({"model": "m", "max_tokens": 64, "max_completion_tokens": 64,
            "messages": [{"role": "user", "content": long()}]});
        client.post(crate::harness::CHAT, &request.to_string()).await;
        client
    }

    async fn until_prefill(&self, outcome: &str, count: u32) {
        let line = format!(
            r#"overdraft_cascade_prefills_total{{cascade="m",outcome="{outcome}"}} {count}"#
        );
        self.until(&line).await;
    }
}

/// A target's answer that found all but a hundred tokens in its cache.
const WARM: &str = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2600,"completion_tokens":1,"total_tokens":2601,"prompt_tokens_details":{"cached_tokens":2500}}}"#;

#[tokio::test]
async fn a_refused_draft_leaves_the_prompt_read_where_the_target_then_answers() {
    let mut pair = Pair::start(2, |it| {
        prefilled(it);
        it.threshold = Some(Ratio::WHOLE);
    })
    .await;
    let mut client = pair.long().await;
    let mut draft = pair.draft.call().await;
    let (call, other) = pair.either_target().await;
    let asked = call.json();
    assert_eq!((&asked["max_tokens"], &asked["stream"]), (&1.into(), &false.into()));
    assert_eq!(asked.get("max_completion_tokens"), None);
    assert_eq!(asked["messages"][0]["content"], long());
    let cold = r#"{"id":"p","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":2600,"completion_tokens":1,"total_tokens":2601}}"#;
    call.answer(200, cold).await;
    begin_answer(&mut draft, &(said("no", 11) + &ended(2))).await;
    draft.end().await;
    // The same of the two targets, which has read it.
    pair.targets[1 - other].call().await.answer(200, WARM).await;
    let (head, told) = client.whole().await;
    assert_eq!((told.as_str(), head.header("x-overdraft-served-by")), (WARM, Some("target")));
    pair.until_prefill("done", 1).await;
    // Draft 4, prefill 2,601, answer 101; alone it would have been 2,601.
    let paid = r#"cost_microusd_total{cascade="m",tenant="other",served_by="target"} 2706"#;
    pair.until(paid).await;
    let saved = r#"saving_microusd{cascade="m",tenant="other",served_by="target"} -105"#;
    pair.until(saved).await;
}

#[tokio::test]
async fn an_accepted_draft_ends_what_the_target_was_reading() {
    let mut pair = Pair::start(1, prefilled).await;
    let mut client = pair.long().await;
    let mut draft = pair.draft.call().await;
    let reading = pair.target().await;
    begin_answer(&mut draft, &(said("yes", 11) + &ended(2))).await;
    draft.end().await;
    assert_eq!(client.whole().await.0.header("x-overdraft-served-by"), Some("draft"));
    reading.gone().await;
    pair.until_prefill("stopped", 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_draft_and_what_the_target_was_reading() {
    let mut pair = Pair::start(1, prefilled).await;
    let client = pair.long().await;
    let mut draft = pair.draft.call().await;
    let reading = pair.target().await;
    begin_answer(&mut draft, &said("perhaps", 11)).await;
    drop(client);
    draft.gone().await;
    reading.gone().await;
    pair.until_prefill("stopped", 1).await;
}

#[tokio::test]
async fn a_short_prompt_is_read_by_nobody_beside_the_draft() {
    let mut pair = Pair::start(1, |it| {
        prefilled(it);
        it.threshold = Some(Ratio::WHOLE);
    })
    .await;
    let mut client = pair.chat("").await;
    give_draft(&mut pair.draft, &(said("no", 11) + &ended(2))).await;
    let call = pair.target().await;
    assert_eq!(call.json()["max_tokens"], 64);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    // What cannot be read costs nothing but the attempt.
    let mut client = pair.long().await;
    let mut draft = pair.draft.call().await;
    pair.target().await.answer(400, "{}").await;
    pair.until(r#"overdraft_worker_inflight{worker="worker-0"} 0"#).await;
    begin_answer(&mut draft, &(said("no", 11) + &ended(2))).await;
    draft.end().await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    pair.until_prefill("failed", 1).await;
}

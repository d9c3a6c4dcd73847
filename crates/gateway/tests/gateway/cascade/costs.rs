//! What requests to a cascade cost, wherever that is told.

use overdraft_core::cascade::Mode;
use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::CascadeSettings;
use overdraft_units::Ratio;
use serde_json::{Value, json};

use super::{Pair, ended, give_draft, more, opening, said, score, text, window};
use crate::client::{Client, End};
use crate::harness::{ANSWER, in_time};
use crate::mock::Call;

/// Prices by which a target's tokens are ten times as dear as a draft's.
fn priced(cascade: &mut CascadeSettings) {
    let [draft, target] = [1_000_000, 10_000_000].map(Price::new);
    let flat = |price| Prices { prompt: price, cached: price, completion: price };
    cascade.prices = Some([flat(draft), flat(target)]);
}

#[tokio::test]
async fn a_refused_draft_is_in_the_cost_of_a_whole_answer_wherever_that_is_told() {
    let mut pair = Pair::start(1, |cascade| {
        priced(cascade);
        cascade.threshold = Some(Ratio::WHOLE);
    })
    .await;
    let mut client = pair.chat("").await;
    give_draft(&mut pair.draft, &(said("no", 11) + &ended(2))).await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    // Four tokens each; the target's are ten times as dear.
    let labels = r#"{cascade="m",tenant="other",served_by="target"}"#;
    pair.until(&format!("overdraft_cascade_cost_microusd_total{labels} 44")).await;
    let mut client = pair.gateway.client().await;
    let (_, listed) = client.get("/admin/views/requests").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let row = &listed["rows"][0];
    let costs = (&row["cost_microusd"], &row["cost_target_only_microusd"]);
    assert_eq!(costs, (&44.into(), &40.into()), "{row}");
    let (_, page) = client.get("/metrics").await;
    let spent = page.lines().find(|line| line.starts_with("overdraft_cost_dollars_total{"));
    let (_, dollars) = spent.unwrap().rsplit_once(' ').unwrap();
    let dollars: f64 = dollars.parse().unwrap();
    assert!((dollars * 1e6 - 44.0).abs() < 0.01, "{dollars}");
}

impl Pair {
    /// A stream of which two tokens of the draft were shown, and the draft's call.
    async fn half_way(&mut self) -> (Client, Call) {
        let mut client = self.streamed().await;
        let mut call = self.draft.call().await;
        call.stream().await;
        call.chunk(&(opening() + &said("a", 11) + &said("b", 12))).await;
        client.head().await;
        until_shown(&mut client, "ab").await;
        (client, call)
    }

    /// The log's row of the only request, once it is over.
    async fn row(&self) -> Value {
        let mut client = self.gateway.client().await;
        let asked = async {
            loop {
                let (_, listed) = client.get("/admin/views/requests").await;
                let listed: Value = serde_json::from_str(&listed).unwrap();
                if listed["rows"][0].is_object() {
                    return listed["rows"][0].clone();
                }
                tokio::task::yield_now().await;
            }
        };
        in_time(asked).await
    }

    /// Two tokens of a prompt and so many of an answer are in all books, what they cost, and what the target alone would
    /// have cost.
    async fn has_booked(&self, completion: u64, cost: u64) {
        let row = self.row().await;
        let tokens = (row["prompt_tokens"].as_u64(), row["completion_tokens"].as_u64());
        assert_eq!(tokens, (Some(2), Some(completion)), "{row}");
        let alone = (2 + completion) * 10;
        let costs = (&row["cost_microusd"], &row["cost_target_only_microusd"]);
        assert_eq!(costs, (&cost.into(), &alone.into()), "{row}");
        for (kind, count) in [("prompt", 2), ("completion", completion)] {
            let labels = format!(r#"{{model="m",kind="{kind}"}}"#);
            self.until(&format!("overdraft_tokens_total{labels} {count}")).await;
        }
        let labels = r#"{cascade="m",tenant="other",served_by="draft"}"#;
        self.until(&format!("overdraft_cascade_cost_microusd_total{labels} {cost}")).await;
    }
}

/// Reads a stream until all of that was shown.
async fn until_shown(client: &mut Client, all: &str) {
    let mut shown = String::new();
    while shown != all {
        shown.push_str(&text(&client.chunk().await.unwrap()));
    }
}

#[tokio::test]
async fn a_stream_of_a_cascade_that_ends_early_has_tokens_and_a_cost() {
    // Its client leaves while the draft speaks.
    let mut pair = Pair::start(1, priced).await;
    let (client, call) = pair.half_way().await;
    drop(client);
    call.gone().await;
    pair.has_booked(2, 4).await;

    // The draft dies, and the client leaves while the target goes on: it has read four tokens and said one.
    let mut pair = Pair::start(1, priced).await;
    let (mut client, call) = pair.half_way().await;
    call.reset();
    let mut call = pair.target().await;
    call.stream().await;
    call.chunk(&more("c", 21, "")).await;
    until_shown(&mut client, "c").await;
    drop(client);
    call.gone().await;
    pair.has_booked(3, 4 + 50).await;

    // The draft dies, and the client leaves before the target says anything: it has read four tokens.
    let mut pair = Pair::start(1, priced).await;
    let (client, call) = pair.half_way().await;
    call.reset();
    let call = pair.target().await;
    drop(client);
    call.gone().await;
    pair.has_booked(2, 4 + 40).await;

    // The draft dies, and nobody goes on.
    let mut pair = Pair::start(1, priced).await;
    let (mut client, call) = pair.half_way().await;
    pair.targets.remove(0).stop().await;
    call.reset();
    assert_eq!(client.rest().await.1, End::Aborted);
    pair.has_booked(2, 4).await;
}

/// An event of a completion that is no plain text.
const UNFIT: &str = "data: {\"id\":\"t\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"tool_calls\"}]}\n\n";

#[tokio::test]
async fn a_worker_that_goes_on_with_no_plain_text_is_in_the_cost_beside_the_next() {
    let mut pair = Pair::start(2, priced).await;
    let (mut client, call) = pair.half_way().await;
    call.reset();
    let (mut call, other) = pair.either_target().await;
    call.stream().await;
    call.chunk(&more("c", 21, "")).await;
    until_shown(&mut client, "c").await;
    call.chunk(UNFIT).await;
    let mut next = pair.targets[other].call().await;
    next.stream().await;
    next.chunk(&more("d", 22, "")).await;
    until_shown(&mut client, "d").await;
    drop(client);
    next.gone().await;
    // One has read four tokens and said one, the other has read that one as well.
    pair.has_booked(4, 4 + 50 + 60).await;
}

#[tokio::test]
async fn a_worker_that_went_on_in_vain_is_in_the_cost_of_a_whole_answer() {
    let mut pair = Pair::start(1, |cascade| {
        priced(cascade);
        cascade.mode = Mode::Verify;
    })
    .await;
    let mut client = pair.chat(r#","temperature":0"#).await;
    give_draft(&mut pair.draft, &(window() + &ended(3))).await;
    let accepted = score(&[(11, true), (12, false), (9, true)], false);
    pair.target().await.answer(200, &accepted).await;
    // It goes on behind the first token with something that cannot be told, and nobody else is there.
    let mut call = pair.target().await;
    call.stream().await;
    call.chunk(&(more("c", 21, "") + UNFIT)).await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    // The draft has read two tokens and said three; the target has read five to score them, which takes one, has
    // read three and said one, and has then answered with four in all.
    let labels = r#"{cascade="m",tenant="other",served_by="target"}"#;
    let cost = 5 + 60 + 40 + 40;
    pair.until(&format!("overdraft_cascade_cost_microusd_total{labels} {cost}")).await;
}

#[tokio::test]
async fn a_draft_that_begins_with_a_tool_call_is_in_the_cost() {
    let mut pair = Pair::start(1, priced).await;
    let mut client = pair.chat("").await;
    let mut call = pair.draft.call().await;
    call.stream().await;
    let delta = json!({"role": "assistant", "content": "x", "tool_calls": [{"index": 0}]});
    let first = json!({"id": "d", "prompt_token_ids": [1, 2],
        "choices": [{"index": 0, "delta": delta}]});
    call.chunk(&format!("data: {first}\n\n")).await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    // It has read two tokens.
    let labels = r#"{cascade="m",tenant="other",served_by="target"}"#;
    pair.until(&format!("overdraft_cascade_cost_microusd_total{labels} 42")).await;
}

#[tokio::test]
async fn a_stream_of_which_the_target_alone_was_shown_has_tokens_and_a_cost() {
    let mut pair = Pair::start(1, priced).await;
    let mut client = pair.streamed().await;
    let mut call = pair.draft.call().await;
    call.stream().await;
    // The first window ends within a character, and the draft dies behind it.
    call.chunk(&(opening() + &said("", 11) + &said("", 12) + &said("b", 13))).await;
    client.head().await;
    call.reset();
    let mut call = pair.target().await;
    call.stream().await;
    call.chunk(&more("c", 21, "")).await;
    until_shown(&mut client, "c").await;
    drop(client);
    call.gone().await;
    // The target has read the prompt alone, and said one token.
    pair.has_booked(1, 5 + 30).await;
}

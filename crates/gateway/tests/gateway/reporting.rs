//! What a stock engine tells of its cache, and what the gateway makes of it.

use overdraft_units::TokenId;
use overdraft_wire::kv_events::{Batch, EngineHash, KvEvent, Stored, encode, write_sequence};
use zeromq::{PubSocket, Socket, SocketSend, ZmqMessage};

use crate::harness::{ANSWER, Gateway, MODEL, in_time};
use crate::mock::Mock;

/// Two blocks of a worker whose blocks are of another size than is assumed.
const BLOCK: u32 = 8;

/// As vLLM answers: by data-parallel rank.
fn sources(endpoints: &[&str]) -> Vec<u8> {
    let ranks: Vec<String> = endpoints
        .iter()
        .enumerate()
        .map(|(rank, endpoint)| {
            format!(
                r#""{rank}":{{"enable_kv_cache_events":true,"publisher":"zmq",
                "endpoint":"{endpoint}","replay_endpoint":null,"topic":"kv-events"}}"#
            )
        })
        .collect();
    format!("{{{}}}", ranks.join(",")).into_bytes()
}

/// Publishes a batch over and over until the page of metrics says so: what came before a subscription is lost.
async fn publish_until(
    gateway: &Gateway,
    events: &mut PubSocket,
    batch: &[u8],
    holds: impl Fn(&str) -> bool,
) {
    let mut client = gateway.client().await;
    let heard = async {
        for number in 0.. {
            let frames = [b"kv-events".to_vec(), write_sequence(number).to_vec(), batch.to_vec()];
            let frames = frames.map(bytes::Bytes::from).to_vec();
            events.send(ZmqMessage::try_from(frames).unwrap()).await.unwrap();
            if holds(&client.get("/metrics").await.1) {
                break;
            }
        }
    };
    in_time(heard).await;
}

#[tokio::test]
async fn each_rank_is_a_worker_and_is_named_to_the_engine() {
    let mut mock = Mock::start(&[MODEL]).await;
    let nobody = ["tcp://127.0.0.1:1", "tcp://127.0.0.1:1"];
    mock.behave(|manner| drop(manner.pages.insert("/kv_event_sources", sources(&nobody))));
    let gateway = Gateway::start_unready(&[&mock], |_| {}).await;
    gateway.until_up(2).await;
    let mut ranks = Vec::new();
    for _ in 0..2 {
        let mut client = gateway.chat("").await;
        let call = mock.call().await;
        ranks.push(call.header("x-data-parallel-rank").unwrap().to_owned());
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    ranks.sort();
    assert_eq!(ranks, ["0", "1"], "an idle fleet is walked through in turn");
}

#[tokio::test]
async fn without_a_tokenizer_its_worker_makes_the_tokens_of_a_prompt() {
    let mut events = PubSocket::new();
    let endpoint = events.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let tokens: Vec<u32> = (100..100 + 3 * BLOCK).collect();
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| {
        manner.pages.insert("/kv_event_sources", sources(&[&endpoint]));
        let answer = format!(r#"{{"count":{},"tokens":{tokens:?}}}"#, tokens.len());
        manner.pages.insert("/tokenize", answer.into_bytes());
    });
    let gateway = Gateway::start(&[&mock]).await;
    // What it stored before anybody listens is lost, so it tells of it until it is heard.
    let stored = Stored {
        hashes: vec![EngineHash::Number(1), EngineHash::Number(2)],
        tokens: tokens.iter().take(2 * BLOCK as usize).copied().map(TokenId).collect(),
        block_size: BLOCK,
        ..Stored::default()
    };
    let batch =
        encode(&Batch { at_seconds: 0.0, events: vec![KvEvent::Stored(stored)], rank: None });
    let is_known = |page: &str| {
        let line = page.lines().find(|line| line.starts_with("overdraft_worker_prefix_knowledge{"));
        line.is_some_and(|line| !line.contains("estimated"))
    };
    publish_until(&gateway, &mut events, &batch, is_known).await;
    for _ in 0..2 {
        let mut client = gateway.chat("").await;
        let answer = ANSWER.replace(
            r#""prompt_tokens":3"#,
            r#""prompt_tokens":24,"prompt_tokens_details":{"cached_tokens":16}"#,
        );
        mock.call().await.answer(200, &answer).await;
        client.whole().await;
    }
    let compared = |page: &str| {
        let kinds = [("predicted", 32), ("actual", 32)];
        kinds.iter().all(|(kind, count)| {
            page.contains(&format!(
                "overdraft_worker_cached_tokens_total{{worker=\"worker-0\",kind=\"{kind}\"}} {count}"
            ))
        })
    };
    let page = gateway.metrics_until(compared).await;
    let prompts = |result: &str, count: u32| {
        page.contains(&format!("overdraft_tokenizer_remote_prompts{{result=\"{result}\"}} {count}"))
    };
    assert!(prompts("made", 1) && prompts("hit", 1), "{page}");
}

#[tokio::test]
async fn blocks_that_do_not_count_as_held_are_counted_by_why() {
    let mut events = PubSocket::new();
    let endpoint = events.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| drop(manner.pages.insert("/kv_event_sources", sources(&[&endpoint]))));
    let gateway = Gateway::start(&[&mock]).await;
    let stored = |parent: Option<u64>, medium: &str| {
        KvEvent::Stored(Stored {
            hashes: vec![EngineHash::Number(1)],
            parent: parent.map(EngineHash::Number),
            tokens: (0..BLOCK).map(TokenId).collect(),
            block_size: BLOCK,
            medium: Some(medium.to_owned()),
            ..Stored::default()
        })
    };
    // Nobody has told of the first one's parent, and the second one does not lie on the device.
    let both = vec![stored(Some(7), "GPU"), stored(None, "CPU")];
    let batch = encode(&Batch { at_seconds: 0.0, events: both, rank: None });
    let are_counted = |page: &str| {
        ["unknown_parent", "elsewhere"].iter().all(|reason| {
            page.contains(&format!(
                "overdraft_kv_event_blocks_skipped_total{{worker=\"worker-0\",reason=\"{reason}\"}} "
            ))
        })
    };
    publish_until(&gateway, &mut events, &batch, are_counted).await;
}

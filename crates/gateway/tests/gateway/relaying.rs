//! What goes through goes through unchanged, at once, and no longer than its client listens.

mod headers;

use overdraft_core::cost::{Price, Prices};

use crate::client::End;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::Mock;

#[tokio::test]
async fn a_whole_answer_comes_back_byte_for_byte() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat("").await;
    mock.call().await.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 200);
    assert_eq!(body, ANSWER);
    assert_eq!(head.header("content-type"), Some("application/json"));
    assert_eq!(head.header("x-overdraft-worker"), Some("worker-0"));
    assert!(head.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    assert!(head.header("openai-processing-ms").is_some_and(|ms| ms.parse::<u32>().is_ok()));
}

#[tokio::test]
async fn a_request_reaches_the_worker_byte_for_byte() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    // Odd spacing, a float that does not round-trip, a big integer, escapes, unknown and nested
    // members: whoever parses and writes again changes one of them.
    let odd = "{ \"temperature\" : 0.30000000000000004,\t\"model\":\"m\" , \"cache_salt\":\"\\u0041\",\
               \"x_args\":{\"a\":[ 1e2,  123456789012345678901234567890 ]},\"messages\":[],\
               \"x\":null }";
    for path in [CHAT, "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"] {
        let mut client = gateway.client().await;
        client.post(path, odd).await;
        let call = mock.call().await;
        assert!(call.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{}", call.head);
        assert_eq!(call.text(), odd);
        let answer = r#"{ "choices":[{}]}"#;
        call.answer(200, answer).await;
        assert_eq!(client.whole().await.1, answer);
    }
}

#[tokio::test]
async fn a_long_request_and_a_long_answer_come_through() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let long = chat(&format!(r#","x":"{}""#, "prompt ".repeat(200_000)));
    let mut client = gateway.client().await;
    client.post(CHAT, &long).await;
    let call = mock.call().await;
    assert_eq!(call.body.len(), long.len());
    assert!(call.body == long.as_bytes());
    // Longer than what is held back to be checked.
    let answer = format!(r#"{{"x":"{}"}}"#, "answer ".repeat(300_000));
    call.answer(200, &answer).await;
    assert!(client.whole().await.1 == answer);
}

#[tokio::test]
async fn every_event_is_relayed_before_the_next_one_is_sent() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    for text in ["one", "two", "three"] {
        call.chunk(&token(text)).await;
        if text == "one" {
            let head = client.head().await;
            assert_eq!(head.status, 200);
            assert_eq!(head.header("content-type"), Some("text/event-stream"));
            assert_eq!(head.header("transfer-encoding"), Some("chunked"));
        }
        assert_eq!(client.chunk().await, Ok(token(text)));
    }
    call.chunk(&finish("stop")).await;
    assert_eq!(client.chunk().await, Ok(finish("stop")));
    call.chunk(DONE).await;
    assert_eq!(client.chunk().await, Ok(DONE.to_owned()));
    call.end().await;
    assert_eq!(client.chunk().await, Err(End::Clean));
}

#[tokio::test]
async fn a_stream_is_asked_for_its_token_counts_and_tells_them_only_to_who_asked() {
    let counts =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n";
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for (options, asked) in [("", false), (r#","stream_options":{"include_usage":true}"#, true)] {
        let mut client = gateway.chat(&format!(r#","stream":true{options}"#)).await;
        let mut call = mock.call().await;
        let text = call.text();
        let wish = r#""stream_options":{"include_usage":true}"#;
        assert_eq!(text.matches(wish).count(), 1, "{text}");
        call.stream().await;
        call.chunk(&format!("{}{}{counts}{DONE}", token("a"), finish("stop"))).await;
        call.end().await;
        let told = if asked { counts } else { "" };
        let expected = format!("{}{}{told}{DONE}", token("a"), finish("stop"));
        client.head().await;
        assert_eq!(client.rest().await, (expected, End::Clean));
    }
}

/// vLLM gives its fingerprint to the last event of a stream, which are the counts that only the gateway asks for.
#[tokio::test]
async fn the_fingerprint_of_counts_that_are_kept_back_goes_to_the_event_before_them() {
    let counts = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1},\"system_fingerprint\":\"vllm-1\"}\n\n";
    let stamped = finish("stop").replace("}\n", ",\"system_fingerprint\":\"vllm-1\"}\n");
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for resume in ["on", "off"] {
        let mut client = gateway.client().await;
        let header = format!("x-overdraft-resume: {resume}\r\n");
        client.post_with(CHAT, &header, &chat(r#","stream":true"#)).await;
        let mut call = mock.call().await;
        call.stream().await;
        call.chunk(&token("a")).await;
        client.head().await;
        assert_eq!(client.chunk().await, Ok(token("a")));
        call.chunk(&finish("stop")).await;
        call.chunk(counts).await;
        assert_eq!(client.chunk().await, Ok(stamped.clone()));
        call.chunk(DONE).await;
        call.end().await;
        assert_eq!(client.rest().await, (DONE.to_owned(), End::Clean));
    }
}

#[tokio::test]
async fn an_event_cut_into_pieces_leaves_in_one_piece() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    let whole = format!("{}{}{}{DONE}", token("\u{e4}"), token("b"), finish("stop"));
    for byte in whole.as_bytes() {
        call.write([b"1\r\n", &[*byte][..], b"\r\n"].concat()).await;
    }
    call.end().await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(client.rest().await, (whole, End::Clean));
}

// Faults: 64
#[tokio::test]
async fn a_client_that_leaves_midway_closes_the_connection_to_the_worker() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    client.head().await;
    client.chunk().await.unwrap();
    drop(client);
    call.gone().await;
}

// Faults: 64
#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_closes_it_too() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for more in ["", r#","stream":true"#] {
        let client = gateway.chat(more).await;
        let call = mock.call().await;
        drop(client);
        call.gone().await;
    }
}

// Faults: 38
#[tokio::test]
async fn a_stream_that_finished_without_done_gets_one() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}", token("a"), finish("stop"))).await;
    call.end().await;
    client.head().await;
    let expected = format!("{}{}{DONE}", token("a"), finish("stop"));
    assert_eq!(client.rest().await, (expected, End::Clean));
}

#[tokio::test]
async fn connections_to_the_worker_are_used_again() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let mut ports = Vec::new();
    for _ in 0..3 {
        client.post(CHAT, &chat("")).await;
        let call = mock.call().await;
        ports.push(call.peer());
        call.answer(200, ANSWER).await;
        client.whole().await;
        client.post(CHAT, &chat(r#","stream":true"#)).await;
        let mut call = mock.call().await;
        ports.push(call.peer());
        call.stream().await;
        call.chunk(&format!("{}{DONE}", finish("stop"))).await;
        call.end().await;
        client.head().await;
        assert_eq!(client.rest().await.1, End::Clean);
    }
    ports.sort_unstable();
    ports.dedup();
    // One whose last bytes are still on their way when the next request comes cannot be used for it.
    assert!(ports.len() <= 2, "{ports:?}");
}

#[tokio::test]
async fn workers_take_turns() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    for turn in 0..4 {
        let mut client = gateway.chat("").await;
        mocks[turn % 2].call().await.answer(200, ANSWER).await;
        let (head, _) = client.whole().await;
        let expected = format!("worker-{}", turn % 2);
        assert_eq!(head.header("x-overdraft-worker"), Some(expected.as_str()));
    }
}

#[tokio::test]
async fn a_busy_worker_is_passed_over_for_an_idle_one() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    let _busy = gateway.stream().await;
    let _held = mocks[0].call().await;
    for _ in 0..3 {
        let mut client = gateway.chat("").await;
        mocks[1].call().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

/// The log's row of the only request, once it is over.
pub(crate) async fn row(gateway: &Gateway) -> serde_json::Value {
    let mut client = gateway.client().await;
    let asked = async {
        loop {
            let (_, listed) = client.get("/admin/views/requests").await;
            let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
            if listed["rows"][0].is_object() {
                return listed["rows"][0].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(asked).await
}

#[tokio::test]
async fn what_was_done_for_a_client_that_left_is_in_the_books() {
    let counted = |number: u32| {
        let usage =
            format!("}}],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{number}}}}}\n\n");
        token("a").replace("}]}\n\n", &usage)
    };
    for (tells, prompt, cost) in [(true, Some(7), Some(15)), (false, None, None)] {
        let mut mock = Mock::start(&[MODEL]).await;
        let gateway = Gateway::start_with(&[&mock], |settings| {
            let [one, two] = [1_000_000, 2_000_000].map(Price::new);
            let prices = Prices { prompt: one, cached: one, completion: two };
            settings.prices.models = [(MODEL.to_owned(), prices)].into();
        })
        .await;
        let mut client = gateway.stream().await;
        let mut call = mock.call().await;
        call.stream().await;
        for number in 1..=4 {
            call.chunk(&if tells { counted(number) } else { token("a") }).await;
        }
        client.head().await;
        let mut seen = String::new();
        while seen.matches("data:").count() < 4 {
            seen += &client.chunk().await.unwrap();
        }
        drop(client);
        call.gone().await;
        let row = row(&gateway).await;
        assert_eq!(row["end"], "CD");
        let tokens = (row["prompt_tokens"].as_u64(), row["completion_tokens"].as_u64());
        assert_eq!(tokens, (prompt, Some(4)), "{row}");
        assert_eq!(row["cost_microusd"].as_u64(), cost, "{row}");
        let line = "overdraft_tokens_total{model=\"m\",kind=\"completion\"} 4";
        gateway.until_line(line).await;
    }
}

#[tokio::test]
async fn what_was_relayed_of_an_answer_that_broke_off_is_in_the_books() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}", token("a"), token("b"))).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.reset();
    assert_eq!(client.rest().await.1, End::Aborted);
    let row = row(&gateway).await;
    assert_eq!(row["completion_tokens"], 2, "{row}");
    let line = "overdraft_tokens_total{model=\"m\",kind=\"completion\"} 2";
    gateway.until_line(line).await;
}

//! A draft is scored the cheapest way that a worker has, and the portable way where that is of no use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use overdraft_core::cascade::{Mode, Path};
use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::CascadeSettings;
use serde_json::{Value, json};

use super::{Call, Pair, TOKENS, begin_answer, give_draft, go_on, score, text, tokenizing};
use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, SOON, chat, in_time};
use crate::mock::Mock;

const GENERATE: &str = "POST /inference/v1/generate ";
const PORTABLE: &str = "POST /v1/completions ";

/// A draft's event that names tokens by their ids: its own and another.
fn named(text: &str, [id, rival]: [u32; 2]) -> String {
    let name = |id: u32| format!("token_id:{id}");
    let logprobs = json!({"content": [{"token": name(id), "logprob": -0.1, "top_logprobs": [
        {"token": name(id), "logprob": -0.1}, {"token": name(rival), "logprob": -3.0}]}]});
    let chunk = json!({"id": "d", "choices": [{"index": 0, "token_ids": [id],
        "delta": {"content": text}, "logprobs": logprobs, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

/// The end of a draft, with its end token.
fn ended() -> String {
    let last = json!({"id": "d", "choices": [{"index": 0, "delta": {"content": ""},
        "token_ids": [9], "finish_reason": "stop"}]});
    format!("data: {last}\n\n{DONE}")
}

/// An array as `numpy.save` writes it.
fn array(kind: &str, rows: &[&[f32]]) -> Vec<u8> {
    let shape = format!("({}, {})", rows.len(), rows[0].len());
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(rows.iter().copied().flatten().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn generated(array: Option<&[u8]>) -> String {
    json!({"request_id": "g", "choices": [{"index": 0, "token_ids": [5], "finish_reason": "length"}],
        "prompt_token_id_logprobs": array.map(|array| STANDARD.encode(array))})
    .to_string()
}

/// How likely the asked tokens are, row by row.
fn matrix(rows: &[&[f32]]) -> String {
    generated(Some(&array("<f4", rows)))
}

/// What `SGLang` tells of tokens, and which was the likeliest, behind the last token of the prompt.
fn sglang(rows: &[(u32, u32)]) -> String {
    let mut own = vec![json!([null, 2, null])];
    let mut top = vec![Value::Null];
    for &(id, best) in rows {
        own.push(json!([if id == best { -0.1 } else { -4.0 }, id, null]));
        top.push(json!([[-0.1, best, null]]));
    }
    json!({"text": "x", "output_ids": [5], "meta_info": {"finish_reason": {"type": "length"},
        "input_token_logprobs": own, "input_top_logprobs": top,
        "prompt_tokens": 5, "cached_tokens": 2, "completion_tokens": 1}})
    .to_string()
}

fn scored_by(path: Path) -> impl FnOnce(&mut CascadeSettings) {
    move |it| (it.mode, it.scoring) = (Mode::Verify, Some(path))
}

impl Pair {
    /// A request that the draft answers whole with `ab`, of which the target has to say something.
    async fn drafted(&mut self) -> Client {
        let client = self.chat(r#","temperature":0"#).await;
        let events = named("a", [11, 21]) + &named("b", [12, 22]) + &ended();
        give_draft(&mut self.draft, &events).await;
        client
    }

    async fn until_scored(&self, path: &str, outcome: &str, count: u32) {
        let labels = format!(r#"cascade="m",path="{path}",outcome="{outcome}""#);
        self.until(&format!("overdraft_cascade_scores_total{{{labels}}} {count}\n")).await;
    }
}

/// The portable way, of which nothing is wrong with the draft.
async fn all_portable(call: Call) {
    assert!(call.head.starts_with(PORTABLE), "{}", call.head);
    assert_eq!(call.json()["prompt"], json!([1, 2, 11, 12, 9]));
    call.answer(200, &score(&[(11, true), (12, true), (9, true)], false)).await;
}

async fn is_verified(client: &mut Client) {
    let (head, told) = client.whole().await;
    assert_eq!(head.header("x-overdraft-served-by"), Some("verified"), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["choices"][0]["message"]["content"], "ab");
}

#[tokio::test]
async fn vllm_is_asked_how_likely_the_draft_s_tokens_and_their_rivals_are() {
    let mut pair = Pair::start(1, scored_by(Path::Generate)).await;
    let mut client = pair.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = pair.draft.call().await;
    assert_eq!(call.json()["return_tokens_as_token_ids"], true);
    begin_answer(&mut call, &(named("a", [11, 21]) + &named("b", [12, 22]))).await;
    let asked = pair.target().await;
    assert!(asked.head.starts_with(GENERATE), "{}", asked.head);
    let scored = asked.json();
    assert_eq!((&scored["model"], &scored["token_ids"]), (&json!(MODEL), &json!([1, 2, 11, 12])));
    let params = &scored["sampling_params"];
    assert_eq!(params["prompt_logprob_start"], 1);
    assert_eq!(params["prompt_logprob_token_ids"], json!([[11, 21], [12, 22]]));
    asked.answer(200, &matrix(&[&[-0.1, -3.0], &[-0.9, -1.0]])).await;
    assert_eq!(client.head().await.header("x-overdraft-served-by"), Some("verified"));
    assert_eq!(text(&client.chunk().await.unwrap()), "");
    assert_eq!(text(&client.chunk().await.unwrap()), "ab");
    call.chunk(&(named("c", [13, 23]) + &named("wrong", [14, 24]))).await;
    let asked = pair.target().await;
    let params = &asked.json()["sampling_params"];
    assert_eq!(params["prompt_logprob_start"], 3);
    assert_eq!(params["prompt_logprob_token_ids"], json!([[13, 23], [14, 24]]));
    asked.answer(200, &matrix(&[&[-0.1, -3.0], &[-3.0, -0.1]])).await;
    call.gone().await;
    // From here on it is what follows any score.
    let asked = pair.target().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11, 12, 13]));
    go_on(asked, "d", 77).await;
    let (rest, end) = client.rest().await;
    assert_eq!((text(&rest).as_str(), end), ("cd", End::Clean));
    pair.until_scored("generate", "scored", 2).await;
    pair.until(r#"overdraft_cascade_accepted_prefix_tokens_sum{cascade="m"} 3"#).await;
}

#[tokio::test]
async fn what_a_score_does_not_prove_the_target_says_itself() {
    let mut pair = Pair::start(1, scored_by(Path::Generate)).await;
    let mut client = pair.drafted().await;
    let asked = pair.target().await;
    assert_eq!(
        asked.json()["sampling_params"]["prompt_logprob_token_ids"],
        json!([[11, 21], [12, 22], [9, -1]])
    );
    // The second token has a chance of 0.37, its rival one of 0.05: another may have more.
    let none = f32::NEG_INFINITY;
    asked.answer(200, &matrix(&[&[-0.1, -3.0], &[-1.0, -3.0], &[-0.1, none]])).await;
    let asked = pair.target().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11]));
    go_on(asked, "b", 12).await;
    is_verified(&mut client).await;
    pair.until(r#"overdraft_cascade_unproven_total{cascade="m"} 1"#).await;
}

#[tokio::test]
async fn a_score_that_tells_nothing_is_asked_for_the_portable_way_and_the_next_is_not() {
    let mut pair = Pair::start(1, scored_by(Path::Generate)).await;
    let mut client = pair.drafted().await;
    pair.target().await.answer(200, &generated(None)).await;
    all_portable(pair.target().await).await;
    is_verified(&mut client).await;
    let mut client = pair.drafted().await;
    let asked = pair.target().await;
    assert!(asked.head.starts_with(GENERATE), "{}", asked.head);
    asked.answer(200, &matrix(&[&[-0.1, -3.0], &[-0.1, -3.0], &[-0.1, -3.0]])).await;
    is_verified(&mut client).await;
    pair.until_scored("generate", "blank", 1).await;
    pair.until_scored("completions", "scored", 1).await;
}

/// What servers say that cannot score so, or do it otherwise.
fn of_no_use() -> Vec<(u16, String)> {
    let row: &[f32] = &[-0.1, -3.0];
    let refused = r#"{"error":{"message":"Extra inputs are not permitted","code":400}}"#;
    vec![
        (404, r#"{"detail":"Not Found"}"#.to_owned()),
        (400, refused.to_owned()),
        (422, r#"{"detail":[]}"#.to_owned()),
        (500, r#"{"error":{"message":"no such parameter"}}"#.to_owned()),
        (200, "[1]".to_owned()),
        (200, matrix(&[row, row])),
        (200, generated(Some(&array("<f8", &[row, row, row])))),
        (200, generated(Some(&array("<f4", &[row, row, row])[..40]))),
        (200, generated(Some(b"no array"))),
        (200, matrix(&[row, &[f32::NAN, -1.0], row])),
        // Logits, above zero and below.
        (200, matrix(&[row, &[17.5, 12.0], row])),
        (200, matrix(&[row, &[-0.1, -0.2], row])),
    ]
}

#[tokio::test]
async fn who_cannot_score_so_is_asked_the_portable_way_and_not_that_way_again() {
    for (status, answer) in of_no_use() {
        let mut pair = Pair::start(1, scored_by(Path::Generate)).await;
        let mut client = pair.drafted().await;
        let asked = pair.target().await;
        assert!(asked.head.starts_with(GENERATE), "{}", asked.head);
        asked.answer(status, &answer).await;
        all_portable(pair.target().await).await;
        is_verified(&mut client).await;
        let mut client = pair.drafted().await;
        all_portable(pair.target().await).await;
        is_verified(&mut client).await;
        pair.until_scored("completions", "scored", 2).await;
    }
}

#[tokio::test]
async fn a_verifier_that_dies_over_a_score_is_replaced() {
    let mut pair = Pair::start(2, scored_by(Path::Generate)).await;
    let mut client = pair.drafted().await;
    let (mut call, other) = pair.either_target().await;
    call.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
        .await;
    call.reset();
    let asked = pair.targets[other].call().await;
    assert!(asked.head.starts_with(GENERATE), "{}", asked.head);
    asked.answer(200, &matrix(&[&[-0.1, -3.0], &[-0.1, -3.0], &[-0.1, -3.0]])).await;
    is_verified(&mut client).await;
    pair.until_scored("generate", "failed", 1).await;
    pair.until_scored("generate", "scored", 1).await;
}

#[tokio::test]
async fn sglang_is_asked_from_the_draft_on_under_the_salt_of_whose_request_it_is() {
    let mut pair = Pair::start(1, scored_by(Path::Sglang)).await;
    let mut client = pair.gateway.client().await;
    let request = chat(r#","max_tokens":64,"temperature":0"#);
    client.post_with(CHAT, "authorization: Bearer somebody\r\n", &request).await;
    let mut call = pair.draft.call().await;
    let drafted = call.json();
    assert_eq!(drafted.get("return_tokens_as_token_ids"), None);
    let events = named("a", [11, 21]) + &named("wrong", [14, 22]) + &ended();
    begin_answer(&mut call, &events).await;
    call.end().await;
    let asked = pair.target().await;
    assert!(asked.head.starts_with("POST /generate "), "{}", asked.head);
    let scored = asked.json();
    assert_eq!(scored["input_ids"], json!([1, 2, 11, 14, 9]));
    assert_eq!(
        (&scored["logprob_start_len"], &scored["return_logprob"]),
        (&json!(1), &json!(true))
    );
    assert!(scored["cache_salt"].as_str().is_some_and(|salt| 40 < salt.len()), "{scored}");
    assert_eq!(
        (&scored["extra_key"], &scored["cache_salt"]),
        (&drafted["cache_salt"], &drafted["cache_salt"])
    );
    asked.answer(200, &sglang(&[(11, 11), (14, 12), (9, 9)])).await;
    let asked = pair.target().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11]));
    go_on(asked, "b", 12).await;
    is_verified(&mut client).await;
    pair.until_scored("sglang", "scored", 1).await;
}

#[tokio::test]
async fn what_sglang_had_in_its_cache_is_billed_as_cached() {
    let mut pair = Pair::start(1, |it| {
        scored_by(Path::Sglang)(it);
        let price = |micros| Price::new(micros);
        let target =
            Prices { prompt: price(1_000_000), cached: price(0), completion: price(1_000_000) };
        it.prices = Some([Prices::default(), target]);
    })
    .await;
    let mut client = pair.drafted().await;
    pair.target().await.answer(200, &sglang(&[(11, 11), (12, 12), (9, 9)])).await;
    is_verified(&mut client).await;
    // Five tokens of which two were cached, and one that it said.
    let paid = r#"cost_microusd_total{cascade="m",tenant="other",served_by="verified"} 4"#;
    pair.until(paid).await;
}

#[tokio::test]
async fn sglang_that_tells_no_score_is_asked_the_portable_way() {
    let short = sglang(&[(11, 11)]);
    let aborted = sglang(&[(11, 11), (12, 12), (9, 9)]).replace("length", "abort");
    for (status, answer) in
        [(400, "{}".to_owned()), (200, "{}".to_owned()), (200, short), (200, aborted)]
    {
        let mut pair = Pair::start(1, scored_by(Path::Sglang)).await;
        let mut client = pair.drafted().await;
        pair.target().await.answer(status, &answer).await;
        all_portable(pair.target().await).await;
        is_verified(&mut client).await;
    }
}

#[tokio::test]
async fn without_a_way_that_works_the_target_answers() {
    let mut pair = Pair::start(1, scored_by(Path::Generate)).await;
    let mut client = pair.drafted().await;
    pair.target().await.answer(404, "{}").await;
    pair.target().await.answer(400, "{}").await;
    pair.target().await.answer(200, ANSWER).await;
    let (head, told) = client.whole().await;
    assert_eq!((told.as_str(), head.header("x-overdraft-served-by")), (ANSWER, Some("target")));
}

/// A worker whose metrics and version are these.
async fn running(metrics: &str, version: Option<&str>) -> Mock {
    let mock = tokenizing(MODEL, TOKENS).await;
    mock.behave(|manner| {
        manner.metrics = Some(metrics.as_bytes().to_vec());
        if let Some(version) = version {
            manner.pages.insert("/version", json!({"version": version}).to_string().into_bytes());
        }
    });
    mock
}

#[tokio::test]
async fn what_a_worker_runs_says_how_it_is_asked() {
    const VLLM: &str = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";
    const SGLANG: &str = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n";
    let mocks = [
        running(VLLM, Some("0.31.0")).await,
        running(VLLM, Some("0.30.2")).await,
        running(VLLM, None).await,
        running(SGLANG, None).await,
    ];
    let mocks: Vec<&Mock> = mocks.iter().collect();
    let gateway = Gateway::start_with(&mocks, |settings| {
        let mut cascade = CascadeSettings::new("small", MODEL);
        cascade.mode = Mode::Verify;
        settings.cascades.insert("chat".to_owned(), cascade);
        (settings.scrape.interval, settings.scrape.idle_interval) = (SOON, SOON);
    })
    .await;
    let mut client = gateway.client().await;
    in_time(async {
        loop {
            let list: Value = serde_json::from_str(&client.get("/admin/workers").await.1).unwrap();
            let ways = (0..mocks.len()).map(|at| list["workers"][at]["scoring"].as_str().unwrap());
            if ways.eq(["generate", "completions", "completions", "sglang"]) {
                return;
            }
            tokio::time::sleep(SOON).await;
        }
    })
    .await;
}

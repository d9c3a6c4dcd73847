//! What a cascade learns behind its clients' backs, and what it must know before it mixes two models.

use overdraft_core::cascade::Mode;
use overdraft_gateway::CascadeSettings;
use overdraft_units::Ratio;
use serde_json::json;

use super::{Pair, SMALL, TOKENS, ended, give_draft, said, text, tokenizing};
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;
use crate::redis::Redis;

#[tokio::test]
async fn a_shadow_is_compared_behind_the_client_s_back() {
    let mut pair = Pair::start(1, |it| {
        (it.mode, it.threshold) = (Mode::Shadow, None);
        (it.shadow.start, it.shadow.floor) = (Ratio::WHOLE, Ratio::WHOLE);
    })
    .await;
    for (text, label) in [("Hello", "as_good"), ("Goodbye", "worse")] {
        let mut client = pair.chat("").await;
        pair.target().await.answer(200, ANSWER).await;
        let (head, told) = client.whole().await;
        assert_eq!(told, ANSWER);
        assert_eq!(head.header("x-overdraft-served-by"), Some("target"));
        give_draft(&mut pair.draft, &(said(text, 11) + &ended(2))).await;
        let line = format!(r#"overdraft_cascade_shadows_total{{cascade="m",result="{label}"}} 1"#);
        pair.until(&line).await;
    }
    pair.until(r#"overdraft_cascade_labels{cascade="m"} 2"#).await;
}

#[tokio::test]
async fn an_accepted_answer_is_compared_with_what_the_target_would_have_said() {
    let mut pair = Pair::start(1, |it| {
        (it.shadow.start, it.shadow.floor) = (Ratio::WHOLE, Ratio::WHOLE);
        it.shadow.learning = Ratio::WHOLE;
    })
    .await;
    let mut client = pair.streamed().await;
    give_draft(&mut pair.draft, &(said("hel", 11) + &said("lo", 12) + &ended(3))).await;
    assert_eq!(text(&client.rest_after_head().await), "hello");
    let asked = pair.target().await;
    assert_eq!((&asked.json()["stream"], &asked.json()["model"]), (&json!(false), &json!(MODEL)));
    asked.answer(200, ANSWER).await;
    pair.until(r#"overdraft_cascade_shadows_total{cascade="m",result="as_good"} 1"#).await;
}

#[tokio::test]
async fn models_that_make_other_tokens_are_never_mixed() {
    let draft = tokenizing(SMALL, br#"{"tokens":[3]}"#).await;
    let mut target = tokenizing(MODEL, TOKENS).await;
    let mut cascade = CascadeSettings::new(SMALL, MODEL);
    (cascade.mode, cascade.threshold) = (Mode::Verify, Some(Ratio::NONE));
    let gateway = Gateway::start_with(&[&target, &draft], |settings| {
        settings.cascades.insert("chat".to_owned(), cascade);
    })
    .await;
    gateway.until_line(r#"overdraft_cascade_parity{cascade="chat",state="different"} 1"#).await;
    // The cascade has a name of its own, which stands for the target.
    assert!(gateway.client().await.get("/v1/models").await.1.contains(r#""id":"chat""#));
    let mut client = gateway.client().await;
    let asked = chat(r#","max_tokens":64,"temperature":0"#).replace(r#""m""#, r#""chat""#);
    client.post(CHAT, &asked).await;
    let call = target.call().await;
    assert_eq!(call.json()["model"], MODEL);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
}

/// Workers of the target and of the draft, with one tokenizer.
async fn alike() -> (Mock, Mock) {
    (tokenizing(MODEL, TOKENS).await, tokenizing(SMALL, TOKENS).await)
}

/// A cascade that compares every answer of the target with the draft's.
fn shadow() -> CascadeSettings {
    let mut cascade = CascadeSettings::new(SMALL, MODEL);
    cascade.mode = Mode::Shadow;
    (cascade.shadow.start, cascade.shadow.floor) = (Ratio::WHOLE, Ratio::WHOLE);
    cascade
}

/// A request that the target answers, and the draft with the same words behind it.
async fn compared(gateway: &Gateway, target: &mut Mock, draft: &mut Mock) {
    let mut client = gateway.chat(r#","max_tokens":64"#).await;
    target.call().await.answer(200, ANSWER).await;
    client.whole().await;
    give_draft(draft, &(said("Hello", 11) + &ended(2))).await;
}

#[tokio::test]
async fn what_was_learnt_outlives_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("cascades.json");
    let (mut target, mut draft) = alike().await;
    let cascade = shadow();
    for life in 1..3 {
        let mut gateway = Gateway::start_with(&[&target, &draft], |settings| {
            settings.cascades.insert(MODEL.to_owned(), cascade.clone());
            settings.cascade_state = Some(state.clone());
        })
        .await;
        let labels = |labels: u32| format!(r#"overdraft_cascade_labels{{cascade="m"}} {labels}"#);
        gateway.until_line(&labels(life - 1)).await;
        compared(&gateway, &mut target, &mut draft).await;
        gateway.until_line(&labels(life)).await;
        gateway.stop();
        gateway.stopped().await;
    }
    // What is no such state is left.
    std::fs::write(&state, r#"{"version":1,"cascades":{"m":[1,2]}}"#).unwrap();
    let gateway = Gateway::start_with(&[&target, &draft], |settings| {
        settings.cascades.insert(MODEL.to_owned(), cascade);
        settings.cascade_state = Some(state);
    })
    .await;
    let page = gateway.metrics().await;
    assert!(page.contains(r#"overdraft_cascade_labels{cascade="m"} 0"#), "{page}");
}

/// A shadow of `draft` before `target`, kept in that Redis.
async fn sharing(url: &str, target: &Mock, draft: &Mock) -> Gateway {
    Gateway::start_with(&[target, draft], |settings| {
        settings.cascades.insert(MODEL.to_owned(), shadow());
        crate::sharing::place(settings, url);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_learn_from_each_other_and_none_writes_over_another() {
    let redis = Redis::start(&[]);
    let (mut target, mut draft) = alike().await;
    let mut one = sharing(&redis.url(), &target, &draft).await;
    let mut other = sharing(&redis.url(), &target, &draft).await;
    let labels = |labels: u32| format!(r#"overdraft_cascade_labels{{cascade="m"}} {labels}"#);
    for (count, gateway) in [&one, &one, &other].into_iter().enumerate() {
        compared(gateway, &mut target, &mut draft).await;
        let line = format!(
            r#"overdraft_cascade_shadows_total{{cascade="m",result="as_good"}} {}"#,
            if count < 2 { count + 1 } else { 1 }
        );
        gateway.until_line(&line).await;
    }
    one.until_line(&labels(3)).await;
    other.until_line(&labels(3)).await;
    for gateway in [&mut one, &mut other] {
        gateway.stop();
    }
    one.stopped().await;
    other.stopped().await;
    // Whoever comes later knows what both knew, once.
    let third = sharing(&redis.url(), &target, &draft).await;
    third.until_line(&labels(3)).await;
}

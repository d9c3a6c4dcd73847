//! Another model, or another cascade, on a share of the requests for a name.

use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::{CanarySettings, CascadeSettings, ModelSettings};
use overdraft_units::Ratio;

use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;

/// What is tried.
const NEXT: &str = "next";

fn prices(micros: u64) -> Prices {
    let price = Price::new(micros);
    Prices { prompt: price, cached: price, completion: price }
}

fn canary(model: &str, share_permille: u16) -> CanarySettings {
    let prices = Some([prices(1_000_000), prices(2_000_000)]);
    CanarySettings { model: model.to_owned(), share_permille, prices }
}

#[tokio::test]
async fn a_share_of_the_requests_is_answered_by_the_model_on_trial_and_both_are_compared() {
    let (now, next) = (Mock::start(&[MODEL]).await, Mock::start(&[NEXT]).await);
    let gateway = Gateway::start_with(&[&now, &next], |settings| {
        settings.canaries.insert(MODEL.to_owned(), canary(NEXT, 500));
    })
    .await;
    let (now, next) = (now.answer_alone(), next.answer_alone());
    let mut client = gateway.client().await;
    for _ in 0..120 {
        client.post(CHAT, &chat("")).await;
        assert_eq!(client.whole().await.1, ANSWER);
    }
    let (baseline, tried) = (now.asked(), next.asked());
    assert_eq!(baseline + tried, 120);
    // Half of them, give or take five of its deviations.
    assert!((33..=87).contains(&tried), "{tried} of 120");
    // Four tokens, at twice the price.
    gateway
        .until_words(r#"overdraft_canary_baseline{canary="m",figure="cost_microusd"} 4.0"#)
        .await;
    let (_, page) = client.get("/metrics").await;
    let cost =
        r#"overdraft_canary_difference{canary="m",figure="cost_microusd",bound="estimate"} 4.0"#;
    assert!(page.contains(cost), "{page}");
    let latency = r#"overdraft_canary_difference{canary="m",figure="latency_seconds",bound="low"}"#;
    assert!(page.contains(latency), "{page}");
    let counted = format!(
        r#"overdraft_canary_requests_total{{canary="m",arm="canary",outcome="answered"}} {tried}"#
    );
    assert!(page.contains(&counted), "{page}");
    assert!(!page.contains(r#"figure="loss""#), "nobody compared answers");
}

#[tokio::test]
async fn the_model_on_trial_is_asked_under_its_own_name() {
    let (mut now, mut next) = (Mock::start(&[MODEL]).await, Mock::start(&[NEXT]).await);
    let gateway = Gateway::start_with(&[&now, &next], |settings| {
        settings.canaries.insert(MODEL.to_owned(), canary(NEXT, 1_000));
    })
    .await;
    let mut client = gateway.chat(r#","max_tokens":64"#).await;
    let call = next.call().await;
    let asked = call.json();
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&NEXT.into(), &64.into()));
    call.answer(500, "{}").await;
    // Nobody else serves it: it is asked once more.
    next.call().await.answer(500, "{}").await;
    assert_ne!(client.whole().await.0.status, 200);
    gateway
        .until_words(
            r#"overdraft_canary_requests_total{canary="m",arm="canary",outcome="failed"} 1"#,
        )
        .await;
    // Who asks for it by its own name is part of no comparison.
    let mut client = gateway.client().await;
    client.post(CHAT, &chat("").replace(r#""m""#, r#""next""#)).await;
    next.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    assert!(now.is_idle());
    let page = client.get("/metrics").await.1;
    assert!(!page.contains(r#"outcome="answered""#), "{page}");
}

#[tokio::test]
async fn an_answer_of_a_model_that_stands_in_costs_what_that_one_does_in_a_comparison() {
    const OTHER: &str = "other";
    let (now, other) = (Mock::start(&[MODEL]).await, Mock::start(&[OTHER]).await);
    // No worker serves what is tried.
    let gateway = Gateway::start_with(&[&now, &other], |settings| {
        settings.canaries.insert(MODEL.to_owned(), canary(NEXT, 500));
        let own = ModelSettings { fallback: vec![OTHER.to_owned()], ..ModelSettings::default() };
        settings.routing.models.insert(NEXT.to_owned(), own);
        settings.prices.models = [(OTHER.to_owned(), prices(5_000_000))].into();
    })
    .await;
    let (_now, other) = (now.answer_alone(), other.answer_alone());
    let mut client = gateway.client().await;
    for _ in 0..120 {
        client.post(CHAT, &chat("")).await;
        assert_eq!(client.whole().await.1, ANSWER);
    }
    assert!((33..=87).contains(&other.asked()), "{} of 120", other.asked());
    // Four tokens, at five times the price.
    let cost =
        r#"overdraft_canary_difference{canary="m",figure="cost_microusd",bound="estimate"} 16.0"#;
    gateway.until_words(cost).await;
}

#[tokio::test]
async fn a_cascade_can_be_on_trial_and_its_losses_count() {
    use crate::cascade::{SMALL, TOKENS, ended, give_draft, said, tokenizing};
    let (target, mut draft) = (tokenizing(MODEL, TOKENS).await, tokenizing(SMALL, TOKENS).await);
    let cascade = |threshold| {
        let mut cascade = CascadeSettings::new(SMALL, MODEL);
        cascade.threshold = Some(threshold);
        (cascade.shadow.start, cascade.shadow.learning) = (Ratio::NONE, Ratio::NONE);
        // Nor may a machine that is busy, and so a draft that comes late, switch it off.
        cascade.slowdown = None;
        // A draft that costs nothing pays whether or not any of its answers is given.
        cascade.prices = Some([prices(0), prices(1_000_000)]);
        cascade
    };
    let gateway = Gateway::start_with(&[&target, &draft], |settings| {
        settings.cascades.insert("careful".to_owned(), cascade(Ratio::WHOLE));
        settings.cascades.insert("bold".to_owned(), cascade(Ratio::NONE));
        settings.canaries.insert("careful".to_owned(), canary("bold", 500));
    })
    .await;
    let _target = target.answer_alone();
    let mut client = gateway.client().await;
    let mut served = [0, 0];
    for _ in 0..120 {
        let asked = chat(r#","max_tokens":64"#).replace(r#""m""#, r#""careful""#);
        client.post(CHAT, &asked).await;
        give_draft(&mut draft, &(said("hello", 11) + &ended(2))).await;
        let (head, _) = client.whole().await;
        let by = head.header("x-overdraft-served-by").unwrap();
        served[usize::from(by == "draft")] += 1;
    }
    assert!(served.iter().all(|count| (33..=87).contains(count)), "{served:?}");
    // Where the draft is refused the target's own four tokens are paid.
    gateway
        .until_words(r#"overdraft_canary_baseline{canary="careful",figure="cost_microusd"} 4.0"#)
        .await;
    let (_, page) = client.get("/metrics").await;
    for (figure, value) in [("cost_microusd", "-4.0"), ("loss", "0.0")] {
        let line = format!(
            r#"overdraft_canary_difference{{canary="careful",figure="{figure}",bound="estimate"}} {value}"#
        );
        assert!(page.contains(&line), "{line}\n{page}");
    }
}

//! Models that stand in for one that nobody can serve, and what the books say of their answers.

use std::sync::Arc;

use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::{CascadeSettings, GatewaySettings, ModelSettings};
use serde_json::Value;

use crate::client::End;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, finish, in_time, token};
use crate::mock::{Alone, Mock};

const LARGE: &str = "large";
const STAND_IN: &str = "stand-in";

/// A gateway before a model that fails and one that stands in for it.
struct Pair {
    gateway: Gateway,
    large: Arc<Alone>,
    stand_in: Mock,
}

impl Pair {
    async fn start(adjust: impl FnOnce(&mut GatewaySettings)) -> Self {
        let (large, stand_in) = (Mock::start(&[LARGE]).await, Mock::start(&[STAND_IN]).await);
        let gateway = Gateway::start_with(&[&large, &stand_in], |settings| {
            let fallback = vec![STAND_IN.to_owned()];
            let own = ModelSettings { fallback, ..ModelSettings::default() };
            settings.routing.models.insert(LARGE.to_owned(), own);
            adjust(settings);
        })
        .await;
        let large = large.answer_alone();
        large.turn_to(500);
        Self { gateway, large, stand_in }
    }
}

/// The rows of the log of requests, the latest first, once there are so many.
async fn rows(gateway: &Gateway, count: usize) -> Vec<Value> {
    let mut client = gateway.client().await;
    let asked = async {
        loop {
            let (_, listed) = client.get("/admin/views/requests").await;
            let listed: Value = serde_json::from_str(&listed).unwrap();
            let rows = listed["rows"].as_array().cloned().unwrap_or_default();
            if rows.len() == count {
                return rows;
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(asked).await
}

/// The lines of a metric that begin so.
async fn lines(gateway: &Gateway, start: &str) -> Vec<String> {
    let page = gateway.metrics().await;
    page.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

/// So many dollars for a million tokens of any kind.
fn flat(dollars: u64) -> Prices {
    let price = Price::new(dollars * 1_000_000);
    Prices { prompt: price, cached: price, completion: price }
}

fn asked(more: &str) -> String {
    format!(r#"{{"model":"{LARGE}","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)
}

#[tokio::test]
async fn an_answer_of_a_model_that_stands_in_is_no_failure_streamed_or_whole() {
    let mut pair = Pair::start(|_| {}).await;
    let mut client = pair.gateway.client().await;
    client.post(CHAT, &asked("")).await;
    pair.stand_in.call().await.answer(200, ANSWER).await;
    let (head, _) = client.whole().await;
    assert_eq!((head.status, head.header("x-overdraft-served-by")), (200, Some(STAND_IN)));
    assert!(0 < pair.large.asked());
    let row = &rows(&pair.gateway, 1).await[0];
    assert_eq!((row["end"].as_str(), row["served_by"].as_str()), (Some("--"), Some("fallback")));

    client.post(CHAT, &asked(r#","stream":true"#)).await;
    let mut call = pair.stand_in.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("a"), finish("stop"))).await;
    call.end().await;
    client.head().await;
    assert_eq!(client.rest().await.1, End::Clean);
    assert_eq!(rows(&pair.gateway, 2).await[0]["end"], "--");
    let ended = lines(&pair.gateway, "overdraft_request_ends_total{end=\"S").await;
    assert!(ended.iter().all(|line| line.ends_with(" 0")), "{ended:?}");
}

#[tokio::test]
async fn where_the_model_that_stands_in_fails_as_well_the_request_has_failed() {
    let Pair { gateway, stand_in, .. } = Pair::start(|_| {}).await;
    let stand_in = stand_in.answer_alone();
    stand_in.turn_to(500);
    let mut client = gateway.client().await;
    client.post(CHAT, &asked("")).await;
    assert_eq!(client.whole().await.0.status, 500);
    assert!(0 < stand_in.asked());
    assert_eq!(rows(&gateway, 1).await[0]["end"], "SH");
}

#[tokio::test]
async fn an_answer_of_a_model_that_stands_in_costs_what_that_one_does() {
    let mut pair = Pair::start(|settings| {
        let prices = [(LARGE, flat(10)), (STAND_IN, flat(1))];
        settings.prices.models = prices.map(|(name, price)| (name.to_owned(), price)).into();
    })
    .await;
    let mut client = pair.gateway.client().await;
    client.post(CHAT, &asked("")).await;
    pair.stand_in.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let row = &rows(&pair.gateway, 1).await[0];
    // Three tokens of prompt and one of the answer.
    let costs = (&row["cost_microusd"], &row["cost_target_only_microusd"]);
    assert_eq!(costs, (&4.into(), &4.into()), "{row}");
    assert_eq!(row["model"], LARGE);
}

#[tokio::test]
async fn a_cascade_spares_nothing_where_another_model_stands_in_for_its_target() {
    let mut pair = Pair::start(|settings| {
        let mut cascade = CascadeSettings::new("small", LARGE);
        cascade.prices = Some([flat(1), flat(10)]);
        settings.cascades.insert(LARGE.to_owned(), cascade);
        settings.prices.models = [(STAND_IN.to_owned(), flat(1))].into();
    })
    .await;
    let mut client = pair.gateway.client().await;
    client.post_with(CHAT, "x-overdraft-cascade: off\r\n", &asked("")).await;
    pair.stand_in.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let labels = r#"{cascade="large",tenant="other",served_by="fallback"}"#;
    for (name, amount) in [("cost_microusd_total", 4), ("saving_microusd", 0)] {
        pair.gateway.until_line(&format!("overdraft_cascade_{name}{labels} {amount}")).await;
    }
}

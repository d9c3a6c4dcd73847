//! What requests to a cascade cost, wherever that is told.

use overdraft_core::cost::{Price, Prices};
use overdraft_units::Ratio;
use serde_json::Value;

use super::{Pair, ended, opening, said};
use crate::harness::ANSWER;

#[tokio::test]
async fn a_refused_draft_is_in_the_cost_of_a_whole_answer_wherever_that_is_told() {
    let mut pair = Pair::start(1, |cascade| {
        let [draft, target] = [1_000_000, 10_000_000].map(Price::new);
        let flat = |price| Prices { prompt: price, cached: price, completion: price };
        cascade.prices = Some([flat(draft), flat(target)]);
        cascade.threshold = Some(Ratio::WHOLE);
    })
    .await;
    let mut client = pair.chat("").await;
    let mut call = pair.draft.call().await;
    call.stream().await;
    call.chunk(&(opening() + &said("no", 11) + &ended(2))).await;
    call.end().await;
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

//! The target judges which of two different answers is better.

use overdraft_core::cascade::Mode;
use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::Labels;
use overdraft_units::Ratio;
use serde_json::{Value, json};

use super::{Pair, ended, give_draft, said};
use crate::harness::{ANSWER, MODEL};

/// A pair of which every answer is compared, and judged where they differ.
async fn judged() -> Pair {
    Pair::start(1, |it| {
        (it.mode, it.threshold, it.labels) = (Mode::Shadow, None, Labels::Judge);
        (it.shadow.start, it.shadow.floor) = (Ratio::WHOLE, Ratio::WHOLE);
        let price = Price::new(1_000_000);
        let prices = Prices { prompt: price, cached: price, completion: price };
        it.prices = Some([prices, prices]);
    })
    .await
}

impl Pair {
    /// A request that the target answers with `hello` and the draft with this.
    async fn differ(&mut self, drafted: &str) {
        let mut client = self.chat("").await;
        self.target().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.1, ANSWER);
        give_draft(&mut self.draft, &(said(drafted, 11) + &ended(2))).await;
    }
}

/// A judge's answer.
fn verdict(said: &str) -> String {
    json!({"id": "j", "choices": [{"index": 0, "message": {"role": "assistant", "content": said},
        "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92}})
    .to_string()
}

/// On which side a judge was shown an answer.
fn side(asked: &Value, answer: &str) -> &'static str {
    let shown = asked["messages"][0]["content"].as_str().unwrap();
    let sides = ["A", "B"].into_iter();
    let mut found = sides.filter(|side| shown.contains(&format!("answer {side}\n{answer}\n")));
    found.next().unwrap_or_else(|| panic!("{answer} is in {shown}"))
}

#[tokio::test]
async fn a_judge_says_which_of_two_answers_is_better() {
    let mut pair = judged().await;
    for (better, label) in [("Goodbye", "better"), ("hello", "worse")] {
        pair.differ("Goodbye").await;
        let call = pair.target().await;
        let asked = call.json();
        assert_eq!(asked["model"], MODEL);
        assert_eq!((&asked["temperature"], &asked["stream"]), (&json!(0), &json!(false)));
        let said = side(&asked, better);
        call.answer(200, &verdict(said)).await;
        let line = format!(r#"overdraft_cascade_shadows_total{{cascade="m",result="{label}"}} 1"#);
        pair.until(&line).await;
    }
    pair.until(r#"overdraft_cascade_labels{cascade="m"} 2"#).await;
    // Twice a draft of two and two tokens, and a verdict of ninety and two.
    let paid = r#"cost_microusd_total{cascade="m",tenant="other",served_by="shadow"} 192"#;
    pair.until(paid).await;
}

#[tokio::test]
async fn what_is_no_verdict_teaches_nothing_and_is_counted() {
    let mut pair = judged().await;
    pair.differ("Goodbye").await;
    pair.target().await.answer(200, &verdict("Both have their merits.")).await;
    pair.until(r#"overdraft_cascade_shadows_total{cascade="m",result="no_verdict"} 1"#).await;
    pair.differ("Goodbye").await;
    pair.target().await.answer(500, "{}").await;
    pair.until(r#"overdraft_cascade_shadows_total{cascade="m",result="no_judge"} 1"#).await;
    // Nobody is asked about answers that are the same.
    pair.differ("Hello").await;
    pair.until(r#"overdraft_cascade_shadows_total{cascade="m",result="as_good"} 1"#).await;
    assert!(pair.targets[0].is_idle());
    pair.until(r#"overdraft_cascade_labels{cascade="m"} 1"#).await;
}

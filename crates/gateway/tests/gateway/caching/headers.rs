//! Headers that workers are sent decide on an answer as the request's fields do.

use std::sync::Arc;

use overdraft_gateway::{HeaderPattern, HeaderSettings};

use super::{GREEDY, PLAIN, ask, asked, on, x_cache};
use crate::harness::{CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;

const LORA_A: &str = "x-adapter: lora-a\r\n";
const LORA_B: &str = "x-adapter: lora-b\r\n";

#[tokio::test]
async fn who_sends_a_worker_another_header_gets_another_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        let to_workers = vec![HeaderPattern::parse("x-adapter").unwrap()];
        settings.headers = Some(Arc::new(HeaderSettings { to_workers, to_clients: None }));
    })
    .await;
    for headers in [LORA_A, LORA_B, ""] {
        assert_eq!(asked(&gateway, &mut mock, (headers, GREEDY), PLAIN).await, "MISS");
    }
    // A header that no worker is sent changes nothing.
    for headers in [LORA_A, LORA_B, "", "x-other: 1\r\n"] {
        assert_eq!(x_cache(&ask(&gateway, headers, GREEDY).await.0), "HIT", "{headers}");
    }
    // Nor do those who ask at the same time share one question.
    let both = format!("{GREEDY},\"top_p\":1");
    let (mut one, mut other) = (gateway.client().await, gateway.client().await);
    one.post_with(CHAT, LORA_A, &chat(&both)).await;
    other.post_with(CHAT, LORA_B, &chat(&both)).await;
    let calls = [mock.call().await, mock.call().await];
    let mut adapters = calls.map(|call| call.header("x-adapter").unwrap_or("-").to_owned());
    adapters.sort_unstable();
    assert_eq!(adapters, ["lora-a", "lora-b"]);
}

//! Guessing ahead as operators see it: metrics, health, and the rule that may be changed.

use serde_json::{Value, json};

use crate::support::Running;

async fn repeat(worker: &Running) {
    let body = json!({ "model": "echo", "prompt": "one two. one two. ", "max_tokens": 40, "temperature": 0 });
    let reply = worker.complete(&body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// The value of the series that begins so.
fn series(text: &str, begins: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(begins));
    let value = line
        .and_then(|line| line.rsplit(' ').next())
        .unwrap_or_else(|| panic!("no {begins}: {text}"));
    value.parse().unwrap()
}

#[tokio::test]
async fn what_guessing_brings_is_told_under_vllms_names() {
    let worker = Running::guessing("fixed:3").await;
    repeat(&worker).await;
    let text = worker.get("/metrics").await.body;
    let labels = "{model_name=\"echo\",engine=\"0\"}";
    let count = |name: &str| series(&text, &format!("vllm:spec_decode_num_{name}_total{labels}"));
    let (drafts, drafted, right) =
        (count("drafts"), count("draft_tokens"), count("accepted_tokens"));
    assert!(0.0 < drafts && drafts <= drafted && right <= drafted, "{drafts} {drafted} {right}");
    let at = |place: usize| {
        let label = format!("position=\"{place}\"");
        let name = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        let line = lines.find(|line| line.contains(&label)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let places: f64 = (0..8).map(at).sum();
    assert!((places - right).abs() < 0.5, "{places} by place, {right} in all");
    assert!(at(0) >= at(1) && at(1) >= at(2));
    let rate = series(&text, "vllm_spec_acceptance_rate{model=\"echo\"}");
    assert!((rate - right / drafted).abs() < 1e-9);
    assert!(1.5 < series(&text, &format!("overdraft_speculation_tokens_per_step{labels}")));

    let health: Value = serde_json::from_str(&worker.get("/health").await.body).unwrap();
    assert_eq!(health["speculation"]["policy"], "fixed");
    let told = |value: &Value| value["mean_acceptance"].as_f64().unwrap();
    assert!((told(&health) - rate).abs() < 1e-9, "one definition: {health}");
    assert!((told(&health["speculation"]) - rate).abs() < 1e-9, "{health}");
    assert_eq!(health["speculation"]["depth"], 3, "the depth in force");
}

#[tokio::test]
async fn usage_tells_how_many_drafted_tokens_were_accepted_where_anybody_guesses() {
    let body = json!({ "model": "echo", "prompt": "one two. one two. ", "max_tokens": 40, "temperature": 0 });
    let worker = Running::guessing("fixed:3").await;
    let usage = worker.complete(&body).await.json()["usage"].clone();
    let accepted = usage["speculative_tokens_accepted"].as_u64().unwrap();
    assert_eq!(accepted, worker.stats().speculation.accepted_tokens, "{usage}");
    assert!(0 < accepted && accepted < 40, "{usage}");
    let plain = Running::echo().await;
    let usage = plain.complete(&body).await.json()["usage"].clone();
    assert_eq!(usage.get("speculative_tokens_accepted"), None, "{usage}");
}

#[tokio::test]
async fn b4_the_acceptance_rate_is_absent_while_nothing_is_drafted() {
    let worker = Running::guessing("off").await;
    repeat(&worker).await;
    let text = worker.get("/metrics").await.body;
    assert!(!text.contains("\nvllm_spec_acceptance_rate{"), "{text}");
    let health = worker.get("/health").await.json();
    assert_eq!(health["mean_acceptance"], Value::Null, "{health}");
    assert_eq!(health["speculation"]["depth"], 0);
}

#[tokio::test]
async fn the_rule_is_changed_from_the_next_step_on() {
    let worker = Running::guessing("off").await;
    repeat(&worker).await;
    assert_eq!(worker.stats().speculation.drafts, 0);
    let order = json!({ "policy": "fixed:2", "max_depth": 3 });
    assert_eq!(worker.post("/admin/speculation", &order).await.status, 200);
    repeat(&worker).await;
    let state: Value = serde_json::from_str(&worker.get("/admin/speculation").await.body).unwrap();
    assert_eq!((&state["policy"], &state["max_depth"]), (&json!("fixed"), &json!(3)));
    assert!(0 < state["drafts"].as_u64().unwrap());
}

#[tokio::test]
async fn an_order_that_cannot_be_obeyed_changes_nothing() {
    let worker = Running::guessing("fixed:2").await;
    for (order, says) in [
        (json!({ "policy": "magic" }), "`magic` is not a speculation policy"),
        (json!({ "max_depth": 99 }), "`99` is not a valid depth"),
        (json!({ "max_depth": "deep" }), "is not a depth"),
        (json!({ "policy": "off", "depth": 2 }), "`depth` is not known"),
        (json!({}), "nothing is asked for"),
    ] {
        let reply = worker.post("/admin/speculation", &order).await;
        assert_eq!(reply.status, 400, "{order}");
        assert!(reply.body.contains(says), "{}", reply.body);
    }
    repeat(&worker).await;
    assert_eq!(worker.stats().speculation.policy, "fixed");
    let plain = Running::echo().await;
    let reply = plain.post("/admin/speculation", &json!({ "policy": "off" })).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("has no drafter"), "{}", reply.body);
    assert!(!plain.get("/metrics").await.body.contains("spec_decode"));
}

#[tokio::test]
async fn orders_are_for_whoever_has_the_token() {
    let worker = Running::guessing_with("off", |serving| {
        serving.admin_token = Some("secret".to_owned());
    })
    .await;
    let order = json!({ "policy": "fixed:2" });
    assert_eq!(worker.post("/admin/speculation", &order).await.status, 403);
    for (lines, status) in [
        ("authorization: Bearer wrong\r\n", 403),
        ("x-overdraft-admin: secret\r\n", 200),
        ("authorization: Bearer secret\r\n", 200),
    ] {
        let reply = worker.post_with(lines, "/admin/speculation", &order).await;
        assert_eq!(reply.status, status, "{lines}: {}", reply.body);
    }
    assert_eq!(worker.get("/admin/speculation").await.status, 200, "what /health tells as well");
}

#[tokio::test]
async fn without_a_token_orders_come_from_this_machine_and_for_nobody_else() {
    let worker = Running::guessing("off").await;
    let order = json!({ "policy": "fixed:2" });
    let forwarded = "x-forwarded-for: 203.0.113.9\r\n";
    let reply = worker.post_with(forwarded, "/admin/speculation", &order).await;
    assert_eq!(reply.status, 403);
    let expected = "`--admin-token` as `authorization: Bearer …`";
    assert!(reply.body.contains(expected), "{}", reply.body);
    assert_eq!(worker.post("/admin/speculation", &order).await.status, 200);
}

#[tokio::test]
async fn a_request_says_who_may_guess_for_it() {
    let worker = Running::guessing("fixed:3").await;
    let drafted_by = || worker.stats().speculation.draft_tokens_by;
    let ask = async |who: &str| {
        let body = json!({ "model": "echo", "prompt": "one two. one two. ", "max_tokens": 30,
            "temperature": 0, "speculation": who });
        worker.complete(&body).await
    };
    let before = drafted_by();
    assert_eq!(ask("off").await.status, 200);
    assert_eq!(drafted_by(), before);
    assert_eq!(ask("ngram").await.status, 200);
    let [lookups, model] = drafted_by();
    assert!(before[0] < lookups && before[1] == model, "{lookups} {model}");
    assert_eq!(ask("draft_model").await.status, 200);
    assert!(drafted_by()[0] == lookups && model < drafted_by()[1], "{:?}", drafted_by());
    let refused = ask("magic").await;
    assert_eq!((refused.status, refused.fault().1.as_str()), (400, "speculation"));
}

#[tokio::test]
async fn several_completions_of_one_prompt_are_not_guessed_for() {
    let worker = Running::guessing("fixed:3").await;
    let before = worker.stats().speculation.drafts;
    let body = json!({ "model": "echo", "prompt": "one two. one two. ", "max_tokens": 20, "n": 3 });
    assert_eq!(worker.complete(&body).await.status, 200);
    assert_eq!(worker.stats().speculation.drafts, before);
}

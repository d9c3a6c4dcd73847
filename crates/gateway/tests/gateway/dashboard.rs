//! The dashboard's page and views: what they tell of requests, and to whom.

use overdraft_gateway::{AdminSettings, DashboardSettings};

use crate::client::{Client, Head};
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;

/// Asks as a browser on this machine does.
async fn get(gateway: &Gateway, path: &str, headers: &str) -> (Head, String) {
    let mut client: Client = gateway.client().await;
    let host = gateway.address;
    client.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n")).await;
    client.whole().await
}

async fn view(gateway: &Gateway, name: &str) -> serde_json::Value {
    let (head, body) = get(gateway, &format!("/admin/views/{name}"), "").await;
    assert_eq!(head.status, 200, "{name}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_request_is_logged_with_its_decision_and_without_its_text() {
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start(&[&one, &other]).await;
    let body = chat("").replace("hi", "a-secret-word");
    let mut client = gateway.client().await;
    client.post_with(CHAT, "x-request-id: r-1\r\n", &body).await;
    let call = tokio::select! {
        call = one.call() => call,
        call = other.call() => call,
    };
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let listed = view(&gateway, "requests").await;
    let row = &listed["rows"][0];
    assert_eq!((row["id"].as_str(), row["end"].as_str()), (Some("r-1"), Some("--")));
    assert_eq!((row["model"].as_str(), row["attempts"].as_u64()), (Some(MODEL), Some(1)));
    let (head, text) = get(&gateway, "/admin/views/requests/r-1", "").await;
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert!(!text.contains("a-secret-word"), "{text}");
    let detail: serde_json::Value = serde_json::from_str(&text).unwrap();
    let candidates = detail["decisions"][0]["candidates"].as_array().unwrap();
    let reasons: Vec<_> = candidates.iter().filter_map(|one| one["reason"].as_str()).collect();
    assert_eq!(reasons, ["chosen", "outscored"]);
    assert_eq!(candidates[0]["worker"], row["worker"]);
}

#[tokio::test]
async fn a_request_that_was_tried_twice_tells_who_failed_it() {
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start(&[&one, &other]).await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, "x-request-id: r-3\r\n", &chat("")).await;
    for status in [500, 200] {
        let call = tokio::select! {
            call = one.call() => call,
            call = other.call() => call,
        };
        call.answer(status, ANSWER).await;
    }
    assert_eq!(client.whole().await.0.status, 200);
    let detail = view(&gateway, "requests/r-3").await;
    let decisions = detail["decisions"].as_array().unwrap();
    assert_eq!((decisions.len(), detail["attempts"].as_u64()), (2, Some(2)));
    assert!(decisions[0]["failed"].is_string() && decisions[1]["failed"].is_null());
    let [failed, answered] = [0, 1].map(|index| decisions[index]["worker"].as_str().unwrap());
    assert_ne!(failed, answered);
    for (name, count) in [(failed, 1), (answered, 0)] {
        let listed = view(&gateway, &format!("requests?failed_at={name}")).await;
        assert_eq!(listed["rows"].as_array().unwrap().len(), count, "{name}");
    }
    let fleet = view(&gateway, "fleet").await;
    let worker = |name: &str| {
        let mut rows = fleet["workers"].as_array().unwrap().iter();
        rows.find(|row| row["worker"] == name).unwrap().clone()
    };
    assert_eq!(worker(failed)["failed_recently"], 1);
    assert_eq!(worker(answered)["failed_recently"], 0);
}

#[tokio::test]
async fn a_refusal_is_logged_with_its_reason() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = chat("").replace(&format!("\"{MODEL}\""), "\"no-such\"");
    let mut client = gateway.client().await;
    client.post_with(CHAT, "x-request-id: r-2\r\n", &body).await;
    assert_eq!(client.whole().await.0.status, 404);
    let detail = view(&gateway, "requests/r-2").await;
    assert_eq!((detail["status"].as_u64(), detail["end"].as_str()), (Some(404), Some("PR")));
    let (head, _) = get(&gateway, "/admin/views/requests?outcome=rejected&limit=1", "").await;
    assert_eq!(head.status, 200);
    let (head, body) = get(&gateway, "/admin/views/requests?outcom=ok", "").await;
    assert_eq!(head.status, 400, "{body}");
}

#[tokio::test]
async fn a_request_is_found_by_its_model_and_by_the_name_that_the_client_gave() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let own = settings.routing.models.entry(MODEL.to_owned()).or_default();
        own.aliases = vec!["fast".to_owned()];
    })
    .await;
    let body = chat("").replace(&format!("\"{MODEL}\""), "\"fast\"");
    let mut client = gateway.client().await;
    client.post(CHAT, &body).await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    for (name, count) in [("fast", 1), (MODEL, 1), ("slow", 0)] {
        let listed = view(&gateway, &format!("requests?model={name}")).await;
        assert_eq!(listed["rows"].as_array().unwrap().len(), count, "{name}");
    }
    let row = &view(&gateway, "requests").await["rows"][0];
    assert_eq!((row["model"].as_str(), row["model_named"].as_str()), (Some(MODEL), Some("fast")));
}

#[tokio::test]
async fn a_name_of_a_megabyte_is_refused_and_kept_nowhere() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let name = "x".repeat(1_000_000);
    let plain = chat("").replace(&format!("\"{MODEL}\""), &format!("\"{name}\""));
    let long = plain.replacen('{', r#"{"max_tokens":9,"#, 1);
    let form =
        format!("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{name}\r\n--b--\r\n");
    for (path, kind, body) in [
        (CHAT, "application/json", &plain),
        ("/v1/embeddings", "application/json", &plain),
        ("/v1/messages", "application/json", &long),
        ("/v1/responses", "application/json", &format!(r#"{{"model":"{name}","input":"hi"}}"#)),
        ("/v1/audio/transcriptions", "multipart/form-data; boundary=b", &form),
    ] {
        let length = body.len();
        let mut client = gateway.client().await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n");
        client.send(format!("{head}content-length: {length}\r\n\r\n{body}")).await;
        let (head, body) = client.whole().await;
        assert_eq!(head.status, 400, "{path}");
        assert!(
            body.contains("1000000 bytes") && body.len() < 1_000,
            "{path}: {} bytes",
            body.len()
        );
        let param =
            serde_json::from_str::<serde_json::Value>(&body).unwrap()["error"]["param"].clone();
        assert!(path == "/v1/messages" || param == "model", "{path}: {param}");
    }
    let (_, listed) = get(&gateway, "/admin/views/requests", "").await;
    assert!(listed.len() < 20_000, "{} bytes", listed.len());
    // The longest name that may be asked for is no model here.
    let body = plain.replace(&name, &name[..512]);
    let mut client = gateway.client().await;
    client.post(CHAT, &body).await;
    assert_eq!(client.whole().await.0.status, 404);
}

#[tokio::test]
async fn the_log_can_be_read_page_by_page_from_the_oldest() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = chat("").replace(&format!("\"{MODEL}\""), "\"no-such\"");
    for number in 0..3 {
        let mut client = gateway.client().await;
        client.post_with(CHAT, &format!("x-request-id: r-{number}\r\n"), &body).await;
        assert_eq!(client.whole().await.0.status, 404);
    }
    let page = async |query: &str| {
        let page = view(&gateway, &format!("requests?limit=2&{query}")).await;
        let ids: Vec<String> = page["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        (ids.join(" "), page["left_out"].as_u64().unwrap(), page["next"].as_u64().unwrap())
    };
    assert_eq!(page("order=oldest").await, ("r-0 r-1".to_owned(), 1, 2));
    assert_eq!(page("order=oldest&after=2").await, ("r-2".to_owned(), 0, 3));
    assert_eq!(page("order=oldest&after=3").await, (String::new(), 0, 3));
    assert_eq!(page("order=newest").await, ("r-2 r-1".to_owned(), 1, 3));
}

#[tokio::test]
async fn every_view_answers_an_idle_gateway() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let names =
        ["now", "history", "fleet", "requests", "queue", "cache", "cascade", "speculation", "cost"];
    for name in names {
        assert!(view(&gateway, name).await.is_object(), "{name}");
    }
    assert_eq!(view(&gateway, "fleet").await["workers"][0]["state"], "up");
    let (head, _) = get(&gateway, "/admin/views/none", "").await;
    assert_eq!(head.status, 404);
}

#[tokio::test]
async fn views_are_for_operators_and_for_pages_of_this_gateway() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let site = "sec-fetch-site: cross-site\r\n";
    assert_eq!(get(&gateway, "/admin/views/now", site).await.0.status, 403);
    let mut client = gateway.client().await;
    client.send("GET /admin/views/now HTTP/1.1\r\nhost: other.example\r\n\r\n".to_owned()).await;
    assert_eq!(client.whole().await.0.status, 403, "called by another name");

    let token = |settings: &mut overdraft_gateway::GatewaySettings| {
        settings.admin =
            AdminSettings { token: Some("secret".to_owned()), ..AdminSettings::default() };
    };
    let gateway = Gateway::start_with(&[&mock], token).await;
    for path in ["/admin/views/now", "/admin/views/requests", "/admin/events/now"] {
        assert_eq!(get(&gateway, path, "").await.0.status, 403, "{path}");
    }
    let with = "x-overdraft-admin: secret\r\n";
    assert_eq!(get(&gateway, "/admin/views/now", with).await.0.status, 200);
    assert_eq!(get(&gateway, "/dashboard/", "").await.0.status, 200, "the page has no data");
}

#[tokio::test]
async fn the_page_is_served_with_a_strict_policy_and_not_at_all_when_off() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let (head, _) = get(&gateway, "/dashboard", "").await;
    assert_eq!((head.status, head.header("location")), (307, Some("dashboard/")));
    let (head, page) = get(&gateway, "/dashboard/", "").await;
    assert!(page.contains("dashboard.js"));
    assert!(head.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let tag = head.header("etag").unwrap();
    let mut client = gateway.client().await;
    let known = format!("host: gateway\r\nif-none-match: {tag}\r\n\r\n");
    client.send(format!("GET /dashboard/ HTTP/1.1\r\n{known}")).await;
    assert_eq!(client.head().await.status, 304);
    let (head, _) = get(&gateway, "/dashboard/../Cargo.toml", "").await;
    assert_eq!(head.status, 404);

    let off = |settings: &mut overdraft_gateway::GatewaySettings| {
        settings.dashboard = DashboardSettings { is_on: false, ..DashboardSettings::default() };
    };
    let gateway = Gateway::start_with(&[&mock], off).await;
    assert_eq!(get(&gateway, "/dashboard/", "").await.0.status, 404);
    assert_eq!(view(&gateway, "requests").await["kept_max"], 0);
}

#[tokio::test]
async fn an_answer_that_three_share_costs_once() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.cache.mode = overdraft_gateway::CacheMode::On;
        let price = overdraft_core::cost::Price::new(1_000_000);
        let prices =
            overdraft_core::cost::Prices { prompt: price, cached: price, completion: price };
        settings.prices.models = [(MODEL.to_owned(), prices)].into();
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(gateway.chat(r#","temperature":0"#).await);
    }
    let call = mock.call().await;
    crate::caching::until_waiting(&gateway, 3).await;
    call.answer(200, ANSWER).await;
    for client in &mut clients {
        assert_eq!(client.whole().await.0.status, 200);
    }
    // Three tokens of prompt and one of the answer.
    let listed = view(&gateway, "requests").await;
    let costs = listed["rows"].as_array().expect("rows").iter();
    let mut costs: Vec<_> = costs.map(|row| row["cost_microusd"].as_u64()).collect();
    costs.sort_unstable();
    assert_eq!(costs, [Some(0), Some(0), Some(4)]);
}

#[tokio::test]
async fn a_request_of_a_priced_model_costs_its_tokens_and_its_pool_its_hours() {
    let mut mock = Mock::start(&[MODEL]).await;
    let price = |dollars: u64| overdraft_core::cost::Price::new(dollars * 1_000_000);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let prices = overdraft_core::cost::Prices {
            prompt: price(1),
            cached: price(0),
            completion: price(5),
        };
        settings.prices.models = [(MODEL.to_owned(), prices)].into();
        settings.prices.pools = [(overdraft_gateway::Pool::Target, 3_600_000_000)].into();
    })
    .await;
    let mut client = gateway.chat("").await;
    mock.call().await.answer(200, ANSWER).await;
    client.whole().await;
    // Three tokens of prompt and one of the answer.
    let listed = view(&gateway, "requests").await;
    assert_eq!(listed["rows"][0]["cost_microusd"], 8);
    let cost = view(&gateway, "cost").await;
    assert_eq!(
        (&cost["has_prices"], &cost["today"][0]["cost_microusd"]),
        (&true.into(), &8.into())
    );
    let page = gateway.metrics().await;
    let spent = page.lines().find(|line| line.starts_with("overdraft_cost_dollars_total{"));
    assert!(spent.is_some_and(|line| line.contains("model=\"m\",by=\"target\"")), "{spent:?}");
    let ticked = async {
        loop {
            let cost = view(&gateway, "cost").await;
            // A dollar a second, all of it idle.
            if cost["pools"][0]["dollars"].as_f64().is_some_and(|dollars| 0.5 < dollars) {
                return cost;
            }
            tokio::task::yield_now().await;
        }
    };
    let cost = crate::harness::in_time(ticked).await;
    let pool = &cost["pools"][0];
    assert_eq!((pool["pool"].as_str(), pool["workers"].as_u64()), (Some("target"), Some(1)));
    assert_eq!(
        (&pool["idle_hours"], &pool["dollars_per_hour"]),
        (&pool["worker_hours"], &3_600.0.into())
    );
}

#[tokio::test]
async fn an_embedding_costs_its_prompt_though_it_generates_nothing() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let price = overdraft_core::cost::Price::new(500_000);
        let prices = overdraft_core::cost::Prices { prompt: price, ..Default::default() };
        settings.prices.models = [(MODEL.to_owned(), prices)].into();
    })
    .await;
    let mut client = gateway.client().await;
    client.post("/v1/embeddings", &format!(r#"{{"model":"{MODEL}","input":"hi"}}"#)).await;
    let answer = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1000000,"total_tokens":1000000}}"#;
    mock.call().await.answer(200, answer).await;
    assert_eq!(client.whole().await.0.status, 200);
    let listed = view(&gateway, "requests").await;
    assert_eq!(listed["rows"][0]["cost_microusd"], 500_000, "{listed}");
    let cost = view(&gateway, "cost").await;
    assert_eq!(cost["today"][0]["cost_microusd"], 500_000, "{cost}");
}

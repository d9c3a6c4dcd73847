//! Reloads: what stays as it is when settings change, and what leaves with them.

use std::num::NonZeroU32;

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, RecordType};
use overdraft_gateway::{DnsSettings, Source, Token, WarmUp, WorkerSettings};

use crate::client::End;
use crate::harness::{ANSWER, DONE, Gateway, MODEL, finish, in_time, token};
use crate::mock::Mock;
use crate::name_server::{Reply, Server};
use crate::routing::{until, until_only, workers};
use crate::worker_file::WorkerFile;

/// Asks once and is answered; the credentials that the worker was shown.
async fn asked(gateway: &Gateway, mock: &mut Mock) -> Option<String> {
    let mut client = gateway.chat("").await;
    let call = tokio::select! {
        call = mock.call() => call,
        (head, body) = client.whole() => panic!("{}: {body}", head.status),
    };
    assert!(call.head.starts_with("POST /v1/chat/completions "), "{}", call.head);
    let shown = call.header("authorization").map(str::to_owned);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    shown
}

#[tokio::test]
async fn a_worker_whose_settings_change_is_up_all_along_and_not_warmed_up_again() {
    for warm_up in [WarmUp::AfterRepair, WarmUp::Always] {
        let mut mock = Mock::start(&[MODEL, "other"]).await;
        let gateway = Gateway::start_unready(&[&mock], |settings| {
            settings.workers[0].maintenance.warm_up = warm_up;
        })
        .await;
        if warm_up == WarmUp::Always {
            let call = mock.call().await;
            assert!(call.head.starts_with("POST /v1/completions "), "{}", call.head);
            call.answer(200, ANSWER).await;
        }
        gateway.until_up(1).await;
        let mut settings = gateway.settings();
        let traits = &mut settings.workers[0].traits;
        traits.api_key = Some(Token::new("sk-2"));
        traits.serves = vec![MODEL.to_owned()];
        gateway.change(settings);
        in_time(async { while !goes_by_new_settings(&gateway, &mut mock).await {} }).await;
        assert!(mock.is_idle(), "it was warmed up again");
    }
}

/// Whether the worker is shown its new key, and lists no other model: it has been looked at by its new settings.
async fn goes_by_new_settings(gateway: &Gateway, mock: &mut Mock) -> bool {
    let shown = asked(gateway, mock).await;
    let (_, list) = gateway.client().await.get("/v1/models").await;
    shown.as_deref() == Some("Bearer sk-2") && !list.contains("other")
}

#[tokio::test]
async fn what_is_set_of_a_worker_is_unset_with_its_line_and_the_worker_stays() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    client.post("/admin/workers/worker-0/drain", "").await;
    client.whole().await;
    for seats in [Some(7), Some(9), None] {
        let mut settings = gateway.settings();
        settings.workers[0].traits.sequences_max = seats.and_then(NonZeroU32::new);
        settings.workers[0].traits.kv_share = seats == Some(9);
        gateway.change(settings);
        let list = until(&gateway, |list| {
            list["workers"][0]["max_num_seqs"].as_u64() == seats.map(u64::from)
        })
        .await;
        assert_eq!(list["workers"][0]["draining"], true, "the operator's order holds");
    }
    client.post("/admin/workers/worker-0/rejoin", "").await;
    client.whole().await;
    assert_eq!(asked(&gateway, &mut mock).await, None);
}

#[tokio::test]
async fn a_source_whose_settings_change_keeps_its_workers_until_it_has_spoken() {
    let [mut mock, other] = Mock::pair().await;
    let names = Server::start().await;
    names.says(RecordType::A, Reply::Records(1, vec![RData::A(A::new(127, 0, 0, 1))]));
    let mut source = DnsSettings::new("workers.test.", mock.address.port());
    source.server = Some(names.address);
    let gateway = Gateway::start_unready(&[], |settings| {
        settings.discovery = vec![Source::Dns(source.clone())];
    })
    .await;
    gateway.until_up(1).await;
    for kind in [RecordType::A, RecordType::AAAA] {
        names.says(kind, Reply::Refusal(ResponseCode::ServFail));
    }
    let mut settings = gateway.settings();
    source.each.traits.sequences_max = NonZeroU32::new(7);
    settings.discovery = vec![Source::Dns(source)];
    gateway.change(settings.clone());
    let list = in_time(async {
        loop {
            asked(&gateway, &mut mock).await;
            let list = workers(&gateway).await;
            let is_seated = list["workers"][0]["max_num_seqs"] == 7;
            if is_seated && !list["sources"][0]["error"].is_null() {
                return list;
            }
        }
    })
    .await;
    assert_eq!(list["workers"][0]["health"], "up", "{list}");
    // A source that is removed takes its workers along.
    settings.discovery.clear();
    settings.workers = vec![WorkerSettings::new(other.url())];
    gateway.change(settings);
    until_only(&gateway, &other).await;
}

#[tokio::test]
async fn a_drain_ends_with_the_worker_that_was_told_it() {
    let mut mock = Mock::start(&[MODEL]).await;
    let file = WorkerFile::new(&format!("{} name=pod-1\n", mock.url()));
    let gateway =
        Gateway::start_unready(&[], |settings| settings.discovery = vec![file.source()]).await;
    gateway.until_up(1).await;
    let mut client = gateway.client().await;
    client.post("/admin/workers/pod-1/drain", "").await;
    assert!(client.whole().await.1.contains("\"draining\":true"));
    file.write(&format!("{} name=pod-1 pool=draft\n", mock.url()));
    let list = until(&gateway, |list| list["workers"][0]["pool"] == "draft").await;
    assert_eq!(list["workers"][0]["draining"], true, "it is the same worker");
    file.write("[]");
    until(&gateway, |list| list["workers"].as_array().unwrap().is_empty()).await;
    file.write(&format!("{} name=pod-2\n", mock.url()));
    let list = until(&gateway, |list| list["workers"][0]["name"] == "pod-2").await;
    assert_eq!(list["workers"][0]["draining"], false, "nobody has told this one to drain");
    gateway.until_up(1).await;
    asked(&gateway, &mut mock).await;
}

#[tokio::test]
async fn the_last_answer_of_a_worker_that_has_left_brings_no_series_of_it_back() {
    const SERIES: &str = "overdraft_worker_cached_tokens_total{worker=\"worker-0\"";
    let [mut gone, other] = Mock::pair().await;
    let gateway = Gateway::start(&[&gone]).await;
    let usage = r#""usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":1}"#;
    let events = format!("{}data: {{\"choices\":[],{usage}}}\n\n{DONE}", finish("stop"));
    for leaves in [false, true] {
        let mut client = gateway.stream().await;
        let mut call = gone.call().await;
        call.stream().await;
        call.chunk(&token("a")).await;
        client.head().await;
        if leaves {
            let mut settings = gateway.settings();
            settings.workers = vec![WorkerSettings::new(other.url())];
            gateway.change(settings);
            until_only(&gateway, &other).await;
        }
        call.chunk(&events).await;
        call.end().await;
        assert_eq!(client.rest().await.1, End::Clean);
        let page = gateway.metrics().await;
        assert_eq!(page.contains(SERIES), !leaves, "{page}");
    }
}

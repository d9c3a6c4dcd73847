//! Workers that join, leave and are taken away while the gateway runs.

use std::time::Duration;

use overdraft_gateway::{
    Cloud, FileSettings, NoticeSettings, Source, TerminationSettings, WorkerSettings,
};

use super::{until, workers};
use crate::client::End;
use crate::harness::{ANSWER, DONE, Gateway, MODEL, SOON, finish, token};
use crate::mock::Mock;

#[tokio::test]
async fn workers_in_a_watched_file_join_and_leave() {
    let mut mocks = [Mock::start(&[MODEL]).await, Mock::start(&[MODEL]).await];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workers");
    let name = |mock: &Mock| mock.address.to_string();
    std::fs::write(&path, format!("{} name=first\n", mocks[0].url())).unwrap();
    let gateway = Gateway::start_unready(&[], |settings| {
        let mut file = FileSettings::new(path.clone());
        file.interval = SOON;
        settings.discovery = vec![Source::File(file)];
    })
    .await;
    gateway.until_up(1).await;
    // A stream that is under way when its worker leaves goes on.
    let mut streaming = gateway.stream().await;
    let mut call = mocks[0].call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    streaming.head().await;
    let next = folder.path().join("next");
    std::fs::write(&next, format!("{}\n", mocks[1].url())).unwrap();
    std::fs::rename(&next, &path).unwrap();
    let only = name(&mocks[1]);
    until(&gateway, |list| {
        let all = list["workers"].as_array().unwrap();
        all.len() == 1 && all[0]["name"] == only && all[0]["health"] == "up"
    })
    .await;
    call.chunk(&format!("{}{DONE}", finish("stop"))).await;
    call.end().await;
    assert_eq!(streaming.rest().await.1, End::Clean);
    let mut client = gateway.chat("").await;
    mocks[1].call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    // Rubbish in the file changes nothing, and is told.
    std::fs::write(&path, "ftp://nowhere\n").unwrap();
    let list = until(&gateway, |list| !list["sources"][0]["error"].is_null()).await;
    assert_eq!(list["workers"].as_array().unwrap().len(), 1, "{list}");
}

/// Has a stand-in of Google's metadata server say whether its machine is taken away.
fn preempts(metadata: &Mock, word: &str) {
    let page = word.as_bytes().to_vec();
    metadata.behave(|manner| {
        manner.pages.insert("/computeMetadata/v1/instance/preempted", page);
    });
}

/// A gateway before one worker, on a machine that stays for now.
async fn on_a_spot_machine(mock: &Mock, metadata: &Mock) -> Gateway {
    preempts(metadata, "FALSE");
    let gateway = Gateway::start_with(&[mock], |settings| {
        settings.termination = Some(TerminationSettings {
            cloud: Cloud::Gcp,
            notice: NoticeSettings {
                server: Some(metadata.url()),
                interval: Duration::from_millis(10),
                ..NoticeSettings::default()
            },
            workers: Vec::new(),
        });
    })
    .await;
    assert_eq!(workers(&gateway).await["workers"][0]["draining"], false);
    gateway
}

#[tokio::test]
async fn a_spot_notice_drains_the_workers_of_this_machine() {
    let (mock, metadata) = (Mock::start(&[MODEL]).await, Mock::start(&[]).await);
    let gateway = on_a_spot_machine(&mock, &metadata).await;
    preempts(&metadata, "TRUE");
    until(&gateway, |list| list["workers"][0]["draining"] == true).await;
    let (head, _) = {
        let mut client = gateway.chat("").await;
        client.whole().await
    };
    assert_eq!(head.status, 503, "nothing new goes there");
}

#[tokio::test]
async fn a_spot_notice_drains_also_who_joins_after_it_and_each_once() {
    let (mock, metadata) = (Mock::start(&[MODEL]).await, Mock::start(&[]).await);
    let gateway = on_a_spot_machine(&mock, &metadata).await;
    preempts(&metadata, "TRUE");
    until(&gateway, |list| list["workers"][0]["draining"] == true).await;
    let mut operator = gateway.operator().await;
    operator.post("/admin/workers/worker-0/rejoin", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    let late = Mock::start(&[MODEL]).await;
    let mut settings = gateway.settings();
    settings.workers.push(WorkerSettings::new(late.url()));
    gateway.change(settings);
    let list = until(&gateway, |list| list["workers"][1]["draining"] == true).await;
    assert_eq!(list["workers"][0]["draining"], false, "an operator called it off: {list}");
}

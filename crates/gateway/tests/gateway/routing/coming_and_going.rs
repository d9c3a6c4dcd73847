//! Workers that join, leave and are taken away while the gateway runs.

use std::time::Duration;

use overdraft_gateway::{Cloud, NoticeSettings, TerminationSettings, WorkerSettings};

use super::{until, until_only, workers};
use crate::client::End;
use crate::harness::{ANSWER, DONE, Gateway, MODEL, finish, token};
use crate::mock::Mock;
use crate::worker_file::WorkerFile;

#[tokio::test]
async fn workers_in_a_watched_file_join_and_leave() {
    let mut mocks = Mock::pair().await;
    let file = WorkerFile::new(&format!("{} name=first\n", mocks[0].url()));
    let gateway =
        Gateway::start_unready(&[], |settings| settings.discovery = vec![file.source()]).await;
    gateway.until_up(1).await;
    // A stream that is under way when its worker leaves goes on.
    let mut streaming = gateway.stream().await;
    let mut call = mocks[0].call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    streaming.head().await;
    file.write(&format!("{}\n", mocks[1].url()));
    until_only(&gateway, &mocks[1]).await;
    until(&gateway, |list| list["workers"][0]["health"] == "up").await;
    call.chunk(&format!("{}{DONE}", finish("stop"))).await;
    call.end().await;
    assert_eq!(streaming.rest().await.1, End::Clean);
    let mut client = gateway.chat("").await;
    mocks[1].call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    // Rubbish in the file changes nothing, and is told.
    file.write("ftp://nowhere\n");
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

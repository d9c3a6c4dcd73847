//! Workers that are warmed up before traffic, and restarted when their memory has fragmented.

use std::time::Duration;

use overdraft_gateway::{
    GatewaySettings, Maintenance, MemorySource, RestartHook, Token, WarmUp, WebAddress,
    WebhookSettings,
};
use overdraft_units::Micros;

use crate::harness::{ANSWER, Gateway, MODEL, NEVER};
use crate::mock::{Call, Mock};
use crate::routing::until;

/// Often enough that a test need not wait.
const OFTEN: Duration = Duration::from_millis(5);

/// Two devices, of which the first has so much of 1,000 in use.
fn page(used: u32) -> Vec<u8> {
    let free = 1_000 - used;
    format!(
        "DCGM_FI_DEV_FB_USED{{gpu=\"0\"}} {used}\nDCGM_FI_DEV_FB_FREE{{gpu=\"0\"}} {free}\n\
         DCGM_FI_DEV_FB_USED{{gpu=\"1\"}} 9\nDCGM_FI_DEV_FB_FREE{{gpu=\"1\"}} 1\n"
    )
    .into_bytes()
}

/// The first worker's memory is read from its own mock, and `restart` is what mends it.
fn watched(settings: &mut GatewaySettings, mock: &Mock, restart: RestartHook) {
    settings.probe.interval = OFTEN;
    settings.repair.settle = Micros::ZERO;
    settings.repair.lasting = Micros::ZERO;
    settings.workers[0].maintenance = Maintenance {
        memory: Some(MemorySource {
            place: WebAddress::parse(&format!("{}/memory", mock.url())).unwrap(),
            names: overdraft_wire::prometheus::memory::MemoryNames::default(),
            labels: vec![("gpu".to_owned(), "0".to_owned())],
            interval: OFTEN,
        }),
        restart: Some(restart),
        warm_up: WarmUp::AfterRepair,
    };
}

async fn settled(gateway: &Gateway) {
    gateway.until_words("overdraft_worker_memory_drift{worker=\"worker-0\"} 0.0").await;
}

#[tokio::test]
async fn a_worker_answers_once_before_it_takes_traffic() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.probe.interval = OFTEN;
        settings.workers[0].maintenance.warm_up = WarmUp::Always;
        settings.warm_up.prompt = "warm".to_owned();
        settings.warm_up.tokens = 7;
    })
    .await;
    let call = mock.call().await;
    assert!(call.head.starts_with("POST /v1/completions "), "{}", call.head);
    let expected =
        format!(r#"{{"model":"{MODEL}","prompt":"warm","max_tokens":7,"temperature":0}}"#);
    assert_eq!(String::from_utf8_lossy(&call.body), expected);
    gateway.until_down().await;
    // A failure of its own is tried again; it is up after an answer.
    call.answer(500, "{}").await;
    let call = mock.call().await;
    assert_eq!(gateway.client().await.get("/healthz").await.0.status, 503);
    call.answer(200, ANSWER).await;
    gateway.until_up(1).await;
    gateway.until_words("overdraft_warm_ups_total{result=\"answered\"} 1").await;
    gateway.until_words("overdraft_warm_ups_total{result=\"failed\"} 1").await;
}

#[tokio::test]
async fn a_worker_that_fails_every_warm_up_is_judged_by_its_traffic() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.probe.interval = OFTEN;
        settings.workers[0].maintenance.warm_up = WarmUp::Always;
    })
    .await;
    for _ in 0..3 {
        mock.call().await.answer(503, "{}").await;
    }
    gateway.until_up(1).await;
}

/// A gateway before two workers, of which the first is to be restarted, and the call of the hook that does so.
async fn under_repair(mocks: &[Mock; 2], hook: &mut Mock) -> (Gateway, Call) {
    mocks[0].behave(|manner| drop(manner.pages.insert("/memory", page(500))));
    let restart = RestartHook::Webhook(WebhookSettings {
        place: WebAddress::parse(&format!("{}/mend", hook.url())).unwrap(),
        token: Some(Token::new("secret")),
        timeout: NEVER,
    });
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        watched(settings, &mocks[0], restart);
    })
    .await;
    settled(&gateway).await;
    mocks[0].behave(|manner| drop(manner.pages.insert("/memory", page(700))));
    let call = hook.call().await;
    (gateway, call)
}

#[tokio::test]
async fn a_webhook_is_told_whom_to_restart_and_the_worker_is_warm_when_it_returns() {
    let mut mocks = Mock::pair().await;
    let mut hook = Mock::start(&[]).await;
    let (gateway, call) = under_repair(&mocks, &mut hook).await;
    assert!(call.head.starts_with("POST /mend "), "{}", call.head);
    assert_eq!(call.header("authorization"), Some("Bearer secret"));
    let body = String::from_utf8_lossy(&call.body).into_owned();
    assert!(
        body.contains(r#""worker":"worker-0""#) && body.contains(r#""pool":"target""#),
        "{body}"
    );
    // Drained meanwhile: the other one answers.
    gateway.until_words("overdraft_worker_up{worker=\"worker-0\"} 0").await;
    let mut client = gateway.chat("").await;
    mocks[1].call().await.answer(200, ANSWER).await;
    client.whole().await;
    call.answer(200, "{}").await;
    let warm_up = mocks[0].call().await;
    assert!(warm_up.head.starts_with("POST /v1/completions "), "{}", warm_up.head);
    warm_up.answer(200, ANSWER).await;
    gateway.until_words("overdraft_worker_repairs_total{outcome=\"restarted\"} 1").await;
    gateway.until_words("overdraft_worker_up{worker=\"worker-0\"} 1").await;
}

#[tokio::test]
async fn a_worker_that_an_operator_drains_during_its_repair_stays_drained() {
    let mut mocks = Mock::pair().await;
    let mut hook = Mock::start(&[]).await;
    let (gateway, call) = under_repair(&mocks, &mut hook).await;
    let mut operator = gateway.operator().await;
    operator.post("/admin/workers/worker-0/drain", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    call.answer(200, "{}").await;
    mocks[0].call().await.answer(200, ANSWER).await;
    gateway.until_words("overdraft_worker_repairs_total{outcome=\"restarted\"} 1").await;
    let list = until(&gateway, |list| list["workers"][0]["health"] == "up").await;
    assert_eq!(list["workers"][0]["draining"], true, "{list}");
    operator.post("/admin/workers/worker-0/rejoin", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    until(&gateway, |list| list["workers"][0]["draining"] == false).await;
}

#[tokio::test]
async fn memory_is_read_from_the_reload_on_that_says_where() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| drop(manner.pages.insert("/memory", page(500))));
    let gateway = Gateway::start(&[&mock]).await;
    let mut settings = gateway.settings();
    let restart = RestartHook::Command { argv: vec!["true".to_owned()], timeout: NEVER };
    watched(&mut settings, &mock, restart);
    gateway.change(settings);
    settled(&gateway).await;
}

#[tokio::test]
async fn a_command_that_fails_leaves_the_worker_as_it_was() {
    let mocks = Mock::pair().await;
    mocks[0].behave(|manner| drop(manner.pages.insert("/memory", page(500))));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("told");
    let script = format!("echo $OVERDRAFT_WORKER $OVERDRAFT_POOL > {}; exit 3", file.display());
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        watched(settings, &mocks[0], RestartHook::Command { argv, timeout: NEVER });
    })
    .await;
    settled(&gateway).await;
    mocks[0].behave(|manner| drop(manner.pages.insert("/memory", page(700))));
    gateway.until_words("overdraft_worker_repairs_total{outcome=\"hook_failed\"} 1").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "worker-0 target\n");
    gateway.until_words("overdraft_worker_up{worker=\"worker-0\"} 1").await;
}

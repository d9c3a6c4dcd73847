//! A cascade whose draft has no workers has its pool woken, and makes nobody wait.

use overdraft_core::cascade::Mode;
use overdraft_gateway::{
    CascadeSettings, GatewaySettings, ModelSettings, Pool, WebAddress, WebhookSettings,
};
use overdraft_units::Ratio;

use super::{SMALL, TOKENS};
use crate::harness::{ANSWER, Gateway, MODEL, NEVER, SOON};
use crate::mock::Mock;
use crate::redis::Redis;
use crate::sharing::place;

/// A target, a worker of the draft that is not up, and a gateway before them.
struct Asleep {
    gateway: Gateway,
    target: Mock,
    draft: Mock,
}

impl Asleep {
    async fn start(cascade: CascadeSettings, adjust: impl FnOnce(&mut GatewaySettings)) -> Self {
        let (target, draft) = (Mock::start(&[MODEL]).await, Mock::start(&[SMALL]).await);
        for mock in [&target, &draft] {
            mock.behave(|manner| drop(manner.pages.insert("/tokenize", TOKENS.to_vec())));
        }
        draft.behave(|manner| manner.health = 503);
        let gateway = Gateway::start_unready(&[&target, &draft], |settings| {
            settings.cascades.insert(MODEL.to_owned(), cascade);
            settings.workers[1].pool = Pool::Draft;
            settings.probe.interval = SOON;
            adjust(settings);
        })
        .await;
        gateway.until_up(1).await;
        Self { gateway, target, draft }
    }

    /// A request that the target answers at once.
    async fn ask(&mut self, more: &str) {
        let mut client = self.gateway.chat(&format!(r#","max_tokens":64{more}"#)).await;
        self.target.call().await.answer(200, ANSWER).await;
        let (head, told) = client.whole().await;
        assert_eq!(told, ANSWER);
        assert_eq!(head.header("x-overdraft-served-by"), Some("target"));
    }

    /// What waits for the pools, as autoscalers are told.
    async fn wakes(&self, target: u32, draft: u32) {
        for (pool, count) in [("target", target), ("draft", draft)] {
            let line = format!("overdraft_pool_waiting{{pool=\"{pool}\"}} {count}\n");
            self.gateway.until_words(&line).await;
        }
    }
}

/// A gate that asks its draft first and compares nothing.
fn gate() -> CascadeSettings {
    let mut cascade = CascadeSettings::new(SMALL, MODEL);
    cascade.threshold = Some(Ratio::NONE);
    cascade.shadow.start = Ratio::NONE;
    cascade
}

#[tokio::test]
async fn a_cascade_wakes_its_draft_s_pool_and_makes_nobody_wait() {
    let mut asleep = Asleep::start(gate(), |_| {}).await;
    // What no draft may answer wakes none.
    asleep.ask(r#","seed":7"#).await;
    asleep.wakes(0, 0).await;
    for _ in 0..3 {
        asleep.ask("").await;
        asleep.wakes(0, 1).await;
    }
    asleep.draft.behave(|manner| manner.health = 200);
    asleep.gateway.until_up(2).await;
    asleep.wakes(0, 0).await;
}

#[tokio::test]
async fn a_draft_that_is_only_compared_is_woken_where_it_is_to_be_compared() {
    for (chance, expected) in [(Ratio::NONE, 0), (Ratio::WHOLE, 1)] {
        let mut cascade = CascadeSettings::new(SMALL, MODEL);
        cascade.mode = Mode::Shadow;
        (cascade.shadow.start, cascade.shadow.floor) = (chance, chance);
        let mut asleep = Asleep::start(cascade, |_| {}).await;
        asleep.ask("").await;
        asleep.wakes(0, expected).await;
    }
}

#[tokio::test]
async fn a_draft_that_never_told_its_tokenizer_is_woken_to_tell_it() {
    let mut cascade = gate();
    cascade.mode = Mode::Verify;
    let mut asleep = Asleep::start(cascade, |_| {}).await;
    // Drawn answers are verified by nobody.
    asleep.ask("").await;
    asleep.wakes(0, 0).await;
    asleep.ask(r#","temperature":0"#).await;
    asleep.wakes(0, 1).await;
}

#[tokio::test]
async fn a_draft_whose_tokenizer_is_to_be_told_anew_is_woken_to_tell_it() {
    let mut cascade = gate();
    cascade.mode = Mode::Verify;
    let mut asleep = Asleep::start(cascade, |_| {}).await;
    asleep.draft.behave(|manner| manner.health = 200);
    asleep.gateway.until_line(r#"overdraft_cascade_parity{cascade="m",state="same"} 1"#).await;
    asleep.draft.behave(|manner| manner.health = 503);
    asleep.gateway.until_up(1).await;
    // Tokenizers are compared anew where a cascade has changed.
    let mut settings = asleep.gateway.settings();
    settings.cascades.get_mut(MODEL).unwrap().first_window = 3;
    asleep.gateway.change(settings);
    asleep.gateway.until_line(r#"overdraft_cascade_parity{cascade="m",state="unknown"} 1"#).await;
    asleep.ask(r#","temperature":0"#).await;
    asleep.wakes(0, 1).await;
}

#[tokio::test]
async fn a_draft_that_cannot_tell_its_tokenizer_is_woken_no_more() {
    let mut cascade = gate();
    cascade.mode = Mode::Verify;
    let mut asleep = Asleep::start(cascade, |_| {}).await;
    asleep.draft.behave(|manner| {
        manner.pages.remove("/tokenize");
        manner.health = 200;
    });
    // Once it is asked again, the first look is over.
    for _ in 0..2 {
        asleep.draft.call().await.answer(404, "{}").await;
    }
    asleep.draft.behave(|manner| manner.health = 503);
    asleep.gateway.until_up(1).await;
    asleep.ask(r#","temperature":0"#).await;
    asleep.wakes(0, 0).await;
}

#[tokio::test]
async fn the_hook_of_a_draft_is_called_where_its_cascade_misses_it() {
    let mut hook = Mock::start(&[]).await;
    let place = WebAddress::parse(&format!("{}/wake_up", hook.url())).unwrap();
    let mut asleep = Asleep::start(gate(), |settings| {
        let wake = Some(WebhookSettings { place, token: None, timeout: NEVER });
        let own = ModelSettings { wake, ..ModelSettings::default() };
        settings.routing.models.insert(SMALL.to_owned(), own);
    })
    .await;
    assert!(hook.is_idle());
    asleep.ask("").await;
    let call = hook.call().await;
    assert_eq!(call.text(), r#"{"model":"small","held":0}"#);
    call.answer(200, "{}").await;
    asleep.gateway.until_words("overdraft_wakes_total{result=\"answered\"} 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_draft_counts_once_in_each_gateway_whichever_is_asked() {
    let redis = Redis::start(&[]);
    let shared = |settings: &mut GatewaySettings| place(settings, &redis.url());
    let mut one = Asleep::start(gate(), shared).await;
    let mut other = Asleep::start(gate(), shared).await;
    for _ in 0..2 {
        one.ask("").await;
    }
    for asleep in [&one, &other] {
        asleep.wakes(0, 1).await;
    }
    other.ask("").await;
    for asleep in [&one, &other] {
        asleep.wakes(0, 2).await;
    }
}

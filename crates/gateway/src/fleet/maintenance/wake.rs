//! Wake hook: a POST to those that can start a model's workers, or wake a sleeping engine, while requests are held.
//!
//! The hook of a model is called while requests for it wait, or a cascade misses it as its draft, and no worker of it is
//! up and takes new ones. The core says when ([`WakeTurn`]): one call to a model is under way at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use overdraft_core::route::model_number;
use overdraft_core::scale::WakeTurn;
use overdraft_telemetry::metrics::Woken;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::fleet::Fleet;
use crate::settings::WebhookSettings;
use crate::upstream::HttpCall;

/// Between two looks for requests that are held.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Maximum bytes of the hook's answer; they are discarded.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A model that has a hook.
#[derive(Debug)]
struct Sleeper {
    hook: WebhookSettings,
    /// Requests that are held for it.
    held: usize,
    /// Whether a cascade would have asked it.
    is_missed: bool,
}

/// What the hook is told.
#[derive(Debug, Serialize)]
struct Occasion<'a> {
    model: &'a str,
    held: usize,
}

/// Calls hooks until it is dropped.
pub(crate) async fn keep_waking(fleet: Arc<Fleet>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turns: BTreeMap<String, WakeTurn> = BTreeMap::new();
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            Some(called) = calls.join_next() => {
                let Ok((model, woken)) = called else { continue };
                fleet.metrics.woke(woken);
                turns.entry(model).or_default().ended(woken == Woken::Answered, fleet.dispatcher.clock.now());
            }
        }
        let hooks = hooks(&fleet);
        turns.retain(|model, turn| *turn == WakeTurn::UnderWay || hooks.contains_key(model));
        for (model, Sleeper { hook, held, is_missed }) in hooks {
            let turn = turns.entry(model.clone()).or_default();
            if turn.take(held + usize::from(is_missed), fleet.dispatcher.clock.now()) {
                calls.spawn(call(model, hook, held));
            }
        }
    }
}

/// The models that have a hook, and what each is wanted for.
fn hooks(fleet: &Fleet) -> BTreeMap<String, Sleeper> {
    let routes = fleet.dispatcher.routes();
    let named = routes.settings.models.iter();
    let named = named.filter_map(|(name, own)| Some((name, own.wake.as_ref()?)));
    let hooks = named.map(|(name, hook)| {
        let router = fleet.dispatcher.view();
        let is_served = router.fleet().is_served(name);
        let held = if is_served { 0 } else { router.queue().waiting_for(model_number(name)) };
        let is_missed = fleet.dispatcher.is_missed(&router, name);
        (name.clone(), Sleeper { hook: hook.clone(), held, is_missed })
    });
    hooks.collect()
}

async fn call(model: String, hook: WebhookSettings, held: usize) -> (String, Woken) {
    let occasion = Occasion { model: &model, held };
    let body = serde_json::to_vec(&occasion).expect("an occasion has string keys");
    let call = HttpCall {
        place: &hook.place,
        tls: None,
        method: Method::POST,
        token: hook.token.as_ref(),
        body: Bytes::from(body),
        timeout: hook.timeout,
        answer_bytes: ANSWER_BYTES_MAX,
    };
    let woken = match call.run().await {
        Ok((status, _)) if status.is_success() => {
            tracing::info!(model, held, "no worker of it is up: its wake hook was called");
            Woken::Answered
        }
        Ok((status, _)) => {
            tracing::error!(model, held, %status, "its wake hook failed; expected a status of 2xx");
            Woken::Failed
        }
        Err(error) => {
            tracing::error!(model, held, %error, "its wake hook failed");
            Woken::Failed
        }
    };
    (model, woken)
}

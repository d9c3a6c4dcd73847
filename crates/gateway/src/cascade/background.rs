//! Background tasks of cascades: what outlives a request.
//!
//! They check now and then whether both models of a cascade use the same tokenizer, as far as their
//! workers tell, and save the learnt state where the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use overdraft_core::cascade::{Mode, Parity, Standing, Tokenizer, Unpaid};
use overdraft_telemetry::metrics::CascadeGauges;
use overdraft_tokenizer::{Framing, Prompter};
use overdraft_units::{CacheSalt, Instant as Moment, Ratio, TokenId, Tokens};
use overdraft_wire::RequestPeek;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

use super::CascadeLayer;
use super::call::CallContext;
use super::prompt;
use super::state::CascadeState;
use crate::pipeline::request_guard::PoolTimes;
use crate::pipeline::request_info::{Asking, RequestInfo};
use crate::settings::CascadeSettings;
use crate::trace::RequestTrace;

/// How often it is looked after.
const TICK: Duration = Duration::from_millis(500);

/// How long a worker may take to answer a probe.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// Texts that tokenizers of different models cut differently: numbers, space, code, other scripts, what
/// looks like a control token.
const PROBES: [&str; 6] = [
    "The quick brown fox, 1234567890, doesn't jump.",
    "  two spaces\n\n\ttab",
    "fn main() { println!(\"{:?}\", vec![1_000; 3]); }",
    "Größe, naïve, 東京, привет, 🙂",
    "<|im_start|>user <|eot_id|> </s> [INST]",
    "internationalization",
];

/// How long it is waited after a look that told nothing: twice as long each time, up to the second.
const AGAIN: [Duration; 2] = [TICK, Duration::from_secs(5)];

/// Looks after the cascades; the background owns this.
pub(crate) async fn keep(layer: Arc<CascadeLayer>) {
    let mut waits: BTreeMap<u64, (Instant, Duration)> = BTreeMap::new();
    loop {
        let states = layer.cascades.all();
        waits.retain(|key, _| states.iter().any(|state| state.key() == *key));
        for state in states {
            let now = Instant::now();
            let (next, wait) = waits.entry(state.key()).or_insert((now, AGAIN[0]));
            let unknown = state.parity() == Parity::NotKnown;
            if state.settings.mode == Mode::Off || !unknown || now < *next {
                continue;
            }
            (*next, *wait) = (now + *wait, AGAIN[1].min(*wait * 2));
            let CascadeSettings { draft, target, .. } = &state.settings;
            // A worker that comes during the look has not been asked.
            let were_served = are_served(&layer, [draft, target]);
            let told = tokio::join!(facts(&layer, draft), facts(&layer, target));
            state.compared(Parity::of(&told.0, &told.1));
            let is_unknown = state.parity() == Parity::NotKnown;
            if is_unknown && were_served && are_served(&layer, [draft, target]) {
                state.note_untold(layer.pipeline.dispatcher.clock.now());
            }
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Whether workers of both models take requests.
fn are_served(layer: &CascadeLayer, models: [&str; 2]) -> bool {
    let router = layer.pipeline.dispatcher.view();
    models.iter().all(|model| router.fleet().is_served(model))
}

/// What can be found out about a model's tokenizer.
async fn facts(layer: &Arc<CascadeLayer>, model: &str) -> Tokenizer {
    if let Some(prompter) = layer.pipeline.fleet.tokenizers.of(model) {
        let read = tokio::task::spawn_blocking(move || read(&prompter));
        return read.await.unwrap_or_default();
    }
    let asking = probe(layer, model);
    let probes = tokio::time::timeout(PROBE_PATIENCE, asking).await.ok().flatten();
    Tokenizer { probes, ..Tokenizer::default() }
}

/// All of a tokenizer that is at hand.
fn read(prompter: &Prompter) -> Tokenizer {
    let tokenizer = prompter.tokenizer();
    let words = u32::try_from(tokenizer.vocabulary()).unwrap_or(u32::MAX);
    let (mut tokens, mut special) = (Xxh3::new(), Xxh3::new());
    for id in (0..words).map(TokenId) {
        let text = tokenizer.token_text(id);
        tokens.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        tokens.update(text.as_bytes());
        if tokenizer.is_control(id) {
            special.update(&id.0.to_le_bytes());
        }
    }
    let cut = PROBES.map(|text| {
        let tokens = prompter.text(text, Framing::Added, CacheSalt(0));
        tokens.into_iter().map(|token| token.0).collect()
    });
    Tokenizer {
        vocabulary: Some(Tokens::new(words)),
        tokens: Some(tokens.digest()),
        special: Some(special.digest()),
        template: None,
        probes: Some(digest(&cut)),
    }
}

/// What a worker of `model` makes of the probes.
async fn probe(layer: &Arc<CascadeLayer>, model: &str) -> Option<u64> {
    let now = Instant::now();
    let calls = CallContext {
        layer: Arc::clone(layer),
        head: Arc::new(Request::new(()).into_parts().0),
        request_id: HeaderValue::from_static("cascade-probe"),
        drain: None,
        begun: now,
        last: now + PROBE_PATIENCE,
        times: PoolTimes::default(),
        trace: RequestTrace::Off,
    };
    let mut cut = Vec::with_capacity(PROBES.len());
    for text in PROBES {
        let body: Bytes = serde_json::json!({"model": model, "prompt": text}).to_string().into();
        let peek = RequestPeek::parse(&body).ok()?;
        let info = RequestInfo::of_chore(
            Asking { model: model.to_owned(), session: None, dice: 0 },
            &peek,
        );
        cut.push(prompt::tokens(&calls, &info, body.clone()).await?);
    }
    Some(digest(&cut))
}

fn digest(cut: &[Vec<u32>]) -> u64 {
    let mut digest = Xxh3::new();
    for tokens in cut {
        digest.update(&u64::try_from(tokens.len()).unwrap_or(u64::MAX).to_le_bytes());
        for token in tokens {
            digest.update(&token.to_le_bytes());
        }
    }
    digest.digest()
}

/// Sets the gauges of cascades anew.
pub(crate) fn set_gauges(layer: &CascadeLayer) {
    let (states, now) = (layer.cascades.all(), layer.pipeline.dispatcher.clock.now());
    let gauges: Vec<CascadeGauges> = states.iter().map(|state| gauges(state, now)).collect();
    let parity = |state: &Arc<CascadeState>| {
        let word = match state.parity() {
            Parity::Same => "same",
            Parity::NotKnown => "unknown",
            Parity::Different(_) => "different",
        };
        (state.name.clone(), word)
    };
    let parities: Vec<_> = states.iter().map(parity).collect();
    layer.metrics.set(&gauges, &parities);
}

fn gauges(state: &CascadeState, now: Moment) -> CascadeGauges {
    let share = |chance: Ratio| f64::from(chance.get()) / f64::from(Ratio::WHOLE.get());
    let report = state.report();
    let interval = report.loss.interval();
    CascadeGauges {
        cascade: state.name.clone(),
        on: report.standing == Standing::On && report.unpaid.is_none(),
        acceptance: state.acceptance(now).map(share),
        loss: [interval.share, interval.low, interval.high].map(share),
        labels: report.labels,
        shadow: if state.compares() { share(report.shadow) } else { 0.0 },
        break_even: state.settings.break_even().map(share),
    }
}

/// The cascades that are off, by what comparisons say or for not paying, and why.
pub(crate) fn switched_off(layer: &CascadeLayer) -> Vec<(String, &'static str)> {
    let states = layer.cascades.all().into_iter();
    let off = states.filter_map(|state| {
        let report = state.report();
        let why = match report.standing {
            Standing::Off { reason, .. } => Some(reason.name()),
            Standing::On => report.unpaid.map(Unpaid::name),
        };
        Some((state.name.clone(), why?))
    });
    off.collect()
}

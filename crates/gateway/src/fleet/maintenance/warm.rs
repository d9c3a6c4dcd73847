//! Warm-up: the first request to a new process, made before it takes traffic.
//!
//! The first request to a new process pays for what is compiled, captured and allocated on first
//! use (A11). Where warm-up is enabled, the prober makes that request after it finds the worker
//! ready and before it reports so.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode, Uri};
use overdraft_core::fleet::{Health, WorkerId};
use overdraft_telemetry::metrics::WarmedUp;
use serde::Serialize;
use tokio::time::timeout;

use crate::fleet::Fleet;
use crate::settings::{WarmUp, WarmUpSettings};
use crate::upstream::headers;
use crate::upstream::{AnswerBody, Outgoing, Upstream};

/// A worker that fails so many warm-ups in a row is judged by its traffic.
const TRIES_MAX: u8 = 3;

const COMPLETIONS: &str = "/v1/completions";

/// What one worker's prober remembers.
#[derive(Debug)]
pub(crate) struct Warmth {
    cold: bool,
    failures: u8,
}

impl Default for Warmth {
    fn default() -> Self {
        Self { cold: true, failures: 0 }
    }
}

/// What came of a warm-up.
#[derive(Debug)]
enum Tried {
    Warm,
    /// The engine answered and will not do this; it is as warm as it gets.
    Refused(StatusCode),
    Failed(String),
}

impl Warmth {
    /// Takes note of how the worker stands. To be told at each look: who was gone may next be seen unready, and is no
    /// less cold for that.
    pub(crate) fn observe(&mut self, health: Health) {
        self.cold |= match health {
            Health::Unproven => true,
            Health::Failing { cause, .. } => cause.loses_the_cache(),
            Health::Up { .. } => false,
        };
    }

    /// Whether the worker may be told ready; warms it up if need be.
    pub(crate) async fn is_ready(
        &mut self,
        fleet: &Fleet,
        worker: WorkerId,
        served: &[String],
    ) -> bool {
        if !self.cold {
            return true;
        }
        let member = fleet.dispatcher.member(worker);
        let asked = member.settings.maintenance.warm_up == WarmUp::Always;
        let model = member.settings.model.as_ref().or(served.first());
        let (true, Some(model)) = (asked || fleet.repairs.include(worker), model) else {
            self.cold = false;
            return true;
        };
        let settings = fleet.settings().warm_up.clone();
        let tried = warm_up(&member.upstream, &settings, model).await;
        self.note(fleet, member.upstream.name(), tried)
    }

    fn note(&mut self, fleet: &Fleet, worker: &str, tried: Tried) -> bool {
        self.failures = match tried {
            Tried::Warm => {
                tracing::info!(worker, "worker is warmed up");
                fleet.metrics.warmed_up(WarmedUp::Answered);
                0
            }
            Tried::Refused(status) => {
                tracing::warn!(worker, %status, "worker refuses the warm-up request");
                fleet.metrics.warmed_up(WarmedUp::Failed);
                0
            }
            Tried::Failed(why) => {
                tracing::warn!(worker, why, "worker could not be warmed up");
                fleet.metrics.warmed_up(WarmedUp::Failed);
                self.failures + 1
            }
        };
        if self.failures == TRIES_MAX {
            tracing::error!(
                worker,
                tries = TRIES_MAX,
                "worker takes traffic without having been warmed up"
            );
            self.failures = 0;
        }
        self.cold = self.failures != 0;
        !self.cold
    }
}

async fn warm_up(upstream: &Arc<Upstream>, settings: &WarmUpSettings, model: &str) -> Tried {
    match timeout(settings.timeout, ask(upstream, settings, model)).await {
        Err(_elapsed) => Tried::Failed(format!("no answer within {:?}", settings.timeout)),
        Ok(Err(why)) => Tried::Failed(why),
        Ok(Ok(status)) if status.is_success() => Tried::Warm,
        Ok(Ok(status)) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
            Tried::Refused(status)
        }
        Ok(Ok(status)) => Tried::Failed(format!("the answer is {status}; expected 200")),
    }
}

/// Asks and reads the answer to its end.
async fn ask(
    upstream: &Arc<Upstream>,
    settings: &WarmUpSettings,
    model: &str,
) -> Result<StatusCode, String> {
    #[derive(Serialize)]
    struct Question<'a> {
        model: &'a str,
        prompt: &'a str,
        max_tokens: u32,
        temperature: u8,
    }
    let question =
        Question { model, prompt: &settings.prompt, max_tokens: settings.tokens, temperature: 0 };
    let text = Bytes::from(serde_json::to_vec(&question).expect("a question has string keys"));
    let make = || request(upstream, text.clone());
    let exchanged = upstream.exchange(make).await;
    let (response, connection) = exchanged.map_err(|error| error.to_string())?;
    let (head, incoming) = response.into_parts();
    let mut body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        data.map_err(|_error| "the answer broke off".to_owned())?;
    }
    Ok(head.status)
}

fn request(upstream: &Upstream, text: Bytes) -> Outgoing {
    let mut request = Outgoing::new(text.into());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(COMPLETIONS);
    *request.headers_mut() = headers::own(upstream);
    request.headers_mut().insert(CONTENT_TYPE, headers::JSON);
    request
}

#[cfg(test)]
mod tests {
    use overdraft_core::fleet::Cause;
    use overdraft_units::Instant;

    use super::*;

    #[test]
    fn who_was_gone_is_cold_whatever_is_seen_of_it_next() {
        let failing = |cause| Health::Failing { since: Instant::ORIGIN, cause };
        let mut warmth = Warmth { cold: false, failures: 0 };
        warmth.observe(failing(Cause::Unready));
        warmth.observe(failing(Cause::Silent));
        assert!(!warmth.cold, "it is the same process");
        warmth.observe(failing(Cause::Unreachable));
        warmth.observe(failing(Cause::Unready));
        assert!(warmth.cold);
    }
}

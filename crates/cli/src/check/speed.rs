//! Measured speed of workers: whether their answers end before the timeouts, and whether drafts pay.
//!
//! Each worker generates [`TOKENS`] tokens alone, which is the best it can do; under load it is slower.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use overdraft_config::{CascadeMode, Config, Worker};
use overdraft_telemetry::{Clock, unix_seconds};
use overdraft_units::Instant;
use serde_json::{Value, json};

use super::finding::{Finding, Report, Verdict};
use super::preflight;
use crate::ask::{self, Address, Want};

/// Tokens that each worker generates.
const TOKENS: u32 = 64;

/// Bytes of an answer of so many tokens.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Tokens of a long answer where `limits.max_tokens` does not say what is allowed.
const LONG_ANSWER_TOKENS: u32 = 4_096;

/// Whether workers generate something to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measuring {
    /// They are only asked what they tell anyway.
    Left,
    /// They do.
    Asked,
}

/// How fast a worker generates for one request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Speed {
    /// The model that generated.
    pub(super) model: String,
    /// Tokens.
    pub(super) tokens: u32,
    /// From the request to the end of its answer.
    pub(super) took: Duration,
}

impl Speed {
    fn tokens_per_second(&self) -> f64 {
        f64::from(self.tokens) / self.took.as_secs_f64().max(1e-6)
    }

    /// How long an answer of so many tokens takes.
    fn time_for(&self, tokens: u32) -> Duration {
        self.took.mul_f64(f64::from(tokens) / f64::from(self.tokens.max(1)))
    }
}

/// Has the worker generate.
///
/// # Errors
/// Says why there is no speed.
pub(super) async fn measure(
    config: &Config,
    worker: &Worker,
    address: &Address,
    model: &str,
) -> Result<Speed, String> {
    // Nobody has asked this before: a cache would answer for the engine, and tell of no new blocks.
    let once = format!("{}-{}", unix_seconds(), std::process::id());
    let body = json!({
        "model": model,
        "prompt": format!("{once}: {}", config.warm_up.prompt),
        "max_tokens": TOKENS,
        "temperature": 0,
    });
    let request = preflight::shown_key(worker, Request::post("/v1/completions"));
    let clock = Clock::start();
    let patience = config.warm_up.timeout.duration();
    let want = Want::Body(ANSWER_BYTES_MAX);
    let answer = ask::within(patience, address, request, Bytes::from(body.to_string()), want).await;
    let took = Duration::from(clock.now().since(Instant::ORIGIN));
    let (status, body) = answer.map_err(|error| error.to_string())?;
    if status != StatusCode::OK {
        return Err(format!("/v1/completions answers {status}"));
    }
    let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let tokens = answer["usage"]["completion_tokens"].as_u64().and_then(|it| it.try_into().ok());
    match tokens {
        Some(tokens) if tokens > 0 => Ok(Speed { model: model.to_owned(), tokens, took }),
        _ => Err("its answer does not say how many tokens it has".to_owned()),
    }
}

/// What the measured speed says of the timeouts.
pub(super) fn findings(config: &Config, measured: &Result<Speed, String>) -> Vec<Finding> {
    let speed = match measured {
        Ok(speed) => speed,
        Err(message) => {
            let message = format!("its speed cannot be measured: {message}");
            return vec![
                Finding::new("speed", Verdict::Fail, message)
                    .hint("it has to answer POST /v1/completions; its log says more"),
            ];
        }
    };
    let told = format!("generates {:.0} tokens/s alone", speed.tokens_per_second());
    let mut findings = vec![Finding::new("speed", Verdict::Ok, told)];
    findings.extend(cut_off(config, speed));
    findings
}

/// Whether a long answer would be cut off (B5).
fn cut_off(config: &Config, speed: &Speed) -> Option<Finding> {
    let tokens = config.limits.max_tokens.unwrap_or(LONG_ANSWER_TOKENS);
    let takes = speed.time_for(tokens);
    let (key, total) = total_of(config, &speed.model)?;
    (total < takes).then(|| {
        let message = format!(
            "an answer of {tokens} tokens takes {} s, and `{key}` cuts it after {} s",
            takes.as_secs(),
            total.as_secs()
        );
        Finding::new("timeouts", Verdict::Warn, message)
            .hint("set it to `auto` or raise it, or lower `limits.max_tokens`")
    })
}

/// The total that is set for a model's answers, and its key; nothing where it follows from what is measured.
fn total_of(config: &Config, model: &str) -> Option<(String, Duration)> {
    let own = config.models.get(model).and_then(|own| own.timeouts.total);
    let (key, total) = match own {
        Some(total) => (format!("models.{model}.timeouts.total"), total),
        None => ("timeouts.total".to_owned(), config.timeouts.total),
    };
    total.span().map(|span| (key, span.duration()))
}

/// Percent of the target's time above which a draft saves no time: hardly any gate accepts more answers than that.
const DRAFT_TIME_PERCENT_MAX: f64 = 80.0;

/// Cascades whose draft is not much faster than its target, by what was measured of both.
pub(super) fn cascades(config: &Config, workers: &[Report]) -> Vec<Finding> {
    let fastest = |model: &str| {
        let speeds = workers.iter().filter_map(|report| report.speed.as_ref());
        let of = speeds.filter(|speed| speed.model == model).map(Speed::tokens_per_second);
        of.max_by(f64::total_cmp)
    };
    let meant = config.cascades.iter().filter(|(_, one)| one.mode != CascadeMode::Off);
    let slow = meant.filter_map(|(name, cascade)| {
        let target = cascade.target.as_deref().unwrap_or(name);
        let (draft, target) = (fastest(&cascade.draft)?, fastest(target)?);
        let told = format!(
            "cascade `{name}`: the draft generates {draft:.0} tokens/s and the target {target:.0}"
        );
        // A rejected draft costs its own time on top: asking it first saves time where more are accepted than this.
        let percent = target / draft * 100.0;
        let warn = |message: String, hint| Finding::new("draft", Verdict::Warn, message).hint(hint);
        if draft <= target {
            let hint = "a draft pays by being quicker: are `draft` and `target` exchanged, or their workers?";
            return Some(warn(told, hint));
        }
        (DRAFT_TIME_PERCENT_MAX < percent).then(|| {
            let message =
                format!("{told}: it saves time only where more than {percent:.0}% of drafts are accepted");
            warn(message, "name a smaller draft, or give its workers faster GPUs")
        })
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(model: &str, tokens_per_second: u64) -> Speed {
        let took = Duration::from_micros(64_000_000 / tokens_per_second);
        Speed { model: model.to_owned(), tokens: 64, took }
    }

    fn config(yaml: &str) -> Config {
        let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        std::fs::write(path.path(), yaml).expect("it is written");
        overdraft_config::Loader::new(path.path()).load().expect("it is good").config
    }

    #[test]
    fn a_worker_that_is_too_slow_for_the_longest_answer_is_told_of() {
        let workers = "workers: [{url: http://127.0.0.1:1}]\n";
        let set = config(&format!("{workers}timeouts: {{total: 10m}}\n"));
        assert_eq!(cut_off(&set, &speed("m", 50)), None);
        // 4,096 tokens at 5/s are 819 s.
        let finding = cut_off(&set, &speed("m", 5)).expect("ten minutes are too short");
        assert!(finding.message.contains("takes 819 s"), "{}", finding.message);
        let short = "timeouts: {total: 10m}\nlimits: {max_tokens: 1000}\n";
        let short = config(&format!("{workers}{short}"));
        assert_eq!(cut_off(&short, &speed("m", 5)), None);
        // What is not set follows from the measured speed.
        assert_eq!(cut_off(&config(workers), &speed("m", 5)), None);
        let own = config(&format!("{workers}models: {{m: {{timeouts: {{total: 10m}}}}}}\n"));
        let finding = cut_off(&own, &speed("m", 5)).expect("that of the model holds");
        assert!(finding.message.contains("`models.m.timeouts.total`"), "{}", finding.message);
    }

    #[test]
    fn a_draft_that_is_slower_than_its_target_is_told_of() {
        let config = config(
            "workers: [{url: http://127.0.0.1:1}]\ncascades: {economy: {draft: small, target: large}}\n",
        );
        let of = |draft, target| {
            let with =
                |name: &str, speed| Report { speed: Some(speed), ..Report::of(name, vec![]) };
            let workers = [with("a", speed("small", draft)), with("b", speed("large", target))];
            cascades(&config, &workers)
        };
        assert_eq!(of(100, 20), Vec::new());
        assert_eq!(of(100, 79), Vec::new());
        assert!(of(100, 90)[0].message.contains("more than 90% of drafts"), "{:?}", of(100, 90));
        let findings = of(20, 100);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("draft generates 20 tokens/s and the target 100"));
    }
}

//! Preflight check: probes every configured worker for what the gateway needs of it.
//!
//! Every worker gets the same few requests, all concurrently and each within [`ask::PATIENCE`]. A
//! missing ability has a cost at run time that is hard to see there; here it has a name and a
//! remedy.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode, request};
use indicatif::{ProgressBar, ProgressStyle};
use overdraft_config::{Config, KvEvents, Tokenizer, Worker};
use overdraft_telemetry::unix_seconds;
use overdraft_wire::kv_events::read_sources;
use overdraft_wire::prometheus::engine::{self, Dialect, WorkerReport};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::event_arrival::Subscriber;
use super::finding::{Finding, Report, Verdict};
use super::speed::{self, Measuring};
use super::{supervisor, version};
use crate::ask::{self, Address, AskError, Want};
use crate::parity;

/// Workers that are asked at the same time.
const AT_ONCE_MAX: usize = 64;

/// Bytes of a list of models.
pub(super) const LIST_BYTES_MAX: usize = 1024 * 1024;

/// Asks every worker with a fixed address; the reports are in the order of the file. A worker that has not answered
/// within `patience`, or was not asked by then, has a report that says so.
pub(super) async fn fleet(
    config: &Config,
    measuring: Measuring,
    patience: Duration,
) -> Vec<Report> {
    let mut reports: Vec<Option<Report>> = config.workers.iter().map(|_| None).collect();
    let asking = ask_each(config, measuring, &mut reports);
    let _in_time = timeout(patience, asking).await;
    let late = |worker: &Worker| Report {
        url: worker.url.clone(),
        ..Report::of(worker.name(), vec![Finding::late("reachable", patience)])
    };
    let all = reports.into_iter().zip(&config.workers);
    all.map(|(report, worker)| report.unwrap_or_else(|| late(worker))).collect()
}

async fn ask_each(config: &Config, measuring: Measuring, reports: &mut [Option<Report>]) {
    let config = Arc::new(config.clone());
    let bar = bar(reports.len());
    let mut waiting = 0..reports.len();
    let mut asked: JoinSet<(usize, Report)> = JoinSet::new();
    loop {
        while asked.len() < AT_ONCE_MAX
            && let Some(index) = waiting.next()
        {
            let config = Arc::clone(&config);
            asked.spawn(async move { (index, worker(&config, index, measuring).await) });
        }
        let Some(done) = asked.join_next().await else { break };
        if let Ok((index, report)) = done {
            reports[index] = Some(report);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

/// Shown on a terminal only.
fn bar(count: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("asking workers {bar:30} {pos}/{len}");
    let bar = ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

async fn worker(config: &Config, index: usize, measuring: Measuring) -> Report {
    let worker = &config.workers[index];
    let address = match Address::of_worker(worker) {
        Ok(address) => address,
        Err(error) => {
            let finding = Finding::new("reachable", Verdict::Fail, error);
            let findings = vec![finding.hint("correct the worker's `tls`")];
            return Report { url: worker.url.clone(), ..Report::of(worker.name(), findings) };
        }
    };
    let metrics_max = usize::try_from(config.scrape.bytes_max.bytes()).unwrap_or(usize::MAX);
    let (models, metrics, sources, tokenizer, told, clock, supervised) = tokio::join!(
        get(worker, &address, "/v1/models", Want::Body(LIST_BYTES_MAX)),
        get(worker, &address, "/metrics", Want::Body(metrics_max)),
        get(worker, &address, "/kv_event_sources", Want::Body(LIST_BYTES_MAX)),
        get(worker, &address, "/tokenizer_source", Want::Status),
        get(worker, &address, version::PATH, Want::Body(LIST_BYTES_MAX)),
        ask::clock(&address, "/v1/models"),
        supervisor::findings(worker),
    );
    let (mut findings, mut speed, mut models_told) = (Vec::new(), None, None);
    match served(&models) {
        Err(refusal) => findings.push(refusal),
        Ok(served) => {
            findings.push(expected(worker, &served));
            let engine = engine_of(&metrics);
            findings.extend(version::finding(worker, &address, engine, &told).await);
            findings.extend(measured(&metrics));
            findings.push(events(worker, &sources, engine).await);
            let tokenizers = tokenizers(config, worker, &served);
            let model = worker.model.as_ref().unwrap_or(&served[0]);
            let tokenizes = tokenizes(worker, &address, model).await;
            let counted = |it| counted(it, &tokenizer, tokenizes);
            findings.extend(tokenizers.into_iter().map(counted));
            let ours = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_seconds());
            findings.extend(clock.and_then(|told| skewed(told, ours)));
            if measuring == Measuring::Asked {
                let subscriber = Subscriber::of(worker, &sources, &address.host).await;
                let measured = speed::measure(config, worker, &address, model).await;
                findings.extend(speed::findings(config, &measured));
                match (subscriber, &measured) {
                    (Some(Ok(subscriber)), Ok(_)) => findings.push(subscriber.finding().await),
                    (Some(Err(refused)), _) => findings.push(refused),
                    _ => {}
                }
                speed = measured.ok();
            }
            let is_asked =
                |model: &String| worker.serves.is_empty() || worker.serves.contains(model);
            models_told = Some(served.into_iter().filter(is_asked).collect());
        }
    }
    findings.extend(supervised);
    let (name, url) = (worker.name().to_owned(), worker.url.clone());
    Report { name, url, findings, speed, models: models_told }
}

pub(super) type Answer = Result<(StatusCode, Bytes), AskError>;

/// `GET path`, shown the worker's key.
async fn get(worker: &Worker, address: &Address, path: &str, want: Want) -> Answer {
    let request = Request::get(path);
    ask::ask(address, shown_key(worker, request), Bytes::new(), want).await
}

/// The request with the worker's key.
pub(super) fn shown_key(worker: &Worker, request: request::Builder) -> request::Builder {
    match &worker.api_key {
        Some(key) => match &worker.api_key_header {
            Some(name) => request.header(name, key.reveal()),
            None => request.header(AUTHORIZATION, format!("Bearer {}", key.reveal())),
        },
        None => request,
    }
}

/// Host and port of `tcp://host:port`.
pub(super) fn place(endpoint: &str) -> Option<Address> {
    let (host, port) = endpoint.strip_prefix("tcp://")?.rsplit_once(':')?;
    Some(Address {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok()?,
        tls: None,
    })
}

/// The worker and its key, for what is asked of it beside its own checks.
pub(super) fn asked(worker: &Worker) -> parity::Asked {
    parity::Asked::of(&crate::settings::worker(worker))
}

/// The models that a worker serves, or why it cannot be used at all.
pub(super) fn served(answer: &Answer) -> Result<Vec<String>, Finding> {
    let fail = |message: String| Finding::new("models", Verdict::Fail, message);
    let (status, body) = match answer {
        Ok((status, body)) => (*status, body),
        Err(error @ AskError::Untrusted(_)) => {
            return Err(Finding::new("reachable", Verdict::Fail, error.to_string()).hint(
                "name its authority in the worker's `tls.ca_file`, or its certificate's name in `tls.server_name`",
            ));
        }
        Err(error) => {
            return Err(Finding::new("reachable", Verdict::Fail, error.to_string()).hint(
                "is it running, and does it listen on that address? `curl URL/v1/models` tells",
            ));
        }
    };
    match status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(fail(format!("/v1/models asks for a key: {status}"))
                .hint("set the worker's `api_key` to the one that it was started with"));
        }
        _ => {
            return Err(fail(format!("/v1/models answers {status}"))
                .hint("expected an OpenAI-compatible server: vLLM, SGLang or llama-server"));
        }
    }
    let list: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let cards = list.as_ref().and_then(|list| list.get("data")?.as_array());
    let Some(cards) = cards else {
        return Err(fail("/v1/models answers with something else than a list".to_owned())
            .hint("expected an OpenAI-compatible server: vLLM, SGLang or llama-server"));
    };
    let names = cards.iter().filter_map(|card| card.get("id")?.as_str().map(str::to_owned));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return Err(fail("it serves no model".to_owned()).hint("is it still loading?"));
    }
    Ok(names)
}

fn expected(worker: &Worker, served: &[String]) -> Finding {
    let shown = served.join(", ");
    match &worker.model {
        Some(model) if !served.contains(model) => {
            let message = format!("it serves {shown}, not `{model}`");
            Finding::new("model", Verdict::Fail, message)
                .hint("correct `model` in the file, or start the worker with `--served-model-name`")
        }
        _ => match worker.serves.iter().find(|wanted| !served.contains(wanted)) {
            Some(unlisted) => {
                let message = format!("it serves {shown}, and `serves` names `{unlisted}`");
                Finding::new("model", Verdict::Warn, message).hint(
                    "correct `serves` in the file: clients never see a model that is not listed",
                )
            }
            None => Finding::new("model", Verdict::Ok, format!("serves {shown}")),
        },
    }
}

/// What the metrics tell: whether they can be read, and whether prefixes are cached.
fn measured(answer: &Answer) -> Vec<Finding> {
    let missing = |message: String| {
        vec![Finding::new("metrics", Verdict::Warn, message).hint(
            "without them load is guessed: vLLM must not have `--disable-log-stats`, SGLang needs \
             `--enable-metrics`, llama-server `--metrics`",
        )]
    };
    let page = match answer {
        Ok((StatusCode::OK, page)) => page,
        Ok((status, _)) => return missing(format!("/metrics answers {status}")),
        Err(error) => return missing(format!("/metrics: {error}")),
    };
    match engine::report(page) {
        Ok(report) => vec![
            Finding::new("metrics", Verdict::Ok, format!("metrics of {}", dialect(&report))),
            cached(&report),
        ],
        Err(error) => missing(format!("/metrics: {error}")),
    }
}

const fn dialect(report: &WorkerReport) -> &'static str {
    match report.dialect {
        Dialect::Vllm => "vLLM",
        Dialect::Sglang => "SGLang",
        Dialect::LlamaServer => "llama-server",
    }
}

fn cached(report: &WorkerReport) -> Finding {
    let subject = "prefix cache";
    match (report.dialect, report.prefix_queries) {
        (_, Some(_)) => Finding::new(subject, Verdict::Ok, "prefix cache"),
        (Dialect::LlamaServer, None) => {
            Finding::new(subject, Verdict::Ok, "prefix cache not counted by llama-server")
        }
        (_, None) => Finding::new(subject, Verdict::Warn, "no prefix cache is counted").hint(
            "prompts that share a beginning are computed again: start vLLM with \
             `--enable-prefix-caching`, SGLang without `--disable-radix-cache`",
        ),
    }
}

/// Whose metrics these are, if they can be read.
fn engine_of(metrics: &Answer) -> Option<Dialect> {
    let Ok((StatusCode::OK, page)) = metrics else { return None };
    Some(engine::report(page).ok()?.dialect)
}

/// Whether the worker tells which blocks its cache holds.
async fn events(worker: &Worker, sources: &Answer, engine: Option<Dialect>) -> Finding {
    let subject = "events";
    let warn = |message: String| Finding::new(subject, Verdict::Warn, message);
    match &worker.kv_events {
        KvEvents::Off => Finding::new(subject, Verdict::Ok, "events off"),
        // It has none that could be switched on.
        KvEvents::Auto if engine == Some(Dialect::LlamaServer) => {
            Finding::new(subject, Verdict::Ok, "no events in llama-server, its cache is estimated")
        }
        KvEvents::At(source) => {
            let shown = &source.endpoint;
            let place = place(shown).expect("a file that was loaded has been checked");
            match ask::greeting(&place).await {
                Ok(bytes) if is_zeromq(&bytes) => {
                    Finding::new(subject, Verdict::Ok, format!("events at {shown}"))
                }
                Ok(_other) => warn(format!("events at {shown}: what listens there is no ZeroMQ"))
                    .hint("name the `endpoint` of vLLM's `--kv-events-config`, not its HTTP port"),
                Err(error) => warn(format!("events at {shown}: {error}")).hint(
                    "without them the cache's content is estimated: start the engine with \
                     `--kv-events-config`",
                ),
            }
        }
        KvEvents::Auto => {
            let sources = match sources {
                Ok((StatusCode::OK, page)) => read_sources(page).map_err(|error| error.to_string()),
                _ => Err("it does not say where its events are".to_owned()),
            };
            let off = |message: String| {
                warn(message).hint(
                    "the cache's content is estimated: start the engine with `--kv-events-config`, \
                     name `kv_events.endpoint`, or say `kv_events: off` if that is meant",
                )
            };
            match sources.as_deref() {
                Err(error) => off(error.clone()),
                Ok([]) => off("it publishes no events".to_owned()),
                Ok([_]) => Finding::new(subject, Verdict::Ok, "events found"),
                Ok(ranks) => {
                    let message = format!("events of {} data-parallel ranks found", ranks.len());
                    Finding::new(subject, Verdict::Ok, message)
                }
            }
        }
    }
}

/// Whether a peer opens with the signature of ZMTP 3 (rfc.zeromq.org/spec/37, 2.2).
fn is_zeromq(greeting: &[u8; ask::GREETING_BYTES]) -> bool {
    greeting[0] == 0xff && greeting[9] == 0x7f
}

/// Two clocks that differ by more than this: budgets and leases that several machines share go by them.
const SKEW_MAX: Duration = Duration::from_secs(5);

/// Whether a worker's clock is far from ours; its `date` has whole seconds.
fn skewed(told: SystemTime, ours: SystemTime) -> Option<Finding> {
    let skew = told.duration_since(ours).or_else(|_| ours.duration_since(told)).ok()?;
    (SKEW_MAX < skew).then(|| {
        let message = format!("its clock differs from this machine's by {} s", skew.as_secs());
        Finding::new("clock", Verdict::Warn, message)
            .hint("run NTP on both: logs, budgets and circuit breakers compare their times")
    })
}

/// The different tokenizers that the models of a worker are configured with.
fn tokenizers(config: &Config, worker: &Worker, served: &[String]) -> Vec<Tokenizer> {
    let names = worker.model.as_slice();
    let names = if names.is_empty() { served } else { names };
    let of = |name: &String| config.models.get(name).map(|model| model.tokenizer.clone());
    let mut different: Vec<Tokenizer> = Vec::new();
    for tokenizer in names.iter().map(|name| of(name).unwrap_or_default()) {
        if !different.contains(&tokenizer) {
            different.push(tokenizer);
        }
    }
    different
}

/// Whether the worker tokenises a text itself.
async fn tokenizes(worker: &Worker, address: &Address, model: &str) -> bool {
    let request = shown_key(worker, Request::post("/tokenize"));
    let body = serde_json::json!({ "model": model, "prompt": "A text." }).to_string();
    let want = Want::Body(LIST_BYTES_MAX);
    let answer = ask::ask(address, request, Bytes::from(body), want).await;
    let Ok((StatusCode::OK, page)) = answer else { return false };
    serde_json::from_slice::<serde_json::Value>(&page).is_ok_and(|it| it["tokens"].is_array())
}

fn counted(tokenizer: Tokenizer, answer: &Answer, tokenizes: bool) -> Finding {
    let subject = "tokenizer";
    match tokenizer {
        Tokenizer::Off => Finding::new(subject, Verdict::Ok, "tokenizer off"),
        Tokenizer::Path(path) if is_tokenizer(&path) => {
            Finding::new(subject, Verdict::Ok, format!("tokenizer {}", path.display()))
        }
        Tokenizer::Path(path) => {
            let message = format!("`{}` is not a tokenizer", path.display());
            Finding::new(subject, Verdict::Fail, message)
                .hint("expected a GGUF file, or a folder with `tokenizer.json`")
        }
        Tokenizer::Worker => match answer {
            Ok((StatusCode::OK, _)) => Finding::new(subject, Verdict::Ok, "tokenizer readable"),
            // Asked for each prompt where the worker reports events; nowhere else are tokens needed.
            _ if tokenizes => Finding::new(subject, Verdict::Ok, "tokenizes at /tokenize"),
            _ => Finding::new(subject, Verdict::Warn, "its tokenizer cannot be read").hint(
                "it has no `/tokenize` either, so tokens are estimated from bytes: name a path at \
                 `models.NAME.tokenizer`, or say `tokenizer: off` if that is meant",
            ),
        },
    }
}

fn is_tokenizer(path: &Path) -> bool {
    if path.is_dir() { path.join("tokenizer.json").is_file() } else { path.is_file() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_of_beyond_five_seconds_to_either_side() {
        let ours = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert!(skewed(ours + Duration::from_secs(5), ours).is_none());
        for told in [ours + Duration::from_secs(61), ours - Duration::from_secs(61)] {
            let finding = skewed(told, ours).expect("a minute is too much");
            assert_eq!(finding.message, "its clock differs from this machine's by 61 s");
        }
    }

    #[test]
    fn a_model_that_is_not_listed_is_told_of() {
        let verdict = |serves: &str| {
            let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
            let yaml = format!("workers: [{{url: 'http://127.0.0.1:1', serves: [{serves}]}}]\n");
            std::fs::write(path.path(), yaml).expect("it is written");
            let config = overdraft_config::Loader::new(path.path()).load().expect("it is good");
            expected(&config.config.workers[0], &["a".to_owned(), "b".to_owned()]).verdict
        };
        assert_eq!(verdict(""), Verdict::Ok);
        assert_eq!(verdict("b"), Verdict::Ok);
        assert_eq!(verdict("b, c"), Verdict::Warn);
    }

    #[test]
    fn http_is_not_taken_for_zeromq() {
        assert!(is_zeromq(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f]));
        assert!(!is_zeromq(b"HTTP/1.1 4"));
    }
}

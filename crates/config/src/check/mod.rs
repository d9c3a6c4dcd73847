//! Semantic validation: rules over the typed configuration, each with the path of its fault.
//!
//! Each rule reads the typed tree and names the path of the value at fault; the path gives the line
//! in the file. All rules run, so that one check reports every fault.

/// A path from words and indices.
macro_rules! path {
    ($($step:expr),+ $(,)?) => { [$(Step::from($step)),+] };
}

mod admin;
mod admission;
mod cache;
mod canaries;
mod cascade;
mod cors;
mod dashboard;
mod events;
mod findings;
mod headers;
mod http2;
mod jwt;
mod keys;
mod maintenance;
mod responses;
mod served;
mod speculation;
mod tls;
mod tracing;

use std::collections::BTreeMap;

use overdraft_core::fleet::WORKERS_MAX;
use overdraft_core::route::ATTEMPTS_MAX;

use self::events::events;
use self::findings::{At, Findings};
pub(crate) use self::keys::check_file as check_keys_file;
use self::served::served_models;
pub(crate) use self::tracing::collector;
use crate::WorkerSource;
use crate::error::{ConfigError, Wrong, did_you_mean};
use crate::node::{Node, Step};
use crate::place::Source;
use crate::quantity::{TimeLimit, TimeSpan};
use crate::tree::{
    Canary, Cloud, Config, Discovery, ModelTimeouts, Secret, Sticky, Timeouts, Worker,
    host_and_port,
};

/// Everything that is wrong, in the order of the file.
pub(crate) fn check(
    config: &Config,
    root: &Node,
    source: &Source,
    needed: WorkerSource,
) -> Vec<ConfigError> {
    let mut findings = Findings::new(root, source);
    sources(config, needed, &mut findings);
    admin::check(config, &mut findings);
    workers(config, &mut findings);
    tls::check(config, &mut findings);
    discovery(config, &mut findings);
    aliases(config, &mut findings);
    models_served(config, needed, &mut findings);
    routing(config, &mut findings);
    spans(config, &mut findings);
    patience(config, &mut findings);
    no_time(config, &mut findings);
    bounds(config, &mut findings);
    termination(config, needed, &mut findings);
    keys::check(config, &mut findings);
    jwt::check(config, &mut findings);
    admission::check(config, &mut findings);
    maintenance::check(config, &mut findings);
    cascade::check(config, needed, &mut findings);
    canaries::check(config, needed, &mut findings);
    cache::check(config, &mut findings);
    responses::check(config, &mut findings);
    speculation::check(config, &mut findings);
    dashboard::check(config, &mut findings);
    cors::check(config, &mut findings);
    headers::check(config, &mut findings);
    http2::check(config, &mut findings);
    tracing::check(config, &mut findings);
    resume(config, &mut findings);
    fallbacks(config, &mut findings);
    findings.in_order()
}

fn sources(config: &Config, needed: WorkerSource, findings: &mut Findings<'_>) {
    if needed == WorkerSource::File && config.workers.is_empty() && config.discovery.is_empty() {
        let wrong = Wrong::new(
            "no workers are configured",
            "expected `workers` with a `url` each, or `discovery`",
        );
        findings.add(&At::Value, &[], wrong);
    }
    if WORKERS_MAX < config.workers.len() {
        let count = config.workers.len();
        let message = format!("{count} workers are configured");
        findings.key(&path!["workers"], message, format!("expected at most {WORKERS_MAX}"));
    }
}

/// Attempts to resume one request at most: with the first they are those that a request may have.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
const RESUMES_MAX: u8 = ATTEMPTS_MAX as u8 - 1;

fn resume(config: &Config, findings: &mut Findings<'_>) {
    let attempts = config.resume.attempts;
    if !(1..=RESUMES_MAX).contains(&attempts) {
        let message = format!("`resume.attempts` is {attempts}");
        let expected = format!("expected 1 to {RESUMES_MAX}; `resume.mode: off` for none");
        findings.value(&path!["resume", "attempts"], message, expected);
    }
}

fn workers(config: &Config, findings: &mut Findings<'_>) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places: BTreeMap<(String, u16), usize> = BTreeMap::new();
    for (index, worker) in config.workers.iter().enumerate() {
        let url = path!["workers", index, "url"];
        match host_and_port(&worker.url) {
            Err(error) => {
                let text = error.to_string();
                let (why, expected) = text.split_once("; ").unwrap_or((&text, ""));
                let message = format!("`workers[{index}].url`: {why}");
                findings.value(&url, message, expected);
                continue;
            }
            Ok(place) => {
                if let Some(first) = places.get(&place) {
                    let line = findings.line_of(&path!["workers", *first, "url"]);
                    let message = format!("`{}` is already a worker, on {line}", worker.url);
                    findings.value(&url, message, "expected each worker once");
                    continue;
                }
                places.insert(place, index);
            }
        }
        let path = if worker.name.is_some() { path!["workers", index, "name"] } else { url };
        name(worker, &path, names.get(worker.name()).copied(), findings);
        names.entry(worker.name()).or_insert(index);
        events(&worker.kv_events, &path!["workers", index], str::to_owned, findings);
        api_key(worker.api_key.as_ref(), &path!["workers", index, "api_key"], findings);
    }
}

/// The key is never shown: only that it cannot be sent is.
fn api_key(key: Option<&Secret>, path: &[Step], findings: &mut Findings<'_>) {
    let is_sendable = |key: &&Secret| {
        let text = key.reveal();
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if key.is_some_and(|key| !is_sendable(&key)) {
        let message = format!("`{}` cannot be sent in a header", crate::node::shown(path));
        findings.value(path, message, "expected printable ASCII without spaces");
    }
}

fn name(worker: &Worker, path: &[Step], taken: Option<usize>, findings: &mut Findings<'_>) {
    let name = worker.name();
    if name.is_empty() || http::HeaderValue::from_str(name).is_err() {
        let message = format!("`{name}` is not a worker's name");
        findings.value(path, message, "expected printable ASCII");
    }
    if let Some(first) = taken {
        let line = findings.line_of(&path!["workers", first]);
        let expected = format!("expected a name of its own; the other is on {line}");
        findings.value(path, format!("two workers are called `{name}`"), expected);
    }
}

fn discovery(config: &Config, findings: &mut Findings<'_>) {
    for (index, discovery) in config.discovery.iter().enumerate() {
        let mut named = |kind: &str, key: &str, value: &str| {
            if value.is_empty() {
                let path = path!["discovery", index, kind, key];
                let message = format!("`discovery[{index}].{kind}.{key}` is empty");
                findings.value(&path, message, "expected a name");
            }
        };
        match discovery {
            Discovery::Dns(dns) => {
                named("dns", "name", &dns.name);
                if dns.port == 0 {
                    let path = path!["discovery", index, "dns", "port"];
                    findings.value(&path, "the port is `0`", "expected one from 1 to 65535");
                }
            }
            Discovery::File(file) => named("file", "path", &file.path.to_string_lossy()),
            Discovery::Kubernetes(service) => {
                named("kubernetes", "namespace", &service.namespace);
                named("kubernetes", "service", &service.service);
                url(
                    service.api_server.as_deref(),
                    findings,
                    &path!["discovery", index, "kubernetes", "api_server"],
                );
            }
        }
    }
}

fn url(text: Option<&str>, findings: &mut Findings<'_>, path: &[Step]) {
    let Some(text) = text else { return };
    let parsed: Option<http::Uri> = text.parse().ok();
    let known = ["http", "https"];
    let is_http = |uri: &http::Uri| {
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        plain && uri.scheme_str().is_some_and(|scheme| known.contains(&scheme))
    };
    if !parsed.is_some_and(|uri| is_http(&uri)) {
        let message = format!("`{}` is not an address of HTTP", crate::node::shown(path));
        let expected = "expected one as in `http://10.0.0.1:6443`, without a user name";
        findings.value(path, message, expected);
    }
}

fn aliases(config: &Config, findings: &mut Findings<'_>) {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    let served = config.workers.iter().filter_map(|worker| worker.model.as_deref());
    let models: Vec<&str> = config.models.keys().map(String::as_str).chain(served).collect();
    for (name, model) in &config.models {
        for (index, alias) in model.aliases.iter().enumerate() {
            let path = path!["models", name.as_str(), "aliases", index];
            if alias.trim().is_empty() {
                findings.value(&path, "an alias is empty", "expected a name for the model");
            } else if alias.trim_end_matches('*').contains('*') || alias.ends_with("**") {
                let message = format!("the alias `{alias}` has a `*` that is not its end");
                findings.value(&path, message, "expected one `*` at the end, as in `claude-*`");
            } else if models.contains(&alias.as_str()) {
                let message = format!("the alias `{alias}` hides the model of that name");
                findings.value(&path, message, "expected a name that no model has");
            } else if let Some(other) = taken.insert(alias, name) {
                let message = format!("the alias `{alias}` already stands for `{other}`");
                findings.value(&path, message, "expected each alias once");
            }
        }
    }
}

/// Models that may stand in for one at most: each is another wait.
const FALLBACKS_MAX: usize = 4;

fn fallbacks(config: &Config, findings: &mut Findings<'_>) {
    for (name, model) in &config.models {
        if FALLBACKS_MAX < model.fallback.len() {
            let count = model.fallback.len();
            let path = path!["models", name.as_str(), "fallback"];
            let message = format!("`{name}` names {count} models to fall back on");
            findings.key(&path, message, format!("expected at most {FALLBACKS_MAX}"));
        }
        for (index, other) in model.fallback.iter().enumerate() {
            if other == name || other.trim().is_empty() {
                let path = path!["models", name.as_str(), "fallback", index];
                let message = format!("`{other}` is no model that `{name}` can fall back on");
                findings.value(&path, message, "expected another model");
            }
        }
    }
}

fn models_served(config: &Config, needed: WorkerSource, findings: &mut Findings<'_>) {
    let Some(served) = served_models(config, needed) else { return };
    for name in config.models.keys() {
        if !served.contains(&name.as_str()) {
            let meant = did_you_mean(name, &served);
            let message = format!("no worker serves the model `{name}`{meant}");
            let expected = "expected a model that a worker of `workers` has as its `model`";
            findings.key(&path!["models", name.as_str()], message, expected);
        }
    }
    let Some(default) = &config.model_default else { return };
    let is_alias = config.models.values().any(|model| model.aliases.contains(default))
        || config.cascades.contains_key(default);
    if !served.contains(&default.as_str()) && !is_alias {
        let meant = did_you_mean(default, &served);
        let message = format!("no worker serves `{default}`, the default model{meant}");
        findings.value(&path!["model_default"], message, "expected a model or an alias");
    }
}

fn routing(config: &Config, findings: &mut Findings<'_>) {
    let general = &config.routing;
    canary(general.canary, &path!["routing", "canary", "share"], findings);
    sticky(general.sticky.as_ref(), &path!["routing", "sticky", "load_factor"], findings);
    for (name, model) in &config.models {
        let name = name.as_str();
        canary(model.canary, &path!["models", name, "canary", "share"], findings);
        let path = path!["models", name, "sticky", "load_factor"];
        sticky(model.sticky.as_ref(), &path, findings);
    }
    if general.text_chunk.bytes() == 0 {
        let path = path!["routing", "text_chunk"];
        findings.value(&path, "a block of `0B` holds nothing", "expected a size as in `256B`");
    }
    if general.prefix.keys_max == 0 {
        let path = path!["routing", "prefix", "keys_max"];
        let expected = "expected at least 1; `tokenize: never` and `policy: least-load` do without";
        findings.value(&path, "an index of `0` blocks holds nothing", expected);
    }
}

fn canary(canary: Option<Canary>, path: &[Step], findings: &mut Findings<'_>) {
    if canary.is_some_and(|canary| canary.share.permille() == 0) {
        let expected = "expected more than 0 %; leave `canary` out to try nothing";
        findings.value(path, "a canary with a share of `0%` tries nothing", expected);
    }
}

fn sticky(sticky: Option<&Sticky>, path: &[Step], findings: &mut Findings<'_>) {
    let factor = sticky.map(|sticky| sticky.load_factor);
    if let Some(factor) = factor.filter(|factor| factor.permille() < 1_000) {
        let message = format!("a worker cannot be kept below its mean load, at `{factor}` of it");
        findings.value(path, message, "expected a factor of at least 1, as in `1.25`");
    }
}

fn spans(config: &Config, findings: &mut Findings<'_>) {
    let Config { scrape, probe, timeouts, termination, store, .. } = config;
    let fixed = |limit: TimeLimit, least| limit.at_least(least);
    let spans: [(&str, &str, TimeSpan); 17] = [
        ("scrape", "interval", scrape.interval),
        ("scrape", "idle_interval", scrape.idle_interval),
        ("scrape", "timeout", scrape.timeout),
        ("probe", "interval", probe.interval),
        ("probe", "timeout", probe.timeout),
        ("timeouts", "connect", timeouts.connect),
        ("timeouts", "first_byte", fixed(timeouts.first_byte, Timeouts::FIRST_BYTE_LEAST)),
        ("timeouts", "idle", fixed(timeouts.idle, Timeouts::IDLE_LEAST)),
        ("timeouts", "total", fixed(timeouts.total, Timeouts::TOTAL_LEAST)),
        ("timeouts", "body", timeouts.body),
        ("timeouts", "client_idle", timeouts.client_idle),
        ("timeouts", "client_stall", timeouts.client_stall),
        ("termination", "interval", termination.interval),
        ("store", "timeout", store.timeout),
        ("store", "connect_timeout", store.connect_timeout),
        ("store", "board_interval", store.board_interval),
        ("store", "share_interval", store.share_interval),
    ];
    for (section, key, span) in spans {
        if span.is_zero() {
            let message = format!("`{section}.{key}` is no time at all");
            findings.value(&path![section, key], message, "expected more than `0s`");
        }
    }
}

fn patience(config: &Config, findings: &mut Findings<'_>) {
    let (scrape, timeouts) = (&config.scrape, &config.timeouts);
    if scrape.idle_interval < scrape.interval {
        let message = format!(
            "an idle worker would be scraped every `{}`, a busy one every `{}`",
            scrape.idle_interval, scrape.interval
        );
        let expected = "expected `idle_interval` to be at least `interval`";
        findings.value(&path!["scrape", "idle_interval"], message, expected);
    }
    let shorter = [
        ("first_byte", timeouts.first_byte.at_least(Timeouts::FIRST_BYTE_LEAST)),
        ("idle", timeouts.idle.at_least(Timeouts::IDLE_LEAST)),
    ];
    let Some(total) = timeouts.total.span().filter(|total| !total.is_zero()) else { return };
    if let Some((key, span)) = shorter.into_iter().find(|(_, span)| total < *span) {
        let message = format!("`timeouts.total` is `{total}`, shorter than `{key}`: `{span}`");
        let expected = format!("expected `total` to be at least `{key}`");
        findings.value(&path!["timeouts", "total"], message, expected);
    }
}

/// Limits of single models that are no time at all.
fn no_time(config: &Config, findings: &mut Findings<'_>) {
    const EXPECTED: &str = "expected more than `0s`";
    for (name, model) in &config.models {
        let ModelTimeouts { first_byte, idle, total } = model.timeouts;
        for (key, limit) in [("first_byte", first_byte), ("idle", idle), ("total", total)] {
            if limit.and_then(TimeLimit::span).is_some_and(TimeSpan::is_zero) {
                let message = format!("`{key}` of `{name}` is no time at all");
                let path = path!["models", name.as_str(), "timeouts", key];
                findings.value(&path, message, EXPECTED);
            }
        }
    }
}

fn bounds(config: &Config, findings: &mut Findings<'_>) {
    let limits = &config.limits;
    for (key, limit) in [("requests", limits.requests), ("streams", limits.streams)] {
        if limit == 0 {
            let message = format!("`limits.{key}` is `0`, which refuses everything");
            findings.value(&path!["limits", key], message, "expected at least 1");
        }
    }
    if limits.requests < limits.streams {
        let message =
            format!("`{}` streams cannot fit into `{}` requests", limits.streams, limits.requests);
        let expected = "expected `streams` to be at most `requests`";
        findings.value(&path!["limits", "streams"], message, expected);
    }
    if let Some(connections) = limits.connections.filter(|&count| count < limits.requests) {
        let message =
            format!("`{}` requests cannot come over `{connections}` connections", limits.requests);
        let expected = "expected `connections` to be at least `requests`";
        findings.value(&path!["limits", "connections"], message, expected);
    }
    let sizes = [
        ("event_bytes", limits.event_bytes),
        ("body_bytes", limits.body_bytes),
        ("bodies_bytes", limits.bodies_bytes),
    ];
    for (key, size) in sizes {
        if size.bytes() == 0 {
            let message = format!("`limits.{key}` is `0B`, which refuses everything");
            findings.value(&path!["limits", key], message, "expected a size as in `8MiB`");
        }
    }
    if limits.bodies_bytes.bytes() / 2 < limits.body_bytes.bytes() {
        let message = format!(
            "a body of `{}` is more than a client may hold of `{}`",
            limits.body_bytes, limits.bodies_bytes
        );
        let expected = "expected `bodies_bytes` to be at least twice `body_bytes`";
        findings.value(&path!["limits", "bodies_bytes"], message, expected);
    }
    let extra = usize::from(config.retry.attempts_extra);
    if ATTEMPTS_MAX <= extra {
        let message = format!("`{extra}` extra attempts are too many");
        let expected = format!("expected at most {}", ATTEMPTS_MAX - 1);
        findings.value(&path!["retry", "attempts_extra"], message, expected);
    }
    if config.scrape.bytes_max.bytes() == 0 {
        let path = path!["scrape", "bytes_max"];
        findings.value(&path, "an answer of `0B` says nothing", "expected a size as in `4MiB`");
    }
}

fn termination(config: &Config, needed: WorkerSource, findings: &mut Findings<'_>) {
    let termination = &config.termination;
    url(termination.endpoint.as_deref(), findings, &path!["termination", "endpoint"]);
    if termination.cloud == Cloud::Off {
        return;
    }
    if termination.workers.is_empty() {
        let message = "a notice would drain nobody";
        let expected = "expected `termination.workers` to name the workers on this machine";
        findings.key(&path!["termination", "cloud"], message, expected);
    }
    // Workers that are discovered or embedded get their names later.
    if !config.discovery.is_empty() || needed != WorkerSource::File {
        return;
    }
    let names: Vec<&str> = config.workers.iter().map(Worker::name).collect();
    for (index, name) in termination.workers.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            let meant = did_you_mean(name, &names);
            let message = format!("no worker is called `{name}`{meant}");
            let expected = "expected the name of one of `workers`";
            findings.value(&path!["termination", "workers", index], message, expected);
        }
    }
}

//! What cannot be meant about scaling, fragmented memory and warming up?

use super::Findings;
use crate::node::Step;
use crate::quantity::TimeSpan;
use crate::tree::{Config, Hook, Memory, Restart, Worker};

pub(super) fn care(config: &Config, findings: &mut Findings<'_>) {
    targets(config, findings);
    let (scaling, fragmentation) = (&config.scaling, &config.fragmentation);
    let spans: [(&str, &str, TimeSpan); 7] = [
        ("scaling", "cooldown_down", scaling.cooldown_down),
        ("fragmentation", "lasting", fragmentation.lasting),
        ("fragmentation", "drain", fragmentation.drain),
        ("fragmentation", "ready", fragmentation.ready),
        ("fragmentation", "backoff", fragmentation.backoff),
        ("fragmentation", "backoff_max", fragmentation.backoff_max),
        ("warm_up", "timeout", config.warm_up.timeout),
    ];
    for (section, key, span) in spans {
        if span.is_zero() {
            let message = format!("`{section}.{key}` is no time at all");
            findings.value(&path![section, key], message, "expected more than `0s`");
        }
    }
    for (index, worker) in config.workers.iter().enumerate() {
        of_worker(worker, index, findings);
    }
}

fn targets(config: &Config, findings: &mut Findings<'_>) {
    let scaling = &config.scaling;
    let permille = |section, key, permille: u16, findings: &mut Findings<'_>| {
        if permille == 0 {
            let message = format!("`{section}.{key}` is `0%`");
            findings.value(&path![section, key], message, "expected a share as in `70%`");
        }
    };
    permille("scaling", "kv_target", scaling.kv_target.permille(), findings);
    permille("fragmentation", "threshold", config.fragmentation.threshold.permille(), findings);
    let counts = [
        ("scaling", "queue_target", scaling.queue_target),
        ("scaling", "running_target", scaling.running_target),
        ("warm_up", "tokens", config.warm_up.tokens),
    ];
    for (section, key, count) in counts {
        if count == 0 {
            let message = format!("`{section}.{key}` is `0`");
            findings.value(&path![section, key], message, "expected at least 1");
        }
    }
    if config.warm_up.prompt.is_empty() {
        let path = path!["warm_up", "prompt"];
        findings.value(&path, "`warm_up.prompt` is empty", "expected some text");
    }
    let fragmentation = &config.fragmentation;
    if fragmentation.backoff_max < fragmentation.backoff {
        let message = format!(
            "`fragmentation.backoff_max` is `{}`, shorter than `backoff`: `{}`",
            fragmentation.backoff_max, fragmentation.backoff
        );
        let path = path!["fragmentation", "backoff_max"];
        findings.value(&path, message, "expected `backoff_max` to be at least `backoff`");
    }
}

fn of_worker(worker: &Worker, index: usize, findings: &mut Findings<'_>) {
    if let Some(memory) = &worker.memory {
        of_memory(memory, index, findings);
    }
    let mut told = |kind: &str, hook: &Hook| {
        http(&hook.url, &path!["workers", index, "restart", kind, "url"], findings);
        if hook.token.as_ref().is_some_and(|token| token.reveal().is_empty()) {
            let path = path!["workers", index, "restart", kind, "token"];
            let message = format!("`workers[{index}].restart.{kind}.token` is empty");
            findings.value(&path, message, "expected a secret, or no key `token`");
        }
        no_time(hook.timeout, &path!["workers", index, "restart", kind, "timeout"], findings);
    };
    match &worker.restart {
        None => {}
        Some(Restart::Supervise(hook)) => {
            told("supervise", hook);
            let uri: Option<http::Uri> = hook.url.parse().ok();
            if uri.is_some_and(|uri| !matches!(uri.path(), "" | "/") || uri.query().is_some()) {
                let path = path!["workers", index, "restart", "supervise", "url"];
                let message = format!("`workers[{index}].restart.supervise.url` has a path");
                findings.value(&path, message, "expected `http://host:port`");
            }
        }
        Some(Restart::Webhook(hook)) => told("webhook", hook),
        Some(Restart::Command(command)) => {
            if command.argv.first().is_none_or(String::is_empty) {
                let path = path!["workers", index, "restart", "command", "argv"];
                let message = format!("`workers[{index}].restart.command.argv` names no program");
                findings.value(&path, message, "expected a program and its arguments");
            }
            let path = path!["workers", index, "restart", "command", "timeout"];
            no_time(command.timeout, &path, findings);
        }
    }
}

fn of_memory(memory: &Memory, index: usize, findings: &mut Findings<'_>) {
    http(&memory.url, &path!["workers", index, "memory", "url"], findings);
    no_time(memory.interval, &path!["workers", index, "memory", "interval"], findings);
    let names = [&memory.used, &memory.free, &memory.total];
    if names.iter().filter(|name| name.is_some()).count() == 1 {
        let message = format!("`workers[{index}].memory` names one metric; no share follows");
        let expected = "expected two of `used`, `free` and `total`, or none for known exporters";
        findings.key(&path!["workers", index, "memory"], message, expected);
    }
}

fn no_time(span: TimeSpan, path: &[Step], findings: &mut Findings<'_>) {
    if span.is_zero() {
        let message = format!("`{}` is no time at all", crate::node::shown(path));
        findings.value(path, message, "expected more than `0s`");
    }
}

/// Plain HTTP with a host and perhaps a path.
fn http(text: &str, path: &[Step], findings: &mut Findings<'_>) {
    let uri: Option<http::Uri> = text.parse().ok();
    let good = uri.is_some_and(|uri| {
        let host = uri.authority().is_some_and(|authority| {
            !authority.as_str().contains('@') && !authority.host().is_empty()
        });
        host && uri.scheme_str() == Some("http")
    });
    if !good {
        let message = format!("`{}` is not an address of plain HTTP", crate::node::shown(path));
        let expected = "expected one as in `http://10.0.0.5:9400/metrics`, without a user name";
        findings.value(path, message, expected);
    }
}

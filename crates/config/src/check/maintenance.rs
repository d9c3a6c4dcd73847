//! Maintenance validation: rejects invalid scaling, fragmentation and warm-up settings.

use super::events::events;
use super::findings::Findings;
use crate::node::{Step, shown};
use crate::quantity::TimeSpan;
use crate::tree::{Config, Hook, Memory, Restart};

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    targets(config, findings);
    for (name, model) in &config.models {
        let told = Told { place: path!["models", name.as_str()].to_vec(), fill: str::to_owned };
        if let Some(wake) = &model.wake {
            told.hook(&["wake"], wake, findings);
        }
    }
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
        let told = Told { place: path!["workers", index].to_vec(), fill: str::to_owned };
        told.check(worker.memory.as_ref(), worker.restart.as_ref(), findings);
    }
    for (index, discovery) in config.discovery.iter().enumerate() {
        let (kind, each) = discovery.each();
        let told = Told { place: path!["discovery", index, kind, "each"].to_vec(), fill: filled };
        told.check(each.memory.as_ref(), each.restart.as_ref(), findings);
        events(&each.kv_events, &told.place, filled, findings);
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

/// What is said of one worker, or of those that a source will find.
struct Told {
    place: Vec<Step>,
    /// An address as it will be.
    fill: fn(&str) -> String,
}

impl Told {
    fn at(&self, keys: &[&str]) -> Vec<Step> {
        self.place.iter().cloned().chain(keys.iter().map(|key| Step::from(*key))).collect()
    }

    fn check(
        &self,
        memory: Option<&Memory>,
        restart: Option<&Restart>,
        findings: &mut Findings<'_>,
    ) {
        if let Some(memory) = memory {
            self.memory(memory, findings);
        }
        match restart {
            None => {}
            Some(Restart::Supervise(hook)) => {
                self.hook(&["restart", "supervise"], hook, findings);
                let uri: Option<http::Uri> = (self.fill)(&hook.url).parse().ok();
                if uri.is_some_and(|uri| !matches!(uri.path(), "" | "/") || uri.query().is_some()) {
                    let path = self.at(&["restart", "supervise", "url"]);
                    let message = format!("`{}` has a path", shown(&path));
                    findings.value(&path, message, "expected `http://host:port`");
                }
            }
            Some(Restart::Webhook(hook)) => self.hook(&["restart", "webhook"], hook, findings),
            Some(Restart::Command(command)) => {
                if command.argv.first().is_none_or(String::is_empty) {
                    let path = self.at(&["restart", "command", "argv"]);
                    let message = format!("`{}` names no program", shown(&path));
                    findings.value(&path, message, "expected a program and its arguments");
                }
                no_time(command.timeout, &self.at(&["restart", "command", "timeout"]), findings);
            }
        }
    }

    fn hook(&self, place: &[&str], hook: &Hook, findings: &mut Findings<'_>) {
        let at = |key| self.at(&[place, &[key]].concat());
        http(&(self.fill)(&hook.url), &at("url"), findings);
        if hook.token.as_ref().is_some_and(|token| token.reveal().is_empty()) {
            let message = format!("`{}` is empty", shown(&at("token")));
            findings.value(&at("token"), message, "expected a secret, or no key `token`");
        }
        no_time(hook.timeout, &at("timeout"), findings);
    }

    fn memory(&self, memory: &Memory, findings: &mut Findings<'_>) {
        http(&(self.fill)(&memory.url), &self.at(&["memory", "url"]), findings);
        no_time(memory.interval, &self.at(&["memory", "interval"]), findings);
        let names = [&memory.used, &memory.free, &memory.total];
        if names.iter().filter(|name| name.is_some()).count() == 1 {
            let path = self.at(&["memory"]);
            let message = format!("`{}` names one metric; no share follows", shown(&path));
            let expected =
                "expected two of `used`, `free` and `total`, or none for known exporters";
            findings.key(&path, message, expected);
        }
    }
}

/// An address as it could be for a worker that is found.
fn filled(text: &str) -> String {
    text.replace("{host}", "10.0.0.5").replace("{port}", "8000").replace("{name}", "worker")
}

fn no_time(span: TimeSpan, path: &[Step], findings: &mut Findings<'_>) {
    if span.is_zero() {
        let message = format!("`{}` is no time at all", shown(path));
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
    // Braces are left where something stands for nothing that is known.
    let good = good && !text.contains(['{', '}']);
    if !good {
        let message = format!("`{}` is not an address of plain HTTP", shown(path));
        let expected = "expected one as in `http://10.0.0.5:9400/metrics`, without a user name";
        findings.value(path, message, expected);
    }
}

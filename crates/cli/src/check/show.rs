//! Check report: findings as text for people and as JSON for programs.

use std::fmt::Write as _;
use std::path::Path;

use overdraft_config::{Config, ConfigErrors, Discovery, Loaded, Pool};
use serde_json::{Value, json};

use super::finding::{Report, Verdict};

/// A few lines about a good file; all of it when it is asked for.
pub(super) fn understood(loaded: &Loaded, all: bool) -> String {
    let config = &loaded.config;
    let mut text = format!("{} is good\n", loaded.path.display());
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<10} {value}");
        }
    };
    line("listen", config.listen.to_string());
    line("routing", routing(config));
    line("models", models(config));
    line("workers", workers(config));
    line("discovery", discovery(config));
    if all {
        let _ = write!(text, "\n{}", config.effective_yaml());
    }
    text
}

fn routing(config: &Config) -> String {
    let word = |policy| serde_json::to_value(policy).unwrap_or_default();
    let policy = word(config.routing.policy);
    let mut text = policy.as_str().unwrap_or_default().to_owned();
    if let Some(canary) = config.routing.canary {
        let policy = word(canary.policy);
        let _ = write!(text, ", {} to {}", canary.share, policy.as_str().unwrap_or_default());
    }
    text
}

fn models(config: &Config) -> String {
    let shown = config.models.iter().map(|(name, model)| match model.aliases.as_slice() {
        [] => name.clone(),
        aliases => format!("{name} ({})", aliases.join(", ")),
    });
    shown.collect::<Vec<String>>().join(", ")
}

fn workers(config: &Config) -> String {
    let of = |pool| config.workers.iter().filter(|worker| worker.pool == pool).count();
    match (of(Pool::Target), of(Pool::Draft)) {
        (0, 0) if config.names_workers() => String::new(),
        (0, 0) => "none named: `serve` starts the embedded models".to_owned(),
        (target, 0) => format!("{target} target"),
        (target, draft) => format!("{target} target, {draft} draft"),
    }
}

fn discovery(config: &Config) -> String {
    let shown = config.discovery.iter().map(|source| match source {
        Discovery::Dns(dns) => format!("dns {}:{}", dns.name, dns.port),
        Discovery::File(file) => format!("file {}", file.path.display()),
        Discovery::Kubernetes(service) => {
            format!("kubernetes {}/{}", service.namespace, service.service)
        }
    });
    shown.collect::<Vec<String>>().join(", ")
}

/// One line per worker, and below it what to do about it.
pub(crate) fn reports(reports: &[Report]) -> String {
    let width = reports.iter().map(|report| report.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for report in reports {
        let said: Vec<&str> = report.findings.iter().map(|it| it.message.as_str()).collect();
        let (word, name) = (report.verdict().word(), &report.name);
        let _ = writeln!(text, "{word:<4}  {name:<width$}  {}", said.join("; "));
        for hint in report.findings.iter().filter_map(|finding| finding.hint) {
            let _ = writeln!(text, "      {:<width$}  hint: {hint}", "");
        }
    }
    text
}

/// A good file and its workers.
pub(super) fn json(loaded: &Loaded, reports: &[Report], all: bool) -> Value {
    let usable = reports.iter().all(|report| report.verdict() != Verdict::Fail);
    let workers: Vec<Value> = reports.iter().map(report).collect();
    let mut view = json!({
        "file": loaded.path.display().to_string(),
        "ok": usable,
        "problems": [],
        "workers": workers,
    });
    if all {
        view["config"] = loaded.config.effective_json();
    }
    view
}

/// What was found about one subject.
pub(crate) fn report(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "subject": finding.subject,
                "verdict": finding.verdict.word(),
                "message": finding.message,
                "hint": finding.hint,
            })
        })
        .collect();
    json!({
        "name": report.name,
        "url": report.url,
        "verdict": report.verdict().word(),
        "findings": findings,
    })
}

/// A file that cannot be used.
pub(super) fn faults(path: &Path, errors: &ConfigErrors) -> Value {
    let problems: Vec<Value> = errors
        .iter()
        .map(|fault| {
            json!({
                "file": fault.file().display().to_string(),
                "line": fault.line(),
                "column": fault.column(),
                "variable": fault.variable(),
                "message": fault.message(),
                "expected": fault.expected(),
            })
        })
        .collect();
    json!({ "file": path.display().to_string(), "ok": false, "problems": problems, "workers": [] })
}

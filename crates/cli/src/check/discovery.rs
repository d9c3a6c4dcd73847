//! Discovery check: whom each source names now, and whether they can be used.
//!
//! A source is looked up once, by what follows it in a gateway. Who is found is asked for its models alone: what else
//! is asked of a worker is for those that the file names.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use overdraft_config::Config;
use overdraft_gateway::{Source, WorkerSettings, look_up};
use tokio::task::JoinSet;

use super::finding::{Finding, Report, Verdict};
use super::preflight::{LIST_BYTES_MAX, served};
use crate::ask::{self, Address, Want};

/// How long a source may take to say whom it names.
const PATIENCE: Duration = Duration::from_secs(5);

/// Workers of one source that are asked.
const ASKED_MAX: usize = 64;

/// One report for each source, in the order of the file.
pub(super) async fn reports(config: &Config) -> Vec<Report> {
    let mut reports = Vec::new();
    for source in crate::settings::gateway(config, Vec::new()).discovery {
        reports.push(report(source).await);
    }
    reports
}

async fn report(source: Source) -> Report {
    let name = source.to_string();
    // Its API answers from inside of the cluster, and a check often runs outside.
    let failed =
        if matches!(source, Source::Kubernetes(_)) { Verdict::Warn } else { Verdict::Fail };
    match Box::pin(look_up(source, PATIENCE)).await {
        Err(why) => {
            let message = format!("it cannot be looked up: {why}");
            let finding = Finding::new("discovery", failed, message);
            let hint = "correct it in `discovery`, or check where `serve` runs; its workers were not asked";
            Report::of(&name, vec![finding.hint(hint)])
        }
        Ok(found) if found.is_empty() => {
            let finding = Finding::new("discovery", Verdict::Warn, "it names no worker now");
            Report::of(&name, vec![finding.hint("requests are refused until it names one")])
        }
        Ok(found) => asked(&name, found).await,
    }
}

/// What came of asking one worker.
struct Told {
    name: String,
    /// Its models, or why it cannot be used.
    models: Result<Vec<String>, String>,
}

async fn asked(name: &str, found: Vec<WorkerSettings>) -> Report {
    let count = found.len();
    let mut asking: JoinSet<Told> = found.into_iter().take(ASKED_MAX).map(ask_one).collect();
    let (mut models, mut bad) = (Vec::new(), Vec::new());
    while let Some(told) = asking.join_next().await {
        match told {
            Ok(Told { models: Ok(own), .. }) => models.extend(own),
            Ok(Told { name, models: Err(why) }) => bad.push(format!("`{name}`: {why}")),
            Err(_panic) => bad.push("a question failed".to_owned()),
        }
    }
    models.sort_unstable();
    models.dedup();
    bad.sort_unstable();
    let mut findings = Vec::new();
    if let Some(first) = bad.first() {
        let message = format!("{} of {count} workers cannot be used, first {first}", bad.len());
        findings.push(Finding::new("workers", Verdict::Fail, message).hint(
            "are they running, and is `discovery` right of their port, their model and their key?",
        ));
    }
    let all =
        if count <= ASKED_MAX { String::new() } else { format!(", {ASKED_MAX} of them asked") };
    let shown = if models.is_empty() { "nothing".to_owned() } else { models.join(", ") };
    let message =
        format!("names {count} workers{all}, which serve {shown}; asked for models alone");
    findings.push(Finding::new("discovery", Verdict::Ok, message));
    let is_all = bad.is_empty() && count <= ASKED_MAX;
    Report { models: is_all.then_some(models), ..Report::of(name, findings) }
}

async fn ask_one(worker: WorkerSettings) -> Told {
    Told { models: models(&worker).await, name: worker.name }
}

/// The models that clients could ask of it.
async fn models(worker: &WorkerSettings) -> Result<Vec<String>, String> {
    let traits = &worker.traits;
    let address = Address::with_tls(&worker.url, traits.tls.clone())?;
    let mut request = Request::get("/v1/models");
    if let Some((name, key)) = traits.key_header() {
        request = request.header(name, key);
    }
    let answer = ask::ask(&address, request, Bytes::new(), Want::Body(LIST_BYTES_MAX)).await;
    let mut models = served(&answer).map_err(|finding| finding.message)?;
    if let Some(model) = worker.model.as_ref().filter(|model| !models.contains(model)) {
        return Err(format!("it serves {}, not `{model}`", models.join(", ")));
    }
    models.retain(|model| traits.serves.is_empty() || traits.serves.contains(model));
    Ok(models)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: &std::path::Path) -> Config {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let yaml = format!("discovery: [{{file: {{path: '{}'}}}}]\n", path.display());
        std::fs::write(file.path(), yaml).expect("it is written");
        overdraft_config::Loader::new(file.path()).load().expect("it is good").config
    }

    #[tokio::test]
    async fn a_source_is_told_with_whom_it_names_and_who_of_them_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("workers");
        let missing = reports(&config(&path)).await;
        assert_eq!(missing[0].verdict(), Verdict::Fail);
        assert!(missing[0].findings[0].message.contains("cannot be read"), "{missing:?}");
        std::fs::write(&path, "[]").expect("it is written");
        assert_eq!(reports(&config(&path)).await[0].verdict(), Verdict::Warn);
        std::fs::write(&path, "http://127.0.0.1:1\n").expect("it is written");
        let gone = reports(&config(&path)).await;
        let message = &gone[0].findings[0].message;
        assert!(
            message.starts_with("1 of 1 workers cannot be used, first `127.0.0.1:1`"),
            "{message}"
        );
        assert_eq!(gone[0].models, None);
    }
}

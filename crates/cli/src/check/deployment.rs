//! Deployment check: settings that are valid by themselves and wrong together or on this machine.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use overdraft_config::{Config, Discovery, Key, Worker};
use overdraft_gateway::{GatewayError, SourceError, WorkerSettings};
use overdraft_store::Place;
use overdraft_telemetry::calendar_time;
use overdraft_tls::{ClientTls, Offers, ServerTls};

use super::finding::{Finding, Report, Verdict};
use crate::open_files;

/// How long before its end a key is told of: time enough to make another and hand it out.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Workers that a finding names at most.
const NAMES_MAX: usize = 20;

/// What was found, nothing where all is well.
pub(super) fn report(config: &Config) -> Option<Report> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = open_files(config, files_max(&limits));
    let keys = expiring(config, calendar_time());
    let (certificates, audit) = (certificates(config), unwritable(config));
    let (found, salts) = (certificates_of_found(config), unsalted(config));
    let (state, prices) = (unkept(config), unmatched_prices(config));
    let (open, watched) = (unguarded(config), watched(config));
    let findings = [open, watched, certificates, found, salts, audit, state, keys, prices, files];
    let findings: Vec<Finding> = findings.into_iter().flatten().collect();
    (!findings.is_empty()).then(|| Report::of("deployment", findings))
}

/// A listener that others reach, without keys.
fn unguarded(config: &Config) -> Option<Finding> {
    (!config.needs_key() && !config.listen.ip().is_loopback()).then(|| {
        let message = format!(
            "every client that reaches {} may ask: neither `keys` nor `jwt` is configured",
            config.listen
        );
        Finding::new("keys", Verdict::Warn, message)
            .hint("name `keys`, a `keys_file` or `jwt`, or let only a proxy that asks for them reach the listener")
    })
}

/// A listener that others reach, at which they find what is for operators.
fn watched(config: &Config) -> Option<Finding> {
    (config.admin.listen.is_none() && !config.listen.ip().is_loopback()).then(|| {
        let message = format!(
            "every client that reaches {} may read `/metrics`, which names tenants, models and workers",
            config.listen
        );
        Finding::new("operators", Verdict::Warn, message).hint(
            "set `admin.listen`, where clients do not reach it, and `admin.token`: without one, what a proxy on this \
             machine passes on may count as an operator's",
        )
    })
}

/// Certificates of the listener with which no gateway starts.
fn certificates(config: &Config) -> Option<Finding> {
    let settings = crate::settings::tls::listener(config.tls.as_ref()?);
    let error = ServerTls::new(settings, Offers::Http2).err()?;
    let finding = Finding::new("tls", Verdict::Fail, error.to_string());
    Some(finding.hint("correct the files that `tls` names; they are read where `serve` runs"))
}

/// Certificates of the file's workers with which no gateway starts, a report for each of those.
pub(super) fn untrusted(config: &Config) -> Vec<Report> {
    let encrypted = config.workers.iter().filter(|worker| worker.url.starts_with("https://"));
    let reports = encrypted.filter_map(|worker| {
        let error = ClientTls::new(crate::settings::tls::worker(&worker.tls)).err()?;
        let finding = Finding::new("tls", Verdict::Fail, error.to_string()).hint(
            "correct the files that the worker's `tls` names; they are read where `serve` runs",
        );
        Some(Report { url: worker.url.clone(), ..Report::of(worker.name(), vec![finding]) })
    });
    reports.collect()
}

/// Certificates of workers that are found later with which no gateway starts.
fn certificates_of_found(config: &Config) -> Option<Finding> {
    let each = config.discovery.iter().map(|discovery| match discovery {
        Discovery::Dns(dns) => &dns.each,
        Discovery::File(file) => &file.each,
        Discovery::Kubernetes(service) => &service.each,
    });
    let error = each.filter_map(|each| each.tls.as_ref()).find_map(|tls| {
        let settings = crate::settings::tls::worker(tls);
        ClientTls::new(settings).err()
    })?;
    let finding = Finding::new("tls", Verdict::Fail, error.to_string());
    Some(finding.hint("correct the files that `each.tls` names; they are read where `serve` runs"))
}

/// What `serve` would refuse and no finding of `reports` tells: an address of the store, or the name of a service.
pub(super) fn refused(config: &Config, reports: &[Report]) -> Option<Report> {
    let mut workers = crate::settings::workers(config);
    if !config.names_workers() {
        // `serve` starts embedded ones.
        workers.push(WorkerSettings::new("http://127.0.0.1:1"));
    }
    let error = crate::settings::gateway(config, workers).check().err()?;
    let text = error.to_string();
    let tells = |finding: &Finding| {
        let message = finding.message.as_str();
        finding.verdict == Verdict::Fail && (text.contains(message) || message.contains(&text))
    };
    if reports.iter().flat_map(|report| &report.findings).any(tells) {
        return None;
    }
    let (verdict, hint) = match error {
        GatewayError::Source(SourceError::NoKubernetes { .. }) => {
            (Verdict::Warn, "the file may be good: check it with the build that serves")
        }
        _ => (Verdict::Fail, "`serve` would not start with it, and a reload would leave it out"),
    };
    Some(Report::of("settings", vec![Finding::new("settings", verdict, text).hint(hint)]))
}

/// A place for the audit log where no file can be made: calls that change something would be refused.
fn unwritable(config: &Config) -> Option<Finding> {
    let path = config.admin.audit_log.as_deref()?;
    let why = no_file(path)?;
    let message = format!("no audit log can be written to `{}`: {why}", path.display());
    let finding = Finding::new("audit log", Verdict::Fail, message);
    Some(finding.hint("make the folder, or correct `admin.audit_log`; until then drains, rejoins and purges are refused"))
}

/// A place for what cascades learn where no file can be made: all of it is gone with the process.
fn unkept(config: &Config) -> Option<Finding> {
    let path = config.cascade_state.as_deref()?;
    let message =
        format!("what cascades learn cannot be kept in `{}`: {}", path.display(), no_file(path)?);
    let finding = Finding::new("cascade state", Verdict::Warn, message);
    Some(
        finding.hint(
            "make the folder, or correct `cascade_state`; until then each restart begins anew",
        ),
    )
}

/// Why no file can be made there, as far as that can be seen.
fn no_file(path: &Path) -> Option<&'static str> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        _ if path.is_dir() => Some("it is a folder"),
        Some(folder) if !folder.is_dir() => Some("its folder is not there"),
        _ => None,
    }
}

/// Several gateways that salt the same tenant differently: no prefix is found at the other's worker.
fn unsalted(config: &Config) -> Option<Finding> {
    let place = crate::settings::store(&config.store).place;
    let is_shared = !matches!(place, Place::Memory);
    (is_shared && config.isolation.salt_secret.is_none()).then(|| {
        let message = "gateways share a store, and each draws cache salts of its own";
        Finding::new("salts", Verdict::Warn, message).hint(
            "name one `isolation.salt_secret` at all of them, or a prefix that one gateway has \
             computed is not found by another",
        )
    })
}

/// Keys that will be refused soon. One that has expired is none that anybody could still lose.
fn expiring(config: &Config, now: Timestamp) -> Option<Finding> {
    let soon = now.saturating_add(EXPIRES_SOON).unwrap_or(Timestamp::MAX);
    let end = |key: &Key| key.expires.map(|end| end.0).filter(|end| now < *end && *end <= soon);
    let ends = || config.all_keys().filter_map(|key| Some((end(key)?, key)));
    let (end, first) = ends().min_by_key(|(end, _)| *end)?;
    let name = first.name.as_deref().unwrap_or("without a name");
    let count = ends().count();
    let message = format!(
        "within 14 days keys expire: {count}, first the one of `{}` called `{name}`, at `{end}`",
        first.tenant
    );
    Some(Finding::new("expiry", Verdict::Warn, message).hint(
        "make another with `overdraft keys new`, hand it out, and take the old one out of its file",
    ))
}

/// Prices of workers that there are not. Of workers that are found later nobody knows the names.
fn unmatched_prices(config: &Config) -> Option<Finding> {
    if config.workers.is_empty() || !config.discovery.is_empty() {
        return None;
    }
    // A worker may be several engines, each called by its name and a number.
    let is_of = |name: &str, worker: &Worker| {
        let rest = name.strip_prefix(worker.name());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let is_nobodys =
        |name: &&String| !config.workers.iter().any(|worker| is_of(name.as_str(), worker));
    let unmatched: Vec<&str> =
        config.prices.workers.keys().filter(is_nobodys).map(String::as_str).collect();
    (!unmatched.is_empty()).then(|| {
        let known: Vec<&str> = config.workers.iter().take(NAMES_MAX).map(Worker::name).collect();
        let message = format!(
            "`prices.workers` names `{}`, which no worker is called; there are `{}`",
            unmatched.join("`, `"),
            known.join("`, `")
        );
        Finding::new("prices", Verdict::Warn, message).hint(
            "correct the name, or these hours cost what `prices.pools` says; a worker without `name` \
             is called by its host and port",
        )
    })
}

/// Fewer open files than connections.
fn open_files(config: &Config, files: Option<u64>) -> Option<Finding> {
    let files = files?;
    let needed = open_files::needed(config);
    (files < needed).then(|| {
        let message = format!(
            "this process may open {files} files, and `limits.requests` of {} take {needed}",
            config.limits.requests
        );
        Finding::new("open files", Verdict::Warn, message).hint(
            "raise the limit (`ulimit -n`, systemd's LimitNOFILE), or lower `limits.requests`",
        )
    })
}

/// The hard limit on open files, as Linux tells it: `serve` raises the soft one to it.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let hard = line.split_whitespace().nth(1)?;
    if hard == "unlimited" { Some(u64::MAX) } else { hard.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let workers = "workers: [{url: http://127.0.0.1:1}]\n";
        std::fs::write(path.path(), format!("{workers}{yaml}")).expect("it is written");
        overdraft_config::Loader::new(path.path()).load().expect("it is good").config
    }

    #[test]
    fn a_certificate_that_is_not_there_fails() {
        assert_eq!(certificates(&config("")), None);
        let files = "tls: {certificate_file: /nowhere/own.pem, key_file: /nowhere/own.key}";
        let found = certificates(&config(files)).expect("no gateway starts with it");
        assert!(format!("{found:?}").contains("/nowhere/own.pem"), "{found:?}");
        assert_eq!(certificates_of_found(&config("")), None);
        let each = "discovery: [{file: {path: w, each: {tls: {ca_file: /nowhere/ca.pem}}}}]";
        let found = certificates_of_found(&config(each)).expect("no gateway starts with it");
        assert!(format!("{found:?}").contains("/nowhere/ca.pem"), "{found:?}");
    }

    #[test]
    fn what_serve_refuses_fails_though_the_file_is_good_and_is_told_once() {
        assert!(refused(&config(""), &[]).is_none());
        assert!(refused(&Config::default(), &[]).is_none(), "embedded workers will be there");
        let service = "discovery: [{kubernetes: {namespace: llm, service: vllm.llm, port: http}}]";
        for (yaml, why) in [
            ("store: {url: 'redis://127.0.0.1:1/x'}", "its database is no number"),
            ("store: {url: 'rediss://127.0.0.1:1', ca_file: /nowhere/ca.pem}", "/nowhere/ca.pem"),
            (service, "`vllm.llm` is not a service's name"),
        ] {
            let found = refused(&config(yaml), &[]).expect("no gateway starts with it");
            assert_eq!(found.verdict(), Verdict::Fail);
            assert!(found.findings[0].message.contains(why), "{found:?}");
            assert!(refused(&config(yaml), &[found]).is_none(), "{yaml}");
        }
    }

    #[test]
    fn an_audit_log_that_cannot_be_written_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = |path: &Path| {
            let path = path.display();
            unwritable(&config(&format!("admin: {{audit_log: '{path}'}}")))
        };
        assert_eq!(unwritable(&config("")), None);
        assert_eq!(found(&folder.path().join("audit.jsonl")), None);
        for bad in [folder.path().to_owned(), folder.path().join("gone/audit.jsonl")] {
            assert!(found(&bad).is_some_and(|finding| finding.verdict == Verdict::Fail), "{bad:?}");
        }
    }

    #[test]
    fn a_worker_whose_authorities_are_not_there_fails_without_being_asked() {
        assert!(untrusted(&config("")).is_empty());
        let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let yaml = "workers: [{url: 'https://127.0.0.1:1', tls: {ca_file: /nowhere/ca.pem}}]\n";
        std::fs::write(path.path(), yaml).expect("it is written");
        let config = overdraft_config::Loader::new(path.path()).load().expect("it is good").config;
        let reports = untrusted(&config);
        assert_eq!(reports.iter().map(Report::verdict).collect::<Vec<_>>(), [Verdict::Fail]);
        assert!(reports[0].findings[0].message.contains("/nowhere/ca.pem"), "{reports:?}");
    }

    #[test]
    fn a_state_of_cascades_that_cannot_be_kept_is_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = |path: &Path| unkept(&config(&format!("cascade_state: '{}'", path.display())));
        assert_eq!(unkept(&config("")), None);
        assert_eq!(found(&folder.path().join("cascades.json")), None);
        assert!(found(&folder.path().join("gone/cascades.json")).is_some());
        assert!(found(folder.path()).is_some());
    }

    #[test]
    fn an_open_door_is_told_of() {
        assert_eq!(unguarded(&config("")), None);
        assert!(unguarded(&config("listen: 0.0.0.0:8080")).is_some());
        let keys = "listen: 0.0.0.0:8080\nkeys: [{tenant: a, key: abcdefghijklmnop}]";
        assert_eq!(unguarded(&config(keys)), None);
        let jwt = "listen: 0.0.0.0:8080\njwt: {issuer: a, audience: b, jwks_file: c}";
        assert_eq!(unguarded(&config(jwt)), None);
    }

    #[test]
    fn metrics_where_clients_are_are_told_of() {
        assert_eq!(watched(&config("")), None);
        assert!(watched(&config("listen: 0.0.0.0:8080")).is_some());
        let apart = "listen: 0.0.0.0:8080\nadmin: {listen: '127.0.0.1:9091'}";
        assert_eq!(watched(&config(apart)), None);
    }

    #[test]
    fn keys_that_expire_within_two_weeks_are_told_of() {
        let now: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a point in time");
        let found = |ends: &[&str]| {
            let key = |(number, end): (usize, &&str)| {
                format!("{{tenant: t{number}, name: ci, key: k{number}, expires: {end}}}")
            };
            let keys: Vec<String> = ends.iter().enumerate().map(key).collect();
            expiring(&config(&format!("keys: [{}]", keys.join(", "))), now)
        };
        let (over, later) = ("2027-01-01T00:00:00Z", "2027-01-15T00:00:01Z");
        assert_eq!(found(&[over, later]), None);
        let soon = found(&["2027-01-15T00:00:00Z", "2027-01-14T00:00:00Z", later]);
        let message = soon.expect("two of them").message;
        let expected = "within 14 days keys expire: 2, first the one of `t1` called `ci`, at \
                        `2027-01-14T00:00:00Z`";
        assert_eq!(message, expected);
    }

    #[test]
    fn gateways_that_share_a_store_need_one_salt() {
        assert_eq!(unsalted(&config("")), None);
        let shared = "store: {url: redis://127.0.0.1:1}\n";
        assert!(unsalted(&config(shared)).is_some());
        let salted =
            format!("{shared}isolation: {{salt_secret: 0123456789abcdef0123456789abcdef}}");
        assert_eq!(unsalted(&config(&salted)), None);
    }

    #[test]
    fn a_price_of_a_worker_that_there_is_not_is_told_of() {
        let prices = |name: &str| config(&format!("prices: {{workers: {{'{name}': 3.60}}}}"));
        assert_eq!(unmatched_prices(&config("")), None);
        // The only worker has no name of its own; its ranks may have prices of their own.
        for name in ["127.0.0.1:1", "127.0.0.1:1#3"] {
            assert_eq!(unmatched_prices(&prices(name)), None, "{name}");
        }
        let finding = unmatched_prices(&prices("gpu-a")).expect("nobody is called so");
        assert!(finding.message.contains("`gpu-a`"), "{}", finding.message);
        assert!(finding.message.contains("`127.0.0.1:1`"), "{}", finding.message);
    }

    #[test]
    fn a_limit_on_files_below_the_limit_on_requests_is_told_of() {
        let page = "Max processes  1  1  processes\nMax open files            1024   4096  files\n";
        assert_eq!(files_max(page), Some(4_096));
        let finding = open_files(&config(""), Some(1_024)).expect("4,096 requests take more");
        assert!(finding.message.contains("take 8256"), "{}", finding.message);
        assert_eq!(open_files(&config(""), Some(65_536)), None);
        assert_eq!(open_files(&config(""), None), None, "elsewhere nothing is known");
    }
}

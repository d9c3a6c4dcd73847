//! Store check: whether Redis is reachable and the gateway may use it.

use overdraft_config::{CacheMode, Config};
use overdraft_store::{Fault, Place, ServerInfo, Store};

use super::finding::{Finding, Report, Verdict};

/// Asks the store; nothing where a gateway is alone.
pub(super) async fn report(config: &Config) -> Option<Report> {
    let settings = crate::settings::store(&config.store);
    let findings = match (&settings.place, Store::open(&settings)) {
        (Place::Memory, _) => return None,
        (_, Err(error)) => vec![Finding::new("store", Verdict::Fail, error.to_string())],
        (_, Ok(mut store)) => match store.ping().await {
            Ok(()) => {
                let told = "answers, runs scripts and takes writes";
                let mut findings = vec![Finding::new("store", Verdict::Ok, told)];
                // Who may not ask `INFO` learns nothing of this, and all the same works.
                let server = store.server().await.unwrap_or_default();
                if !server.version.is_empty() {
                    let version = format!("Redis {}", server.version);
                    findings.push(Finding::new("engine", Verdict::Ok, version));
                }
                findings.extend(lossy(&server, config));
                findings
            }
            Err(fault) => {
                vec![Finding::new("store", Verdict::Fail, fault.to_string()).hint(hint(fault))]
            }
        },
    };
    let url = settings.place.to_string();
    Some(Report { url, ..Report::of("store", findings) })
}

/// What the server will drop or refuse when its memory or its disk is full.
fn lossy(server: &ServerInfo, config: &Config) -> Vec<Finding> {
    let warn = |message: String| Finding::new("store", Verdict::Warn, message);
    let mut findings = Vec::new();
    let policy = server.eviction.as_str();
    let is_bounded = server.memory_max > 0;
    let caches = config.cache.mode == CacheMode::On && config.cache.shared;
    if is_bounded && policy.starts_with("allkeys") {
        let message = format!("`maxmemory-policy {policy}` may drop budgets and breakers");
        findings.push(
            warn(message).hint("set `volatile-lru`, or give the gateways a Redis of their own"),
        );
    }
    if is_bounded && policy == "noeviction" && caches {
        let message = "`maxmemory-policy noeviction`: answers fill it, and then it refuses writes";
        findings.push(warn(message.to_owned()).hint("set `volatile-lru`: every answer has a TTL"));
    }
    if server.save_failed {
        let message = "its last save to disk failed: by default it refuses writes then";
        findings.push(warn(message.to_owned()).hint("see its log, and free the disk"));
    }
    findings
}

const fn hint(fault: Fault) -> &'static str {
    match fault {
        Fault::Password => "set the user and password in `store.url`, percent-encoded",
        Fault::Certificate => {
            "name the host as its certificate does, and its authority at `store.ca_file`"
        }
        Fault::Forbidden => {
            "give the user `~overdraft:* +@all`, or at least strings, hashes, scripts"
        }
        Fault::Full => "raise `maxmemory`; the store needs a few kilobytes",
        Fault::ReadOnly => "name a primary, or the sentinels as `redis+sentinel://…`",
        Fault::Cluster => "name it as `redis+cluster://…` if it is one, and see `CLUSTER INFO`",
        _ => {
            "see that Redis listens there and nothing stands in between; a gateway starts without it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(eviction: &str, memory_max: u64, cache: &str) -> Vec<String> {
        let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let yaml = format!("workers: [{{url: http://127.0.0.1:1}}]\ncache: {{mode: {cache}}}\n");
        std::fs::write(path.path(), yaml).expect("it is written");
        let config = overdraft_config::Loader::new(path.path()).load().expect("it is good").config;
        let server =
            ServerInfo { eviction: eviction.to_owned(), memory_max, ..ServerInfo::default() };
        lossy(&server, &config).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn eviction_is_told_of_where_it_drops_budgets_or_refuses_writes() {
        assert_eq!(found("allkeys-lru", 0, "on"), Vec::<String>::new(), "it has no bound");
        assert_eq!(found("volatile-lru", 1 << 20, "on"), Vec::<String>::new());
        assert_eq!(found("noeviction", 1 << 20, "off"), Vec::<String>::new());
        assert!(found("allkeys-lru", 1 << 20, "off")[0].contains("may drop budgets"));
        assert!(found("noeviction", 1 << 20, "on")[0].contains("refuses writes"));
    }
}

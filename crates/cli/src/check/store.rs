//! Store check: whether Redis is reachable and the gateway may use it.

use overdraft_config::Config;
use overdraft_store::{Fault, Place, Store};

use super::preflight::{Finding, Report, Verdict};

/// Asks the store; nothing where a gateway is alone.
pub(super) async fn report(config: &Config) -> Option<Report> {
    let settings = crate::settings::store(&config.store);
    let finding = match (&settings.place, Store::open(&settings)) {
        (Place::Memory, _) => return None,
        (_, Err(error)) => Finding::new("store", Verdict::Fail, error.to_string()),
        (_, Ok(mut store)) => match store.ping().await {
            Ok(()) => Finding::new("store", Verdict::Ok, "answers, runs scripts and takes writes"),
            Err(fault) => Finding::new("store", Verdict::Fail, fault.to_string()).hint(hint(fault)),
        },
    };
    Some(Report {
        name: "store".to_owned(),
        url: settings.place.to_string(),
        findings: vec![finding],
    })
}

const fn hint(fault: Fault) -> &'static str {
    match fault {
        Fault::Password => "set the user and password in `store.url`, percent-encoded",
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

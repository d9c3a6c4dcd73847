//! TLS validation: rejects files that miss their other half and settings that nothing uses.

use http::HeaderName;

use super::findings::Findings;
use crate::node::{Step, shown};
use crate::tree::{Config, WorkerTls};

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    for (index, worker) in config.workers.iter().enumerate() {
        let place = path!["workers", index];
        let at = |key: &'static str| [place.as_slice(), &path!["tls", key]].concat();
        if worker.url.starts_with("http://") && !worker.tls.is_default() {
            let message =
                format!("`workers[{index}].tls` is set, and its `url` begins with `http://`");
            findings.value(&path!["workers", index, "url"], message, "expected `https://…`");
        }
        halves(&worker.tls, at, findings);
        key_header(worker.api_key_header.as_deref(), worker.api_key.is_some(), &place, findings);
    }
    for (index, discovery) in config.discovery.iter().enumerate() {
        let (kind, each) = discovery.each();
        let place = path!["discovery", index, kind, "each"];
        let at = |key: &'static str| [place.as_slice(), &path!["tls", key]].concat();
        if let Some(tls) = &each.tls {
            halves(tls, at, findings);
        }
        key_header(each.api_key_header.as_deref(), each.api_key.is_some(), &place, findings);
    }
}

fn halves(tls: &WorkerTls, at: impl Fn(&'static str) -> Vec<Step>, findings: &mut Findings<'_>) {
    let missing = match (&tls.certificate_file, &tls.key_file) {
        (Some(_), None) => Some(("certificate_file", "key_file")),
        (None, Some(_)) => Some(("key_file", "certificate_file")),
        _ => None,
    };
    if let Some((there, missing)) = missing {
        let message = format!("`{}` is set without `{missing}`", shown(&at(there)));
        findings.value(&at(there), message, "expected both, or neither");
    }
    if tls.insecure_skip_verify && (tls.ca_file.is_some() || tls.server_name.is_some()) {
        let path = at("insecure_skip_verify");
        let message = format!("`{}` believes everybody", shown(&path));
        findings.value(&path, message, "expected it without `ca_file` and `server_name`");
    }
}

fn key_header(name: Option<&str>, has_key: bool, place: &[Step], findings: &mut Findings<'_>) {
    let Some(name) = name else { return };
    let path = [place, &path!["api_key_header"]].concat();
    if HeaderName::try_from(name).is_err() {
        let message = format!("`{name}` is not the name of a header");
        findings.value(&path, message, "expected one as in `x-api-key`");
    } else if !has_key {
        let message = format!("`{}` is set without `api_key`", shown(&path));
        findings.value(&path, message, "expected the key that it carries");
    }
}

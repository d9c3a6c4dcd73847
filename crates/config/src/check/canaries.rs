//! Canary validation: rejects model canaries that cannot work.

use super::findings::Findings;
use super::served::served_models;
use crate::WorkerSource;
use crate::error::did_you_mean;
use crate::node::Step;
use crate::tree::Config;

/// Maximum canaries: each has metrics of its own.
const CANARIES_MAX: usize = 16;

pub(super) fn check(config: &Config, needed: WorkerSource, findings: &mut Findings<'_>) {
    let count = config.canaries.len();
    if CANARIES_MAX < count {
        let message = format!("{count} canaries are configured");
        findings.key(&path!["canaries"], message, format!("expected at most {CANARIES_MAX}"));
    }
    for (name, canary) in &config.canaries {
        let name = name.as_str();
        if canary.share.permille() == 0 {
            let expected = "expected more than 0 %; leave the canary out to try nothing";
            let path = path!["canaries", name, "share"];
            findings.value(&path, "a canary with a share of `0%` tries nothing", expected);
        }
        let path = path!["canaries", name, "model"];
        if canary.model == name {
            let message = format!("`{name}` is tried against itself");
            findings.value(&path, message, "expected another model or cascade");
        } else if config.canaries.contains_key(&canary.model) {
            let message = format!("`{}` is being compared with another itself", canary.model);
            findings.value(&path, message, "expected a model or cascade without a canary");
        } else {
            known(config, needed, name, &canary.model, findings);
        }
    }
}

fn known(
    config: &Config,
    needed: WorkerSource,
    name: &str,
    model: &str,
    findings: &mut Findings<'_>,
) {
    let Some(served) = served_models(config, needed) else { return };
    let aliases = config.models.values().flat_map(|model| model.aliases.iter().map(String::as_str));
    let cascades = config.cascades.keys().map(String::as_str);
    let names: Vec<&str> = served.into_iter().chain(aliases).chain(cascades).collect();
    if !names.contains(&model) {
        let meant = did_you_mean(model, &names);
        let message =
            format!("no worker serves the model `{model}`, and no cascade has that name{meant}");
        let path = path!["canaries", name, "model"];
        findings.value(&path, message, "expected a model, an alias or a cascade");
    }
}

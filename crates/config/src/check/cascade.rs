//! Cascade validation: rejects cascades that cannot work.

use super::findings::Findings;
use super::served::served_models;
use crate::WorkerSource;
use crate::error::did_you_mean;
use crate::node::Step;
use crate::tree::{Cascade, CascadeLabels, CascadeMode, CascadeScoring, Config};

/// Maximum cascades: each has metrics and a calibration of its own.
const CASCADES_MAX: usize = 64;

/// Maximum tokens of a window, which is buffered in memory.
const WINDOW_MAX: u32 = 4_096;

/// Comparisons at once, at most.
const AT_ONCE_MAX: u32 = 256;

pub(super) fn check(config: &Config, needed: WorkerSource, findings: &mut Findings<'_>) {
    let count = config.cascades.len();
    if CASCADES_MAX < count {
        let message = format!("{count} cascades are configured");
        findings.key(&path!["cascades"], message, format!("expected at most {CASCADES_MAX}"));
    }
    for (name, cascade) in &config.cascades {
        names(config, name, cascade, findings);
        served(config, needed, name, cascade, findings);
        figures(name, cascade, findings);
        tenants(config, name, cascade, findings);
    }
}

/// The models of a cascade are two, and its own name hides none.
fn names(config: &Config, name: &str, cascade: &Cascade, findings: &mut Findings<'_>) {
    let at = path!["cascades", name];
    if name.trim().is_empty() {
        findings.key(&at, "the name of a cascade is empty", "expected a name to ask for");
    }
    if let Some((model, _)) =
        config.models.iter().find(|(_, it)| it.aliases.iter().any(|a| a == name))
    {
        let message = format!("the cascade `{name}` hides the alias of `{model}`");
        findings.key(&at, message, "expected a model, or a name that is no alias");
    }
    let target = cascade.target.as_deref().unwrap_or(name);
    let mut models = config.workers.iter().filter_map(|worker| worker.model.as_deref());
    let is_model = config.models.contains_key(name) || models.any(|model| model == name);
    if is_model && target != name {
        let message = format!("the cascade `{name}` hides the model of that name");
        let expected = "expected a name that no model has, or no `target`";
        findings.key(&at, message, expected);
    }
    if cascade.draft == target {
        let message = format!("`{target}` is the draft and the target of `{name}`");
        let path = path!["cascades", name, "draft"];
        findings.value(&path, message, "expected a smaller model than the target");
    }
}

fn served(
    config: &Config,
    needed: WorkerSource,
    name: &str,
    cascade: &Cascade,
    findings: &mut Findings<'_>,
) {
    let Some(served) = served_models(config, needed) else { return };
    let wanted = [("draft", Some(cascade.draft.as_str())), ("target", cascade.target.as_deref())];
    for (key, model) in wanted {
        let Some(model) = model.filter(|model| !served.contains(model)) else { continue };
        let meant = did_you_mean(model, &served);
        let message = format!("no worker serves the model `{model}`{meant}");
        let expected = "expected a model that a worker of `workers` has as its `model`";
        findings.value(&path!["cascades", name, key], message, expected);
    }
    if cascade.target.is_none() && !served.contains(&name) {
        let meant = did_you_mean(name, &served);
        let message =
            format!("no worker serves the model `{name}`{meant}, and there is no `target`");
        let expected = "expected the name of a model, or `target`: the model that answers";
        findings.key(&path!["cascades", name], message, expected);
    }
}

fn figures(name: &str, cascade: &Cascade, findings: &mut Findings<'_>) {
    if cascade.loss.permille() == 0 {
        let message = format!("with a loss of `0%`, `{name}` could give no draft's answer");
        let path = path!["cascades", name, "loss"];
        findings.value(&path, message, "expected more than `0%`, or `mode: verify`");
    }
    for (key, tokens) in [("first", cascade.window.first), ("next", cascade.window.next)] {
        if !(1..=WINDOW_MAX).contains(&tokens) {
            let message = format!("a window of `{tokens}` tokens");
            let path = path!["cascades", name, "window", key];
            findings.value(&path, message, format!("expected 1 to {WINDOW_MAX}"));
        }
    }
    in_vain(name, cascade, findings);
    let shadow = cascade.shadow;
    if shadow.share < shadow.floor {
        let message = format!(
            "`{}` of the requests are compared at first, and later `{}`",
            shadow.share, shadow.floor
        );
        let path = path!["cascades", name, "shadow", "floor"];
        findings.value(&path, message, "expected `floor` to be at most `share`");
    }
    if !(1..=AT_ONCE_MAX).contains(&shadow.at_once) {
        let message = format!("`{}` comparisons at once", shadow.at_once);
        let path = path!["cascades", name, "shadow", "at_once"];
        let expected = format!("expected 1 to {AT_ONCE_MAX}; `share: 0%` compares nothing");
        findings.value(&path, message, expected);
    }
}

/// What a mode makes nothing of.
fn in_vain(name: &str, cascade: &Cascade, findings: &mut Findings<'_>) {
    if cascade.prefill_from.is_some() && cascade.mode != CascadeMode::Gate {
        let message = "the target reads no prompt beside a draft in this mode";
        let path = path!["cascades", name, "prefill_from"];
        findings.value(&path, message, "expected `mode: gate`, or no `prefill_from`");
    }
    if cascade.scoring != CascadeScoring::Auto && cascade.mode != CascadeMode::Verify {
        let message = "the target scores no drafts in this mode";
        let path = path!["cascades", name, "scoring"];
        findings.value(&path, message, "expected `mode: verify`, or no `scoring`");
    }
    if cascade.shadow.labels == CascadeLabels::Judge && cascade.mode == CascadeMode::Verify {
        let message = "verified answers are compared by their tokens, and nobody judges";
        let path = path!["cascades", name, "shadow", "labels"];
        findings.value(&path, message, "expected `match`, or another `mode`");
    }
}

/// Where keys are configured, a tenant without one is a slip. A file of keys changes by itself: that it takes the last
/// key of a tenant back must not be refused for this.
fn tenants(config: &Config, name: &str, cascade: &Cascade, findings: &mut Findings<'_>) {
    if config.keys.is_empty() || config.keys_file.is_some() || config.jwt.is_some() {
        return;
    }
    let known: Vec<&str> = config.keys.iter().map(|key| key.tenant.as_str()).collect();
    for (index, tenant) in cascade.tenants_out.iter().enumerate() {
        if !known.contains(&tenant.as_str()) {
            let meant = did_you_mean(tenant, &known);
            let message = format!("no key is `{tenant}`'s{meant}");
            let path = path!["cascades", name, "tenants_out", index];
            findings.value(&path, message, "expected the `tenant` of one of `keys`");
        }
    }
}

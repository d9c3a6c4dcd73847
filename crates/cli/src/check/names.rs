//! Names check: models that the configuration names and no worker serves.
//!
//! What workers serve is known once all of them were asked, so a slip that the file alone cannot show is found here:
//! clients would get 404, or the draft of a cascade would never be asked.

use overdraft_config::Config;

use super::finding::{Finding, Report, Verdict};

/// Findings at most; more would bury the first.
const FINDINGS_MAX: usize = 16;

/// Names that nobody serves; nothing where not all workers of `asked` told their models, or there is none.
pub(super) fn report(config: &Config, asked: &[Report]) -> Option<Report> {
    let all: Option<Vec<&Vec<String>>> =
        asked.iter().map(|report| report.models.as_ref()).collect();
    let served: Vec<&str> = all?.into_iter().flatten().map(String::as_str).collect();
    if served.is_empty() {
        return None;
    }
    let known = Known { config, served };
    let unknown = named(config).into_iter().filter(|named| !known.has(named));
    let findings: Vec<Finding> = unknown.take(FINDINGS_MAX).map(|named| finding(&named)).collect();
    (!findings.is_empty()).then(|| Report::of("names", findings))
}

fn finding(named: &Named<'_>) -> Finding {
    let Named { place, model, .. } = named;
    let message = format!("`{place}` names `{model}`, which no worker serves");
    Finding::new("names", Verdict::Warn, message).hint(
        "correct the name, or start a worker that serves it: clients get 404 for it until then",
    )
}

/// What a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// A model of a worker alone.
    Model,
    /// Whatever clients may ask for.
    Asked,
}

/// A name and the key that has it.
struct Named<'a> {
    place: String,
    model: &'a str,
    stands: Stands,
}

/// All names of models in the configuration, but for those of a keys file, which somebody else may write.
fn named(config: &Config) -> Vec<Named<'_>> {
    let mut all = Vec::new();
    let mut add = |place: String, model, stands| all.push(Named { place, model, stands });
    if let Some(model) = &config.model_default {
        add("model_default".to_owned(), model.as_str(), Stands::Asked);
    }
    for (name, cascade) in &config.cascades {
        let target = cascade.target.as_deref().unwrap_or(name);
        add(format!("cascades.{name}.draft"), cascade.draft.as_str(), Stands::Model);
        add(format!("cascades.{name}.target"), target, Stands::Model);
    }
    for (name, canary) in &config.canaries {
        add(format!("canaries.{name}.model"), canary.model.as_str(), Stands::Asked);
    }
    for (name, model) in &config.models {
        for other in &model.fallback {
            add(format!("models.{name}.fallback"), other.as_str(), Stands::Asked);
        }
    }
    for (index, key) in config.keys.iter().enumerate() {
        for model in key.models.iter().flatten() {
            add(format!("keys[{index}].models"), model.as_str(), Stands::Asked);
        }
    }
    all
}

/// What names stand for.
struct Known<'a> {
    config: &'a Config,
    served: Vec<&'a str>,
}

impl Known<'_> {
    fn has(&self, named: &Named<'_>) -> bool {
        let Self { config, served } = self;
        let name = named.model;
        // A model without a worker may be woken by its first request.
        let wakes = config.models.get(name).is_some_and(|own| own.wake.is_some());
        let is_alias = |alias: &String| match alias.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => alias == name,
        };
        served.contains(&name)
            || wakes
            || config.models.values().flat_map(|own| &own.aliases).any(is_alias)
            || named.stands == Stands::Asked
                && (config.cascades.contains_key(name) || config.canaries.contains_key(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, expected: &[&str]) {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let workers = "workers: [{url: 'http://127.0.0.1:1'}, {url: 'http://127.0.0.1:2'}]\n";
        std::fs::write(file.path(), format!("{workers}{yaml}")).expect("it is written");
        let loaded = overdraft_config::Loader::new(file.path()).load();
        let config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
        let told = |models: Option<&[&str]>| {
            let models = models.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            Report { models, ..Report::of("w", Vec::new()) }
        };
        let asked = [told(Some(&["large"])), told(Some(&["small", "large"]))];
        let findings = report(&config, &asked).map(|report| report.findings).unwrap_or_default();
        let messages: Vec<String> = findings.into_iter().map(|one| one.message).collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|place| format!("`{place}` names `nope`, which no worker serves"))
            .collect();
        assert_eq!(messages, expected);
        // Where one did not answer, it may be the one that serves the name.
        assert!(report(&config, &[told(Some(&["large"])), told(None)]).is_none());
        assert!(report(&config, &[]).is_none());
    }

    #[test]
    fn names_that_nobody_serves_are_warned_of() {
        check("model_default: nope\n", &["model_default"]);
        check("cascades: {c: {draft: nope, target: large}}\n", &["cascades.c.draft"]);
        check("cascades: {nope: {draft: small}}\n", &["cascades.nope.target"]);
        check("models: {large: {fallback: [small, nope]}}\n", &["models.large.fallback"]);
        let keys = "keys: [{tenant: a, key: abcdefghijklmnop, models: [large, nope]}]\n";
        check(keys, &["keys[0].models"]);
    }

    #[test]
    fn aliases_cascades_and_models_that_wake_are_served() {
        check("model_default: chat\nmodels: {large: {aliases: [chat, 'gpt-*']}}\n", &[]);
        check("model_default: gpt-4\nmodels: {large: {aliases: ['gpt-*']}}\n", &[]);
        check("model_default: c\ncascades: {c: {draft: small, target: large}}\n", &[]);
    }
}

//! A configuration file as one more fleet of `overdraft simulate`.
//!
//! What the file says of routing, admission, waiting, retries, hedging, scrapes, KV events, answers that are
//! given again and guessing counts as it would live; the fleet itself and the load are the command line's.

use std::path::{Path, PathBuf};

use overdraft_config::{Config, KvEvents, Loader, WorkerSource};
use overdraft_core::admit::ByPriority;
use overdraft_core::route::Policy;
use overdraft_gateway::CacheMode;
use overdraft_gpu_model::Catalogue;
use overdraft_scheduler::speculate::Policy as Depth;
use overdraft_sim::fleet::{AnswerCache, CacheKnowledge, LOOK_UP_DEFAULT, Pool, Scenario};
use overdraft_units::Micros;

use crate::fault::Fault;
use crate::settings;
use crate::simulate::{self, Arguments};
use crate::workload_options::Load;

/// What to call the fleets of these files, each by a name of its own: runs of one label count as seeds of one
/// fleet. That is a file's stem, or its path as typed where another file or a policy has that name.
///
/// # Errors
/// A file that is given twice.
pub(crate) fn labels(paths: &[PathBuf]) -> Result<Vec<String>, Fault> {
    for (place, path) in paths.iter().enumerate() {
        if paths.iter().take(place).any(|before| plain(before) == plain(path)) {
            let why =
                format!("`--config {}` is given twice; expected each file once", path.display());
            return Err(Fault::input(why).hint("`--seeds` runs a fleet several times"));
        }
    }
    Ok(paths.iter().map(|path| label(path, paths)).collect())
}

fn label(path: &Path, all: &[PathBuf]) -> String {
    let (short, typed) = (stem(path), path.display().to_string());
    let is_policy = |name: &str| name.parse::<Policy>().is_ok();
    let mut others = all.iter().filter(|other| other.as_path() != path);
    let is_shared =
        others.any(|other| stem(other) == short || other.display().to_string() == short);
    if !is_shared && !is_policy(&short) {
        short
    } else if is_policy(&typed) {
        format!("./{typed}")
    } else {
        typed
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The path without a leading `./`.
fn plain(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

/// The fleet that the file at `path` makes.
///
/// # Errors
/// A file that cannot be used, or decisions that cannot be simulated.
pub(crate) fn fleet(
    arguments: &Arguments,
    path: &Path,
    load: &Load,
    pools: &[Pool],
    profiles: &Catalogue,
) -> Result<Scenario, Fault> {
    let loaded = Loader::new(path).with_workers(WorkerSource::Elsewhere).load()?;
    let settings = settings::gateway(&loaded.config, Vec::new());
    let route = settings.routing.route;
    let mut scenario = simulate::scenario(arguments, load, pools, route.policy)?;
    arguments.decisions.add_cascade(&mut scenario, profiles)?;
    scenario.routing = route;
    scenario.queue = settings.admission.queue;
    let patience = settings.admission.first_token;
    scenario.patience = ByPriority {
        flex: patience.flex.into(),
        default: patience.default.into(),
        priority: patience.priority.into(),
    };
    scenario.hedging = settings.hedging;
    if loaded.config.workers.iter().any(|one| matches!(one.kv_events, KvEvents::At(_))) {
        scenario.knowledge = CacheKnowledge::Reported;
    }
    scenario.retry = settings.retry;
    scenario.scrape_every = Micros::from(settings.scrape.interval).max(Micros::new(1_000));
    scenario.cache = (settings.cache.mode == CacheMode::On).then(|| AnswerCache {
        bytes: settings.cache.memory_bytes,
        kept: Micros::from(settings.cache.life),
        takes: LOOK_UP_DEFAULT,
    });
    scenario.speculation = match depth(&loaded.config)? {
        Some(Depth::Off) => None,
        said => arguments.decisions.guessing(said)?,
    };
    Ok(scenario)
}

/// The rule for the depth of drafts that the file names.
fn depth(config: &Config) -> Result<Option<Depth>, Fault> {
    let said = config.speculation.policy.as_deref();
    let parsed = said.map(str::parse::<Depth>).transpose();
    parsed.map_err(|error| Fault::input(format!("`speculation.policy`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paths: &[&str], expected: &[&str]) {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        assert_eq!(labels(&paths).expect("each file is given once"), expected);
    }

    #[test]
    fn every_file_has_a_label_that_no_other_file_and_no_policy_has() {
        check(&["write-up.yaml", "b/defaults.yaml"], &["write-up", "defaults"]);
        check(&["a/gateway.yaml", "b/gateway.yaml"], &["a/gateway.yaml", "b/gateway.yaml"]);
        check(&["cost.yaml", "mine.yaml"], &["cost.yaml", "mine"]);
        check(&["cost"], &["./cost"]);
        // The path of the first is the stem of the third.
        let paths = ["one.yaml", "b/one.yaml", "c/one.yaml.old"];
        check(&paths, &paths);
    }

    #[test]
    fn a_file_that_is_given_twice_is_refused() {
        for paths in [["a.yaml", "a.yaml"], ["a.yaml", "./a.yaml"]] {
            let told = labels(&paths.map(PathBuf::from)).expect_err("one file, two fleets");
            assert!(format!("{told:?}").contains("is given twice"), "{told:?}");
        }
    }
}

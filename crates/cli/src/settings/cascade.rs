//! Cascade settings: maps the sections `cascades` and `canaries` to the gateway's.

use std::collections::BTreeMap;

use overdraft_config as config;
use overdraft_core::cascade::{Mode, Path, Shadow};
use overdraft_gateway::{CanarySettings, CascadeSettings, Labels};
use overdraft_units::{Ratio, Tokens};

use super::prices::of_tokens;

/// The section `cascades`.
pub(super) fn cascades(
    configured: &BTreeMap<String, config::Cascade>,
) -> BTreeMap<String, CascadeSettings> {
    configured.iter().map(|(name, own)| (name.clone(), cascade(name, own))).collect()
}

/// The section `canaries`.
pub(super) fn canaries(
    configured: &BTreeMap<String, config::ModelCanary>,
) -> BTreeMap<String, CanarySettings> {
    let canary = |own: &config::ModelCanary| CanarySettings {
        model: own.model.clone(),
        share_permille: own.share.permille(),
        prices: own.prices.map(|own| [of_tokens(own.baseline), of_tokens(own.canary)]),
    };
    configured.iter().map(|(name, own)| (name.clone(), canary(own))).collect()
}

/// One of them.
pub(crate) fn cascade(name: &str, own: &config::Cascade) -> CascadeSettings {
    let shadow = Shadow::default();
    let none = own.shadow.share.permille() == 0;
    CascadeSettings {
        draft: own.draft.clone(),
        target: own.target.clone().unwrap_or_else(|| name.to_owned()),
        mode: match own.mode {
            config::CascadeMode::Off => Mode::Off,
            config::CascadeMode::Gate => Mode::Gate,
            config::CascadeMode::Verify => Mode::Verify,
            config::CascadeMode::Shadow => Mode::Shadow,
        },
        loss: own.loss.ratio(),
        threshold: match own.threshold {
            config::CascadeThreshold::Auto => None,
            config::CascadeThreshold::Fixed(share) => Some(share.ratio()),
        },
        slowdown: match own.slowdown {
            config::CascadeSlowdown::Any => None,
            config::CascadeSlowdown::Share(share) => Some(share.ratio()),
        },
        first_window: own.window.first,
        next_window: own.window.next,
        scoring: match own.scoring {
            config::CascadeScoring::Auto => None,
            config::CascadeScoring::Completions => Some(Path::Completions),
            config::CascadeScoring::Generate => Some(Path::Generate),
            config::CascadeScoring::Sglang => Some(Path::Sglang),
        },
        prefill_from: own.prefill_from.map(Tokens::new),
        any_tokenizers: own.tokenizers == config::CascadeTokenizers::Any,
        labels: match own.shadow.labels {
            config::CascadeLabels::Match => Labels::Match,
            config::CascadeLabels::Judge => Labels::Judge,
        },
        shadow: Shadow {
            start: own.shadow.share.ratio(),
            floor: own.shadow.floor.ratio(),
            learning: if none { Ratio::NONE } else { shadow.learning },
            ..shadow
        },
        at_once: usize::try_from(own.shadow.at_once).unwrap_or(usize::MAX),
        prices: own.prices.map(|prices| [of_tokens(prices.draft), of_tokens(prices.target)]),
        tenants_out: own.tenants_out.iter().cloned().collect(),
        log: None,
    }
}

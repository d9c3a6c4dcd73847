//! Routing settings: maps the sections `routing` and `models` to the gateway's.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use http::HeaderName;
use overdraft_config as config;
use overdraft_core::admit::AdmitSettings;
use overdraft_core::deadline::{DeadlineSettings, Patience};
use overdraft_core::prefix::PrefixLimits;
use overdraft_core::route::{Canary, FitScore, RouteSettings, Sticky};
use overdraft_gateway::{
    ModelSettings, RoutingSettings, SessionKey, TEXT_CHUNK, TokenizerPlace, Tokenizing,
};
use overdraft_units::Micros;
use overdraft_wire::dialect::Dialect;

/// The section `routing`, with what `models` say differently.
pub(super) fn routing(
    configured: &config::Routing,
    timeouts: &config::Timeouts,
    models: &BTreeMap<String, config::Model>,
) -> RoutingSettings {
    let chunk = u32::try_from(configured.text_chunk.bytes()).ok().and_then(NonZeroU32::new);
    let route = RouteSettings { deadlines: deadlines(timeouts), ..route(configured) };
    RoutingSettings {
        route,
        session: configured.sticky.as_ref().map(session).unwrap_or_default(),
        tokenizing: tokenizing(configured.tokenize),
        text_chunk: chunk.unwrap_or(TEXT_CHUNK),
        prefix: PrefixLimits { keys_max: configured.prefix.keys_max },
        models: models.iter().map(|(name, own)| (name.clone(), model(own, &route))).collect(),
        // Said on the command line.
        names_prefixes: false,
    }
}

fn route(configured: &config::Routing) -> RouteSettings {
    let slow_start = configured.slow_start.duration().as_micros();
    let fit_score = configured.fit_score;
    RouteSettings {
        policy: configured.policy.into(),
        canary: configured.canary.map(canary),
        sticky: configured.sticky.as_ref().map(sticky),
        slow_start: Micros::new(u64::try_from(slow_start).unwrap_or(u64::MAX)),
        fit_score: FitScore {
            kv_weight_permille: fit_score.kv_weight.permille(),
            kv_weight_long_permille: fit_score.kv_weight_long.permille(),
            long_prompt_tokens: fit_score.long_prompt_tokens,
            token_budget: fit_score.token_budget,
        },
        // What is said of admission and of deadlines stands in sections of their own.
        admission: AdmitSettings::default(),
        deadlines: DeadlineSettings::default(),
    }
}

fn deadlines(timeouts: &config::Timeouts) -> DeadlineSettings {
    DeadlineSettings {
        first_token: patience(timeouts.first_byte),
        stall: patience(timeouts.idle),
        total: patience(timeouts.total),
    }
}

fn patience(limit: config::TimeLimit) -> Patience {
    limit.span().map_or(Patience::Auto, |span| span.duration().into())
}

/// What a model does not say is as for all.
fn model(own: &config::Model, all: &RouteSettings) -> ModelSettings {
    let is_routed = own.policy.is_some() || own.canary.is_some() || own.sticky.is_some();
    let differs = is_routed || !own.timeouts.is_empty();
    let deadlines = DeadlineSettings {
        first_token: own.timeouts.first_byte.map_or(all.deadlines.first_token, patience),
        stall: own.timeouts.idle.map_or(all.deadlines.stall, patience),
        total: own.timeouts.total.map_or(all.deadlines.total, patience),
    };
    let route = RouteSettings {
        policy: own.policy.map_or(all.policy, Into::into),
        canary: own.canary.map(canary).or(all.canary),
        sticky: own.sticky.as_ref().map(sticky).or(all.sticky),
        deadlines,
        ..*all
    };
    ModelSettings {
        aliases: own.aliases.clone(),
        route: differs.then_some(route),
        session: own.sticky.as_ref().map(session),
        cache: own.cache.map(super::cache::reuse),
        revision: own.revision.clone(),
        fallback: own.fallback.clone(),
        // `maintenance::wakes` adds it.
        wake: None,
        passed: passed(own.dialects),
        tokenizer: match &own.tokenizer {
            config::Tokenizer::Worker => TokenizerPlace::Worker,
            config::Tokenizer::Off => TokenizerPlace::Off,
            config::Tokenizer::Path(path) => TokenizerPlace::Folder(path.clone()),
        },
    }
}

/// The dialects that are not translated.
fn passed(configured: config::Dialects) -> Vec<Dialect> {
    let ways =
        [(Dialect::Messages, configured.messages), (Dialect::Responses, configured.responses)];
    let passed = ways.into_iter().filter(|(_, way)| *way == config::DialectWay::Pass);
    passed.map(|(dialect, _)| dialect).collect()
}

fn canary(configured: config::Canary) -> Canary {
    Canary { policy: configured.policy.into(), share_permille: configured.share.permille() }
}

const fn sticky(configured: &config::Sticky) -> Sticky {
    Sticky { load_permille: configured.load_factor.permille() }
}

fn session(configured: &config::Sticky) -> SessionKey {
    match &configured.header {
        config::StickyKey::User => SessionKey::User,
        config::StickyKey::Header(name) => HeaderName::from_bytes(name.as_bytes())
            .map_or_else(|_| SessionKey::default(), SessionKey::Header),
    }
}

const fn tokenizing(configured: config::Tokenize) -> Tokenizing {
    match configured {
        config::Tokenize::Auto => Tokenizing::Auto,
        config::Tokenize::Always => Tokenizing::Always,
        config::Tokenize::Never => Tokenizing::Never,
    }
}

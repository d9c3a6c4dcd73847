//! Routing settings and model aliases: how the requests for each model are routed.
//!
//! This is data from the configuration, looked up once per request. An alias is resolved before
//! anything else, so that routing, metrics and the worker see one name.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_core::prefix::PrefixLimits;
use overdraft_core::response_cache::Reuse;
use overdraft_core::route::RouteSettings;
use overdraft_wire::RequestPeek;
use overdraft_wire::dialect::Dialect;
use xxhash_rust::xxh3::xxh3_64;

use super::{CascadeSettings, WebhookSettings};

/// Bytes per chunk of a prompt whose tokens are not known: about as many tokens as eight KV blocks.
pub const TEXT_CHUNK: NonZeroU32 = NonZeroU32::new(512).expect("512 is not zero");

/// What an alias ends with that stands for all names which begin like it.
const ANY: char = '*';

/// How requests are routed.
#[derive(Clone, Debug)]
pub struct RoutingSettings {
    /// For every model that is not named below.
    pub route: RouteSettings,
    /// What a session is, where sessions stick.
    pub session: SessionKey,
    /// When prompts are tokenised.
    pub tokenizing: Tokenizing,
    /// Bytes to a chunk of a prompt whose tokens are not known.
    pub text_chunk: NonZeroU32,
    /// How large the index of prefixes may become; fixed when the gateway starts.
    pub prefix: PrefixLimits,
    /// What differs for single models.
    pub models: BTreeMap<String, ModelSettings>,
    /// Whether access lines name the beginnings of prompts.
    pub names_prefixes: bool,
}

impl Default for RoutingSettings {
    fn default() -> Self {
        Self {
            route: RouteSettings::default(),
            session: SessionKey::default(),
            tokenizing: Tokenizing::default(),
            text_chunk: TEXT_CHUNK,
            prefix: PrefixLimits::default(),
            models: BTreeMap::new(),
            names_prefixes: false,
        }
    }
}

/// What is said of one model.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// Other names that clients may use for it; one that ends with `*` stands for all names that begin so.
    pub aliases: Vec<String>,
    /// How its requests are routed, if not like the others.
    pub route: Option<RouteSettings>,
    /// What a session is, if not as for the others.
    pub session: Option<SessionKey>,
    /// Where its tokenizer is.
    pub tokenizer: TokenizerPlace,
    /// Which of its answers are given again, if not as for the others.
    pub cache: Option<Reuse>,
    /// Which weights, quantisation and template are behind the name; answers of another revision are not
    /// given again. Without it, what a worker tells of the model.
    pub revision: Option<String>,
    /// Models that are asked where nobody can serve it.
    pub fallback: Vec<String>,
    /// Who is told when no worker of it is up while requests for it are held, or a cascade would ask it first.
    pub wake: Option<WebhookSettings>,
    /// The dialects whose requests its workers get as they came; others are translated.
    pub passed: Vec<Dialect>,
}

/// What tells that two requests belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKey {
    /// Equal values of this header.
    Header(HeaderName),
    /// Equal values of the field `user`.
    User,
}

impl Default for SessionKey {
    fn default() -> Self {
        Self::Header(HeaderName::from_static("x-session-id"))
    }
}

/// When prompts are tokenised before they are routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokenizing {
    /// When a worker that may be chosen reports its cache by tokens; otherwise text will do.
    #[default]
    Auto,
    /// Whenever the tokenizer is known.
    Always,
    /// Never.
    Never,
}

/// Where a model's tokenizer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenizerPlace {
    /// At the worker, if it gives it.
    #[default]
    Worker,
    /// In a folder with `tokenizer.json`, as Hugging Face has it.
    Folder(PathBuf),
    /// Nowhere: the model's prompts are never tokenised.
    Off,
}

/// The settings, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) settings: RoutingSettings,
    /// Alias to model.
    aliases: BTreeMap<String, String>,
    /// Beginnings of names and the models behind them, the longest first.
    patterns: Vec<(String, String)>,
}

impl Routes {
    pub(crate) fn new(
        settings: RoutingSettings,
        cascades: &BTreeMap<String, CascadeSettings>,
    ) -> Self {
        let aliases = settings.models.iter().flat_map(|(model, own)| {
            own.aliases.iter().map(move |alias| (alias.clone(), model.clone()))
        });
        // A cascade of another name than its target's is known as the target, but for the draft.
        let cascades = cascades.iter().filter(|(name, cascade)| **name != cascade.target);
        let cascades = cascades.map(|(name, cascade)| (name.clone(), cascade.target.clone()));
        let all: BTreeMap<String, String> = aliases.chain(cascades).collect();
        let (patterns, aliases): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(alias, _)| alias.ends_with(ANY));
        let beginning =
            |(alias, model): (String, String)| (alias.trim_end_matches(ANY).to_owned(), model);
        let mut patterns: Vec<(String, String)> = patterns.into_iter().map(beginning).collect();
        patterns.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        Self { settings, aliases, patterns }
    }

    /// Whether requests for `model` in `dialect` go to its workers as they came.
    pub(crate) fn passes(&self, model: &str, dialect: Dialect) -> bool {
        self.settings.models.get(model).is_some_and(|own| own.passed.contains(&dialect))
    }

    /// Whether they do for any model.
    pub(crate) fn passes_any(&self, dialect: Dialect) -> bool {
        self.settings.models.values().any(|own| own.passed.contains(&dialect))
    }

    /// Whether other models stand in for this one.
    pub(crate) fn has_fallback(&self, model: &str) -> bool {
        self.settings.models.get(model).is_some_and(|own| !own.fallback.is_empty())
    }

    /// The model that is meant, where `name` is an alias.
    pub(crate) fn model_behind(&self, name: &str) -> Option<&str> {
        if let Some(model) = self.aliases.get(name) {
            return Some(model);
        }
        // A model that is named here is no other one, whatever it is called.
        let named = |(beginning, _): &&(String, String)| name.starts_with(beginning.as_str());
        let found = self.patterns.iter().find(named)?;
        (!self.settings.models.contains_key(name)).then_some(&found.1)
    }

    /// Whether `pattern` is an alias for all names that begin so, `name` is one of them, and both mean the same model:
    /// a longer pattern may have given the name to another one.
    pub(crate) fn stands_for(&self, pattern: &str, name: &str) -> bool {
        let Some(beginning) = pattern.strip_suffix(ANY) else { return false };
        let means_the_same = |(own, model): &(String, String)| {
            own == beginning && self.model_behind(name) == Some(model.as_str())
        };
        name.starts_with(beginning) && self.patterns.iter().any(means_the_same)
    }

    /// Aliases and the models behind them, without those that stand for many names.
    pub(crate) fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().map(|(alias, model)| (alias.as_str(), model.as_str()))
    }

    /// How requests for `model` are routed.
    pub(crate) fn route(&self, model: &str) -> &RouteSettings {
        let own = self.settings.models.get(model).and_then(|own| own.route.as_ref());
        own.unwrap_or(&self.settings.route)
    }

    /// Whether a policy that routes `model` asks where its prefixes are.
    pub(crate) fn asks_for_prefixes(&self, model: &str) -> bool {
        let route = self.route(model);
        route.policy.asks_for_prefixes()
            || route.canary.is_some_and(|canary| canary.policy.asks_for_prefixes())
    }

    /// Where the tokenizer of `model` is.
    pub(crate) fn tokenizer(&self, model: &str) -> TokenizerPlace {
        let own = self.settings.models.get(model);
        own.map_or_else(TokenizerPlace::default, |own| own.tokenizer.clone())
    }

    /// Whether tokenizers are looked for in the same places.
    pub(crate) fn has_same_tokenizers(&self, other: &Self) -> bool {
        let places = |routes: &Self| {
            let models = routes.settings.models.iter();
            let places = models.map(|(name, own)| (name.clone(), own.tokenizer.clone()));
            places.filter(|(_, place)| *place != TokenizerPlace::Worker).collect::<Vec<_>>()
        };
        self.settings.tokenizing == other.settings.tokenizing && places(self) == places(other)
    }

    /// The request's session as a number, if it has one and sessions stick.
    pub(crate) fn session(
        &self,
        model: &str,
        head: &HeaderMap,
        peek: &RequestPeek<'_>,
    ) -> Option<u64> {
        self.route(model).sticky?;
        let own = self.settings.models.get(model).and_then(|own| own.session.as_ref());
        let value = match own.unwrap_or(&self.settings.session) {
            SessionKey::Header(name) => head.get(name).map(HeaderValue::as_bytes),
            SessionKey::User => peek.user.as_deref().map(str::as_bytes),
        };
        value.filter(|value| !value.is_empty()).map(xxh3_64)
    }
}

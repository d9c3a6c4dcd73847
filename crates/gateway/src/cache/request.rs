//! Cache key: whether a request is looked up, and under which key.
//!
//! The key is the SHA-256 over all that decides on the answer, each part with its length before it:
//! the tenant, the endpoint, the model behind the alias, its revision and the pool that serves it,
//! the client's headers that its worker is sent, and fields. Every field that
//! `core::response_cache` puts into the key is there in its canonical form.

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_core::response_cache::{Asked, Bypass, Effect, Key, Plan, Reuse, Wish, effect, plan};
use overdraft_store::{NAME_BYTES, Name};
use overdraft_telemetry::Delivery;
use overdraft_wire::json::Object;
use overdraft_wire::json::canonical::{self, CanonicalMember, Uncanonical};
use overdraft_wire::{ApiError, RequestPeek};
use ring::digest;

use super::Cache;
use crate::pipeline::context::RequestContext;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::upstream_body::Content;
use crate::pipeline::usage::Counts;
use crate::settings::{CacheMode, CacheSettings, Pool};
use crate::upstream::headers;

/// What a request says of the cache, and what it is told.
const WISH: HeaderName = HeaderName::from_static("x-overdraft-cache");

/// The form of keys; a change of what enters them is a new one.
const SCHEMA: &[u8] = b"overdraft answer 1";

/// The form of keys of requests whose workers are sent headers of the client's.
const SCHEMA_WITH_HEADERS: &[u8] = b"overdraft answer 1 with headers";

/// A request that may be looked up.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    pub(crate) name: Name,
    pub(crate) form: Form,
    /// Choices that were asked for.
    pub(crate) choices: u32,
    /// Whether it may be answered by what is kept.
    pub(crate) looks_up: bool,
    /// What a worker is asked: a stream always tells its usage, so that it can serve all forms.
    pub(crate) content: Content,
}

/// How the answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Whole,
    Events,
    EventsWithUsage,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Seeking {
    /// There is no cache.
    Off,
    /// It goes past the cache.
    Past(Bypass),
    Sought(Box<Sought>),
}

/// Looks at a request with the eyes of the cache.
pub(crate) fn seek(
    cache: &Cache,
    context: &RequestContext<'_>,
    content: &Content,
    info: &RequestInfo,
) -> Result<Seeking, ApiError> {
    let settings = cache.pipeline.settings();
    let set = &settings.cache;
    if set.mode == CacheMode::Off || !context.endpoint.is_cacheable() {
        return Ok(Seeking::Off);
    }
    let wish = wish(&context.head.headers)?;
    let own = cache.pipeline.routes().settings.models.get(&info.model).and_then(|own| own.cache);
    let reuse = reuse(set.reuse, own, info.caller.reuse());
    // What is kept away anyway is not hashed.
    if let Plan::Bypass(why) = plan(reuse, wish, Asked { is_greedy: true, ..Asked::default() }) {
        return Ok(Seeking::Past(why));
    }
    let peek = RequestPeek::parse(&content.body)?;
    let read = fields(set, &peek.object);
    let asked = match &read {
        Ok(fields) => Asked {
            is_greedy: fields.has("temperature", |value| value == b"0"),
            is_seeded: fields.has("seed", |value| value != b"null"),
            without_key: None,
        },
        Err(why) => Asked { without_key: Some(*why), ..Asked::default() },
    };
    let looks_up = match plan(reuse, wish, asked) {
        Plan::Bypass(why) => return Ok(Seeking::Past(why)),
        Plan::LookUp => true,
        Plan::Refresh => false,
    };
    let Ok(fields) = read else { return Ok(Seeking::Past(Bypass::Ambiguous)) };
    let form = match (info.delivery, info.counts) {
        (Delivery::Whole, _) => Form::Whole,
        (Delivery::Streamed, Counts::KeptBack) => Form::Events,
        (Delivery::Streamed, Counts::Relayed) => Form::EventsWithUsage,
    };
    let passing = settings.headers.as_deref();
    let sent = passing.map(|passing| headers::named(&context.head.headers, passing));
    let sent = sent.unwrap_or_default();
    Ok(Seeking::Sought(Box::new(Sought {
        name: name(cache, context.endpoint.path(), info, &sent, &fields),
        form,
        choices: peek.choices(),
        looks_up,
        content: content.clone(),
    })))
}

/// Off wins, then the key's word, then the model's.
fn reuse(general: Reuse, model: Option<Reuse>, key: Option<Reuse>) -> Reuse {
    if model == Some(Reuse::Off) || key == Some(Reuse::Off) {
        return Reuse::Off;
    }
    key.or(model).unwrap_or(general)
}

/// What the head wishes; our own header counts before the general one.
fn wish(head: &HeaderMap) -> Result<Wish, ApiError> {
    if let Some(value) = head.get(WISH) {
        return match value.as_bytes() {
            b"on" => Ok(Wish::Reuse),
            b"off" => Ok(Wish::Avoid),
            b"refresh" => Ok(Wish::Refresh),
            other => {
                let clipped = &other[..other.len().min(40)];
                let shown = String::from_utf8_lossy(clipped);
                let why =
                    format!("`{shown}` is not an `{WISH}`; expected `on`, `off` or `refresh`");
                Err(ApiError::invalid(WISH.as_str(), why))
            }
        };
    }
    let mut wish = Wish::Unsaid;
    for value in head.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok()) {
        for word in value.split(',').map(str::trim) {
            if word.eq_ignore_ascii_case("no-store") {
                return Ok(Wish::Avoid);
            }
            if word.eq_ignore_ascii_case("no-cache") || word.eq_ignore_ascii_case("max-age=0") {
                wish = Wish::Refresh;
            }
        }
    }
    Ok(wish)
}

/// The fields that enter the key.
#[derive(Debug)]
pub(super) struct Fields(Vec<CanonicalMember>);

impl Fields {
    fn has(&self, name: &str, is: impl Fn(&[u8]) -> bool) -> bool {
        self.0.iter().any(|member| member.name == name && is(&member.value))
    }
}

pub(super) fn fields(cache: &CacheSettings, object: &Object<'_>) -> Result<Fields, Bypass> {
    let members = canonical::members(object).map_err(|why| match why {
        Uncanonical::Ambiguous => Bypass::Ambiguous,
        Uncanonical::Outside => Bypass::Outside,
    })?;
    let mut keyed = Vec::with_capacity(members.len());
    for member in members {
        let CanonicalMember { name, value } = &member;
        match effect(name) {
            // The model behind an alias is keyed by itself, and one choice is what nobody asks for.
            Some(Effect::Keyed) if name == "model" || (name == "n" && value == b"1") => {}
            Some(Effect::Keyed) => keyed.push(member),
            Some(Effect::Ignored(_)) => {}
            Some(Effect::Never(_)) => return Err(Bypass::Uncacheable),
            Some(Effect::NeverWhereOn(_)) if matches!(&value[..], b"null" | b"false") => {}
            Some(Effect::NeverWhereOn(_)) => return Err(Bypass::Uncacheable),
            Some(Effect::Delivery) => delivery(value)?,
            None if cache.known_fields.contains(name) => keyed.push(member),
            None => return Err(Bypass::UnknownField),
        }
    }
    Ok(Fields(keyed))
}

/// Refuses ways of delivery that a replay does not know.
fn delivery(options: &[u8]) -> Result<(), Bypass> {
    if options == b"null" {
        return Ok(());
    }
    let object = Object::parse(options).map_err(|_| Bypass::UnknownField)?;
    for member in object.members() {
        match (&*member.key(), member.value()) {
            ("include_usage" | "include_obfuscation", _) => {}
            ("continuous_usage_stats", "null" | "false") => {}
            ("continuous_usage_stats", _) => return Err(Bypass::Uncacheable),
            _ => return Err(Bypass::UnknownField),
        }
    }
    Ok(())
}

fn name(
    cache: &Cache,
    path: &str,
    info: &RequestInfo,
    headers: &[(&HeaderName, &HeaderValue)],
    fields: &Fields,
) -> Name {
    let (tenant, revision) = (info.caller.realm(), revision(cache, &info.model));
    let served = Served {
        tenant,
        path,
        model: &info.model,
        revision: &revision,
        tier: tier(cache, &info.model),
        headers,
    };
    Name { key: served.key(fields), tenant, model: model_name(&info.model) }
}

/// What decides on an answer beside the request's own fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served<'a> {
    pub(super) tenant: [u8; NAME_BYTES],
    pub(super) path: &'a str,
    pub(super) model: &'a str,
    pub(super) revision: &'a str,
    pub(super) tier: &'a str,
    /// What a worker is sent of the client's headers, sorted by name.
    pub(super) headers: &'a [(&'a HeaderName, &'a HeaderValue)],
}

impl Served<'_> {
    /// The key of a request with these fields.
    pub(super) fn key(&self, Fields(fields): &Fields) -> Key {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut add = |part: &[u8]| {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            context.update(part);
        };
        let words = [self.path, self.model, self.revision, self.tier].map(str::as_bytes);
        let schema = if self.headers.is_empty() { SCHEMA } else { SCHEMA_WITH_HEADERS };
        [schema, &self.tenant].into_iter().chain(words).for_each(&mut add);
        if !self.headers.is_empty() {
            // How many there are, so that no header is taken for a field.
            add(&u64::try_from(self.headers.len()).unwrap_or(u64::MAX).to_le_bytes());
        }
        for (name, value) in self.headers {
            add(name.as_str().as_bytes());
            add(value.as_bytes());
        }
        for CanonicalMember { name, value } in fields {
            add(name.as_bytes());
            add(value);
        }
        hashed(&context.finish())
    }
}

/// A model as a response store names it.
pub(crate) fn model_name(model: &str) -> [u8; NAME_BYTES] {
    hashed(&digest::digest(&digest::SHA256, model.as_bytes()))
}

fn hashed(digest: &digest::Digest) -> Key {
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Which weights answer to that name: as configured, else what a worker tells of them.
fn revision(cache: &Cache, model: &str) -> String {
    let routes = cache.pipeline.routes();
    let own = routes.settings.models.get(model).and_then(|own| own.revision.clone());
    own.or_else(|| cache.pipeline.fleet.models.revision(model)).unwrap_or_default()
}

/// Which pool serves the model: what a cheap model said is no answer of the one that clients want.
fn tier(cache: &Cache, model: &str) -> &'static str {
    let router = cache.pipeline.dispatcher.view();
    let serving = router
        .fleet()
        .workers()
        .filter(|(_, worker)| worker.models().iter().any(|served| served == model));
    let (mut target, mut draft) = (false, false);
    for (id, _) in serving {
        match cache.pipeline.dispatcher.pool(id) {
            Pool::Target => target = true,
            Pool::Draft => draft = true,
        }
    }
    match (target, draft) {
        (true, true) => "mixed",
        (false, true) => Pool::Draft.name(),
        _ => Pool::Target.name(),
    }
}

/// Marks an answer with what the cache had to do with it.
pub(crate) fn mark(head: &mut HeaderMap, word: &'static str) {
    head.insert(X_CACHE, HeaderValue::from_static(word));
}

const X_CACHE: HeaderName = HeaderName::from_static("x-cache");

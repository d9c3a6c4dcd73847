//! Admin endpoints of the response cache: what the operator may see and do of it.
//!
//! `GET /admin/cache` shows the cache's state; `POST /admin/cache/purge` with `{"tenant": …,
//! "model": …}` purges the named entries, here and in the store, so that no gateway serves them
//! again.

use std::fmt;
use std::sync::Arc;

use http::{Response, StatusCode};
use overdraft_core::response_cache::FIELDS;
use overdraft_dash::views::CacheView;
use overdraft_http::{Body, RequestBody, reply};
use overdraft_store::Scope;
use overdraft_wire::{ApiError, ErrorKind};
use serde::{Deserialize, Serialize};

use super::Cache;
use super::request::model_name;
use crate::pipeline::keys::realm_of_tenant;
use crate::settings::CacheMode;

#[derive(Serialize)]
struct Standing {
    mode: &'static str,
    bytes: u64,
    bytes_max: u64,
    entries: u64,
    shared: bool,
    encrypted: bool,
    fields_known: usize,
    hits: u64,
    misses: u64,
    coalesced: u64,
    bypasses: u64,
    would_hit: u64,
    would_miss: u64,
}

impl Cache {
    /// What the dashboard shows of it.
    pub(crate) fn view(&self) -> CacheView {
        let settings = self.pipeline.settings();
        let (gauges, counts) = (self.gauges(), self.metrics.counts());
        CacheView {
            mode: mode(settings.cache.mode).to_owned(),
            bytes: gauges.bytes,
            bytes_max: super::room(&settings.cache),
            entries: gauges.entries,
            shared: self.response_store().is_some(),
            hits: counts.hits,
            misses: counts.misses,
            coalesced: counts.coalesced,
            bypasses: counts.bypasses,
            would_hit: counts.would_hit,
            would_miss: counts.would_miss,
            ..CacheView::default()
        }
    }
}

const fn mode(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::Off => "off",
        CacheMode::Observe => "observe",
        CacheMode::On => "on",
    }
}

/// What there is.
pub(crate) fn standing(cache: &Cache) -> Response<Body> {
    let settings = cache.pipeline.settings();
    let gauges = cache.gauges();
    let set = &settings.cache;
    let counts = cache.metrics.counts();
    let standing = Standing {
        mode: mode(set.mode),
        bytes: gauges.bytes,
        bytes_max: super::room(set),
        entries: gauges.entries,
        shared: cache.response_store().is_some(),
        encrypted: set.encryption_key.is_some(),
        fields_known: FIELDS.len() + set.known_fields.len(),
        hits: counts.hits,
        misses: counts.misses,
        coalesced: counts.coalesced,
        bypasses: counts.bypasses,
        would_hit: counts.would_hit,
        would_miss: counts.would_miss,
    };
    let text = serde_json::to_vec(&standing).expect("it has string keys");
    reply::json(StatusCode::OK, text)
}

/// What is to go; without either, everything.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Purge {
    tenant: Option<String>,
    model: Option<String>,
}

#[derive(Serialize)]
struct Purged {
    entries_here: usize,
    /// Whether other gateways let go of it too; absent where nothing is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'static str>,
}

impl Purge {
    /// Reads what the body of a request names.
    ///
    /// # Errors
    /// 400 where it is something else.
    pub(crate) async fn read(cache: &Cache, body: RequestBody) -> Result<Self, ApiError> {
        let body = cache.pipeline.buffers.read(body).await?;
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&body).map_err(|error| {
            let why =
                format!("{error}; expected an object with `tenant`, `model`, both or neither");
            ApiError::new(ErrorKind::InvalidRequest, why)
        })
    }
}

impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.tenant, &self.model) {
            (None, None) => f.write_str("all answers"),
            (Some(tenant), None) => write!(f, "tenant {tenant}"),
            (None, Some(model)) => write!(f, "model {model}"),
            (Some(tenant), Some(model)) => write!(f, "tenant {tenant}, model {model}"),
        }
    }
}

/// Lets go of what was named.
///
/// # Errors
/// 503 where other gateways may still have it.
pub(crate) async fn purge(cache: &Arc<Cache>, purge: &Purge) -> Result<Response<Body>, ApiError> {
    let tenant = purge.tenant.as_deref().map(realm_of_tenant);
    let routes = cache.pipeline.routes();
    let model =
        purge.model.as_deref().map(|named| model_name(routes.model_behind(named).unwrap_or(named)));
    let scope = match (tenant, model) {
        (None, None) => Scope::All,
        (Some(tenant), None) => Scope::Tenant(tenant),
        (None, Some(model)) => Scope::Model(model),
        (Some(tenant), Some(model)) => Scope::Both(tenant, model),
    };
    let store = match cache.response_store() {
        None => None,
        Some(response_store) => match response_store.purge(scope).await {
            Ok(()) => Some("purged"),
            Err(fault) => {
                let entries_here = cache.forget(scope);
                let why = format!(
                    "{entries_here} answers are gone here, but {fault}; other gateways may still \
                     give them: try again"
                );
                return Err(ApiError::overloaded(why));
            }
        },
    };
    let entries_here = cache.forget(scope);
    tracing::info!(%purge, entries_here, store, "answers were purged");
    let text = serde_json::to_vec(&Purged { entries_here, store }).expect("it has string keys");
    Ok(reply::json(StatusCode::OK, text))
}

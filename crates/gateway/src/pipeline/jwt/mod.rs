//! JSON Web Tokens: who a token says it is, believed where its signature, issuer, audience and time hold.
//!
//! The configuration says which algorithms are accepted, and the key set what each key is for; a token only chooses
//! among them. See RFC 7519 and, for what goes wrong elsewhere, RFC 8725.
//!
//! Invariant: whether a token is good depends on the token, the settings, the key set and `now`.

mod compact;
mod key_cache;
mod key_set;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use overdraft_wire::{ApiError, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value};

use self::compact::Compact;
pub(crate) use self::key_cache::KeyCache;
use self::key_set::KeySet;
use crate::settings::{JwtAlgorithm, JwtSettings, KeyDigest, KeySetSettings, KeySettings};

/// Maximum characters of a tenant that a token names.
const TENANT_CHARACTERS_MAX: usize = 64;

/// What tenants without a name are called; no token may name one so.
const NAMELESS: [&str; 2] = ["anonymous", "other"];

/// Maximum models that a token names.
const MODELS_MAX: usize = 256;

/// How many keys of an issuer can be had now, for a check that serves nothing.
///
/// # Errors
/// Why there are none.
pub async fn issuer_keys(settings: KeySetSettings) -> Result<usize, String> {
    let keys = KeyCache::new(settings).look().await;
    keys.map(|keys| keys.len()).map_err(|error| error.to_string())
}

/// Believes tokens, or does not.
#[derive(Debug)]
pub(crate) struct JwtVerifier {
    settings: JwtSettings,
    cache: Arc<KeyCache>,
}

/// Why a token is not believed. No variant holds anything of it but times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JwtRefused {
    /// It cannot be read.
    #[error("it is not a signed JWT of at most 8 KiB")]
    Malformed,
    /// It is a token of another kind, or has something critical that is not understood.
    #[error("its header has a `typ`, `cty` or `crit` that no access token has")]
    Kind,
    /// It has an algorithm that is not accepted, or not with its key.
    #[error("its algorithm is not one that is accepted here with its key")]
    Algorithm,
    /// Nobody knows the issuer's keys at present.
    #[error("the keys of its issuer are not known at present")]
    NoKeys,
    /// Its key is none of the key set's.
    #[error("it is signed by a key that its issuer does not list")]
    UnknownKey,
    /// It was changed, or signed by somebody else.
    #[error("its signature does not hold")]
    Signature,
    /// A claim is missing.
    #[error("it has no `{0}`")]
    Missing(&'static str),
    /// Somebody else issued it.
    #[error("its issuer is another one")]
    Issuer,
    /// It is for somebody else.
    #[error("its audience is another one")]
    Audience,
    /// It was good until then.
    #[error("it expired at `{0}`")]
    Expired(Timestamp),
    /// It is good from then on.
    #[error("it is not valid before `{0}`")]
    TooEarly(Timestamp),
    /// It names no tenant, or none that can be one.
    #[error("the claim that names its tenant is missing, or no name of 1 to 64 ASCII characters")]
    NoTenant,
}

impl From<JwtRefused> for ApiError {
    fn from(refused: JwtRefused) -> Self {
        let kind = match refused {
            // The client can do nothing about it.
            JwtRefused::NoKeys => ErrorKind::Overloaded,
            _ => ErrorKind::InvalidApiKey,
        };
        Self::new(kind, format!("the token is refused: {refused}"))
    }
}

/// What counts among the claims. One of these that comes twice is refused; of the others, the last counts.
#[derive(Debug, Deserialize)]
struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl JwtVerifier {
    /// Goes by the key set of `before` where it is the same issuer's at the same place.
    pub(crate) fn new(settings: JwtSettings, before: Option<&Self>) -> Self {
        let same = before.filter(|before| {
            before.settings.issuer == settings.issuer && before.settings.keys == settings.keys
        });
        let fresh = || Arc::new(KeyCache::new(settings.keys.clone()));
        let cache = same.map_or_else(fresh, |before| Arc::clone(&before.cache));
        Self { settings, cache }
    }

    /// What it goes by.
    pub(crate) const fn settings(&self) -> &JwtSettings {
        &self.settings
    }

    /// The issuer's keys.
    pub(crate) const fn cache(&self) -> &Arc<KeyCache> {
        &self.cache
    }

    /// Whose requests a token comes with, and what they may do; the key set is looked at once more where that may
    /// bring a key that is not known.
    ///
    /// # Errors
    /// [`JwtRefused`] for every token that is not good `now`.
    pub(crate) async fn verify(
        &self,
        token: &[u8],
        now: Timestamp,
    ) -> Result<KeySettings, JwtRefused> {
        let token = Compact::parse(token)?;
        let algorithm = self.accepted(&token.header.alg)?;
        let signed = |keys: Arc<KeySet>| {
            let key = keys.find(token.header.kid.as_deref(), algorithm)?;
            key.verify(algorithm, token.message, &token.signature)
        };
        let mut held = self.cache.keys().and_then(signed);
        if matches!(held, Err(JwtRefused::UnknownKey | JwtRefused::NoKeys)) {
            self.cache.look_again().await;
            held = self.cache.keys().and_then(signed);
        }
        held?;
        let claims: Claims = token.claims()?;
        self.is_ours(&claims)?;
        self.is_in_time(&claims, now)?;
        self.caller(&claims.more)
    }

    fn accepted(&self, name: &str) -> Result<JwtAlgorithm, JwtRefused> {
        let accepted = self.settings.algorithms.iter().find(|own| own.name() == name);
        accepted.copied().ok_or(JwtRefused::Algorithm)
    }

    fn is_ours(&self, claims: &Claims) -> Result<(), JwtRefused> {
        if claims.iss.as_ref().ok_or(JwtRefused::Missing("iss"))? != &self.settings.issuer {
            return Err(JwtRefused::Issuer);
        }
        let own = &self.settings.audience;
        let is_meant = match claims.aud.as_ref().ok_or(JwtRefused::Missing("aud"))? {
            Audience::One(audience) => audience == own,
            Audience::Several(audiences) => audiences.contains(own),
        };
        if is_meant { Ok(()) } else { Err(JwtRefused::Audience) }
    }

    fn is_in_time(&self, claims: &Claims, now: Timestamp) -> Result<(), JwtRefused> {
        let leeway = SignedDuration::try_from(self.settings.leeway).unwrap_or(SignedDuration::ZERO);
        let end = time(claims.exp.ok_or(JwtRefused::Missing("exp"))?)?;
        if end.saturating_add(leeway).unwrap_or(Timestamp::MAX) <= now {
            return Err(JwtRefused::Expired(end));
        }
        let Some(begin) = claims.nbf.map(time).transpose()? else { return Ok(()) };
        if now.saturating_add(leeway).unwrap_or(Timestamp::MAX) < begin {
            return Err(JwtRefused::TooEarly(begin));
        }
        Ok(())
    }

    /// The defaults, with the tenant and the models that the token names.
    fn caller(&self, claims: &Map<String, Value>) -> Result<KeySettings, JwtRefused> {
        let tenant = claims.get(&self.settings.tenant_claim).and_then(Value::as_str);
        let is_name = |name: &&str| {
            let printable = name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            let fits = !name.trim().is_empty() && name.len() <= TENANT_CHARACTERS_MAX;
            printable && fits && !NAMELESS.contains(name)
        };
        let tenant = tenant.filter(is_name).ok_or(JwtRefused::NoTenant)?;
        let mut settings = self.settings.defaults.clone();
        // Stands for the tenant where budgets are kept; no key that a header could carry has this hash.
        settings.digest = KeyDigest::of(&format!("jwt\0{tenant}"));
        tenant.clone_into(&mut settings.tenant);
        let named = self.settings.models_claim.as_ref().and_then(|claim| claims.get(claim));
        if let Some(named) = named {
            settings.models = Some(models(named).ok_or(JwtRefused::Malformed)?);
        }
        Ok(settings)
    }
}

/// Whether a text looks like a token: three parts, the first of which begins a JSON object in base64.
pub(crate) fn is_token(text: &[u8]) -> bool {
    text.starts_with(b"ey") && text.split(|byte| *byte == b'.').count() == 3
}

/// Seconds since 1970, rounded down.
fn time(seconds: f64) -> Result<Timestamp, JwtRefused> {
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is no time below")]
    let seconds = seconds.floor() as i64;
    Timestamp::from_second(seconds).map_err(|_| JwtRefused::Malformed)
}

/// A list of names, or names with blanks between.
fn models(claim: &Value) -> Option<BTreeSet<String>> {
    let names: Option<BTreeSet<String>> = match claim {
        Value::String(names) => Some(names.split_whitespace().map(str::to_owned).collect()),
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    names.filter(|names| names.len() <= MODELS_MAX)
}

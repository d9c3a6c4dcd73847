//! JSON Web Tokens section: whose tokens are believed, and what their tenants may do.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys::{Priority, most_urgent};
use crate::quantity::TimeSpan;

/// JSON Web Tokens (RFC 7519) that are accepted beside `keys`, and the permissions of their tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// Issuer of the tokens: their `iss`, letter by letter.
    pub issuer: String,
    /// Audience of the tokens: their `aud`, or one of several. Give the gateway its own audience.
    pub audience: String,
    /// Address of the issuer's public keys, called `jwks_uri` in its `/.well-known/openid-configuration`: `https`, or
    /// `http` on this machine. Either this or `jwks_file`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "super::web_url::shown"
    )]
    pub jwks_url: Option<String>,
    /// File with the issuer's public keys (JWKS), checked each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// Certificate authorities of `jwks_url`, in PEM, and no others; without this key, those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Time between two requests to `jwks_url`. A token with an unknown key causes a request at once, but at most one
    /// every 10 s. A key that the issuer revokes is accepted for up to this time.
    #[serde(default = "refresh")]
    pub jwks_refresh: TimeSpan,
    /// Maximum age of keys while they cannot be fetched again; after it tokens get 503.
    #[serde(default = "age_max")]
    pub jwks_max_age: TimeSpan,
    /// Accepted algorithms. Neither `none` nor an algorithm with a shared secret exists here.
    #[serde(default = "usual_algorithms")]
    pub algorithms: Vec<JwtAlgorithm>,
    /// Claim that names the tenant, 1 to 64 ASCII characters; a token without it is refused. Make sure that only the
    /// issuer can set it.
    #[serde(default = "tenant")]
    pub tenant_claim: String,
    /// Claim that lists the models that the tenant may use; for a token without it, those of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models_claim: Option<String>,
    /// Tolerated difference of clocks, for the beginning and the end of a token.
    #[serde(default = "leeway")]
    pub leeway: TimeSpan,
    /// Permissions of each tenant.
    #[serde(default)]
    pub defaults: JwtDefaults,
}

/// Permissions of each tenant of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtDefaults {
    /// Priority of requests that name none.
    pub priority: Priority,
    /// Highest priority of requests; a request for a higher one gets this one.
    pub priority_max: Priority,
    /// Models or aliases that the tenant may use; without this list, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Maximum requests a minute, for all of the tenant's tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Maximum tokens a minute, of prompts and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
}

impl Default for JwtDefaults {
    fn default() -> Self {
        Self {
            priority: Priority::default(),
            priority_max: most_urgent(),
            models: None,
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }
}

/// Signature algorithm of a token: RSA, a curve of NIST, or Ed25519.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "their names are those of RFC 7518 and RFC 8037")]
pub enum JwtAlgorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

fn usual_algorithms() -> Vec<JwtAlgorithm> {
    vec![JwtAlgorithm::RS256, JwtAlgorithm::ES256]
}

fn tenant() -> String {
    "tenant".to_owned()
}

const fn leeway() -> TimeSpan {
    TimeSpan::from_secs(60)
}

const fn refresh() -> TimeSpan {
    TimeSpan::from_secs(5 * 60)
}

const fn age_max() -> TimeSpan {
    TimeSpan::from_secs(24 * 60 * 60)
}

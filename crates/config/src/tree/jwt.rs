//! JSON Web Tokens section: whose tokens are believed, and what their tenants may do.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys::{Priority, most_urgent};
use crate::quantity::TimeSpan;

/// Whose tokens are believed beside `keys` (JWT, RFC 7519), and what their tenants may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// Who issues them: their `iss`, letter by letter.
    pub issuer: String,
    /// Whom they are for: their `aud`, or one of several. Give the gateway one of its own.
    pub audience: String,
    /// The address of the issuer's public keys, which its `/.well-known/openid-configuration` calls `jwks_uri`:
    /// `https`, or `http` on this machine. Either this or `jwks_file`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "super::web_url::shown"
    )]
    pub jwks_url: Option<String>,
    /// A file with the issuer's public keys (JWKS), looked at each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// The authorities that vouch for `jwks_url`, in PEM, and no others; without it, those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// How often `jwks_url` is asked. A token with a key that is not known has it asked at once, but not more often
    /// than every 10 s. A key that the issuer takes back is believed for as long as this.
    #[serde(default = "refresh")]
    pub jwks_refresh: TimeSpan,
    /// How old keys may be that are still believed while they cannot be had anew; then tokens get 503.
    #[serde(default = "age_max")]
    pub jwks_max_age: TimeSpan,
    /// The algorithms that are accepted. There is none that takes a secret, and no `none`.
    #[serde(default = "usual_algorithms")]
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claim that names the tenant, 1 to 64 ASCII characters; a token without it is refused. Only the issuer may
    /// be able to set it.
    #[serde(default = "tenant")]
    pub tenant_claim: String,
    /// The claim that lists the models which may be asked for; where a token has none, those of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models_claim: Option<String>,
    /// How far clocks may differ, where a token begins or ends.
    #[serde(default = "leeway")]
    pub leeway: TimeSpan,
    /// What each tenant may do.
    #[serde(default)]
    pub defaults: JwtDefaults,
}

/// What each tenant of a token may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtDefaults {
    /// How urgent its requests are that do not say.
    pub priority: Priority,
    /// The most urgent that its requests may be; what asks for more gets this.
    pub priority_max: Priority,
    /// The models or aliases it may ask for; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Requests a minute at most, of all its tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute at most, of prompts and answers together.
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

/// How a token is signed: by RSA, on a curve of NIST, or by Ed25519.
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

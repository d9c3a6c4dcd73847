//! Settings of JSON Web Tokens: whose are believed, and what their tenants may do.

use std::path::PathBuf;
use std::time::Duration;

use overdraft_tls::{ClientSettings, ClientTls};

use super::error::GatewayError;
use super::keys::KeySettings;
use super::web_address::WebAddress;

/// How a token is signed. None takes a secret, so that a public key is never taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names are those of RFC 7518 and RFC 8037")]
pub enum JwtAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl JwtAlgorithm {
    /// As tokens and key sets call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// Where an issuer lists its public keys (JWKS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetPlace {
    /// In a file.
    File(PathBuf),
    /// At an address.
    Web(WebAddress),
}

/// Where the keys of an issuer come from, and how long they are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetSettings {
    /// Where they are listed.
    pub place: KeySetPlace,
    /// Whom an `https` address is believed.
    pub tls: ClientSettings,
    /// From one look at them to the next.
    pub refresh: Duration,
    /// From the end of a look to the next one that a token with an unknown key, or a failure, may cause.
    pub pause: Duration,
    /// How old the keys of the last good look may be that are still believed.
    pub age_max: Duration,
    /// How long a look may take.
    pub timeout: Duration,
}

impl KeySetSettings {
    /// An issuer's keys at `place`. A file costs nobody anything to look at.
    pub fn new(place: KeySetPlace) -> Self {
        let (refresh, pause) = match place {
            KeySetPlace::File(_) => (Duration::from_secs(1), Duration::from_secs(1)),
            KeySetPlace::Web(_) => (Duration::from_mins(5), Duration::from_secs(10)),
        };
        Self {
            place,
            tls: ClientSettings::default(),
            refresh,
            pause,
            age_max: Duration::from_hours(24),
            timeout: Duration::from_secs(5),
        }
    }

    /// Whether connections to it are encrypted.
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(&self.place, KeySetPlace::Web(place) if place.is_encrypted)
    }
}

/// Whose tokens are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// Who issues them.
    pub issuer: String,
    /// Whom they are for.
    pub audience: String,
    /// The issuer's public keys.
    pub keys: KeySetSettings,
    /// The algorithms that are accepted.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists models, if any does.
    pub models_claim: Option<String>,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// What a tenant may do; digest and tenant are replaced.
    pub defaults: KeySettings,
}

/// Refuses authorities that cannot be used, and looks without a pause.
pub(super) fn check(jwt: &JwtSettings) -> Result<(), GatewayError> {
    if jwt.keys.refresh.is_zero() || jwt.keys.pause.is_zero() || jwt.keys.timeout.is_zero() {
        return Err(GatewayError::KeySetInterval);
    }
    if jwt.keys.is_encrypted() {
        let whose = || "the issuer of tokens".to_owned();
        let proved = ClientTls::new(jwt.keys.tls.clone());
        proved.map_err(|error| GatewayError::Tls { whose: whose(), error })?;
    }
    Ok(())
}

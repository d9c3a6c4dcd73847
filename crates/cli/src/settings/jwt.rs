//! JSON Web Token settings: maps whose tokens are believed, and what their tenants may do.

use std::num::NonZeroU32;

use overdraft_config as config;
use overdraft_gateway::{
    Budget, JwtAlgorithm, JwtSettings, KeyDigest, KeySetPlace, KeySetSettings, KeySettings,
    WebAddress,
};
use overdraft_tls::{ClientSettings, Trust};

use super::keys::priority;

/// Whose tokens are believed; `None` where the configuration says so of nobody.
pub(super) fn jwt(configured: &config::Jwt) -> Option<JwtSettings> {
    Some(JwtSettings {
        issuer: configured.issuer.clone(),
        audience: configured.audience.clone(),
        keys: keys(configured)?,
        algorithms: configured.algorithms.iter().copied().map(algorithm).collect(),
        tenant_claim: configured.tenant_claim.clone(),
        models_claim: configured.models_claim.clone(),
        leeway: configured.leeway.duration(),
        defaults: defaults(&configured.defaults),
    })
}

fn keys(configured: &config::Jwt) -> Option<KeySetSettings> {
    let mut keys = match (&configured.jwks_url, &configured.jwks_file) {
        (Some(url), _) => {
            let place = WebAddress::parse_trusted(url);
            let place = place.expect("the configuration was checked to hold an address");
            let mut keys = KeySetSettings::new(KeySetPlace::Web(place));
            keys.refresh = configured.jwks_refresh.duration();
            keys
        }
        (None, Some(file)) => KeySetSettings::new(KeySetPlace::File(file.clone())),
        (None, None) => return None,
    };
    keys.age_max = configured.jwks_max_age.duration();
    let trust = configured.ca_file.clone().map_or(Trust::System, Trust::Authorities);
    keys.tls = ClientSettings { trust, ..ClientSettings::default() };
    Some(keys)
}

fn defaults(configured: &config::JwtDefaults) -> KeySettings {
    let mut defaults = KeySettings::new(KeyDigest::of(""), "");
    defaults.priority = priority(configured.priority);
    defaults.priority_max = priority(configured.priority_max);
    defaults.models = configured.models.as_ref().map(|models| models.iter().cloned().collect());
    defaults.budget = Budget {
        requests_per_minute: configured.requests_per_minute.and_then(NonZeroU32::new),
        tokens_per_minute: configured.tokens_per_minute.and_then(NonZeroU32::new),
    };
    defaults
}

const fn algorithm(configured: config::JwtAlgorithm) -> JwtAlgorithm {
    match configured {
        config::JwtAlgorithm::RS256 => JwtAlgorithm::Rs256,
        config::JwtAlgorithm::RS384 => JwtAlgorithm::Rs384,
        config::JwtAlgorithm::RS512 => JwtAlgorithm::Rs512,
        config::JwtAlgorithm::PS256 => JwtAlgorithm::Ps256,
        config::JwtAlgorithm::PS384 => JwtAlgorithm::Ps384,
        config::JwtAlgorithm::PS512 => JwtAlgorithm::Ps512,
        config::JwtAlgorithm::ES256 => JwtAlgorithm::Es256,
        config::JwtAlgorithm::ES384 => JwtAlgorithm::Es384,
        config::JwtAlgorithm::EdDSA => JwtAlgorithm::EdDsa,
    }
}

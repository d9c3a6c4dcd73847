//! Key set (JWKS, RFC 7517): the public keys of an issuer by their ids, and the signatures that they verify.
//!
//! Keys that are of no use are left out: secrets, keys for encryption, unknown curves, RSA of fewer than 2,048 bits.
//! Signatures are verified by ring, which this process has for TLS anyway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

use super::JwtRefused;
use crate::settings::JwtAlgorithm;

/// Maximum bytes of a key set.
pub(super) const KEY_SET_BYTES_MAX: usize = 256 * 1024;

/// Maximum keys of a key set.
pub(super) const KEYS_MAX: usize = 64;

/// Bits of an RSA key at least (RFC 7518, section 3.3).
const RSA_BITS_MIN: usize = 2_048;

/// Bits of an RSA key at most: a larger one takes too long.
const RSA_BITS_MAX: usize = 8_192;

/// An issuer's keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet {
    keys: Vec<PublicKey>,
}

/// A key that verifies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    id: Option<String>,
    material: Material,
    /// The only algorithm that it is for, where the set names one.
    algorithm: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    /// Modulus and exponent, without leading zeros.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// A point on P-256, uncompressed.
    P256(Vec<u8>),
    /// A point on P-384, uncompressed.
    P384(Vec<u8>),
    /// A point on Curve25519.
    Ed25519(Vec<u8>),
}

/// Why a text is no key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeySetError {
    /// It has another form.
    #[error("it is no JSON Web Key Set; expected `{{\"keys\": […]}}`")]
    Form,
    /// It is too long, or has too many keys.
    #[error("it is too large; expected at most {KEYS_MAX} keys and {KEY_SET_BYTES_MAX} bytes")]
    TooLarge,
    /// No key of it verifies.
    #[error(
        "it has no key that verifies; expected RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519, not `use: enc`"
    )]
    NoKey,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<Value>,
}

/// One key as it is listed.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a key set.
    pub(super) fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        if KEY_SET_BYTES_MAX < text.len() {
            return Err(KeySetError::TooLarge);
        }
        let Listed { keys } = serde_json::from_slice(text).map_err(|_| KeySetError::Form)?;
        if KEYS_MAX < keys.len() {
            return Err(KeySetError::TooLarge);
        }
        let read = |value| PublicKey::of(serde_json::from_value(value).ok()?);
        let keys: Vec<PublicKey> = keys.into_iter().filter_map(read).collect();
        if keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(Self { keys }) }
    }

    /// How many keys it has.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key that a token by `algorithm` names; without an id, the only key that may be meant.
    ///
    /// # Errors
    /// [`JwtRefused::UnknownKey`] where there is none, [`JwtRefused::Algorithm`] where that key is for others.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<&PublicKey, JwtRefused> {
        let named = |key: &&PublicKey| id.is_none() || key.id.as_deref() == id;
        let mut fitting = self.keys.iter().filter(named).filter(|key| key.takes(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (Some(key), Some(_)) if id.is_some() => Ok(key),
            (None, _) if id.is_some() && self.keys.iter().any(|key| named(&key)) => {
                Err(JwtRefused::Algorithm)
            }
            _ => Err(JwtRefused::UnknownKey),
        }
    }
}

impl PublicKey {
    fn of(jwk: Jwk) -> Option<Self> {
        let is_meant_to = |operations: &Vec<String>| operations.iter().any(|own| own == "verify");
        if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig")
            || !jwk.key_ops.as_ref().is_none_or(is_meant_to)
        {
            return None;
        }
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (number(jwk.n.as_deref()?)?, number(jwk.e.as_deref()?)?);
                (RSA_BITS_MIN..=RSA_BITS_MAX)
                    .contains(&bits(&n))
                    .then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => {
                Material::P256(point(jwk.x.as_deref()?, jwk.y.as_deref()?, 32)?)
            }
            ("EC", Some("P-384")) => {
                Material::P384(point(jwk.x.as_deref()?, jwk.y.as_deref()?, 48)?)
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(jwk.x.as_deref()?, 32)?),
            // A secret verifies nothing here, whoever lists it.
            _ => return None,
        };
        Some(Self { id: jwk.kid, material, algorithm: jwk.alg })
    }

    /// Whether signatures by `algorithm` may be this key's.
    fn takes(&self, algorithm: JwtAlgorithm) -> bool {
        let fits = match self.material {
            Material::Rsa { .. } => rsa(algorithm).is_some(),
            Material::P256(_) => algorithm == JwtAlgorithm::Es256,
            Material::P384(_) => algorithm == JwtAlgorithm::Es384,
            Material::Ed25519(_) => algorithm == JwtAlgorithm::EdDsa,
        };
        fits && self.algorithm.as_deref().is_none_or(|own| own == algorithm.name())
    }

    /// Whether `signature` is this key's of `message`.
    ///
    /// # Errors
    /// [`JwtRefused::Signature`] where it is not.
    pub(super) fn verify(
        &self,
        algorithm: JwtAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), JwtRefused> {
        let by = |curve: &'static dyn VerificationAlgorithm, point: &Vec<u8>| {
            UnparsedPublicKey::new(curve, point).verify(message, signature)
        };
        let held = match &self.material {
            Material::Rsa { n, e } => {
                let parameters = rsa(algorithm).ok_or(JwtRefused::Algorithm)?;
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Material::P256(point) => by(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => by(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(point) => by(&signature::ED25519, point),
        };
        held.map_err(|_unspecified| JwtRefused::Signature)
    }
}

/// How RSA verifies by `algorithm`; `None` for the others.
const fn rsa(algorithm: JwtAlgorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        JwtAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        JwtAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        JwtAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        JwtAlgorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        JwtAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        JwtAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        JwtAlgorithm::Es256 | JwtAlgorithm::Es384 | JwtAlgorithm::EdDsa => return None,
    })
}

/// A number without leading zeros.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec()).filter(|bytes| !bytes.is_empty())
}

/// Bits of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    let zeros = number.first().map_or(0, |first| first.leading_zeros());
    (number.len() * 8).saturating_sub(zeros as usize)
}

fn coordinate(text: &str, bytes: usize) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|decoded| decoded.len() == bytes)
}

/// A point in the uncompressed form of SEC 1.
fn point(x: &str, y: &str, bytes: usize) -> Option<Vec<u8>> {
    Some([&[4], coordinate(x, bytes)?.as_slice(), coordinate(y, bytes)?.as_slice()].concat())
}

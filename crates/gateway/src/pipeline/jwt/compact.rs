//! Compact serialization of a signed token (JWS, RFC 7515): three parts of base64url, and the header in the first.
//!
//! The header is read for its algorithm and the id of its key. Keys and addresses of keys that a header brings
//! along (`jwk`, `jku`, `x5u`, `x5c`) are not even parsed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use super::JwtRefused;

/// Maximum bytes of a token; a longer one is not looked at.
pub(super) const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// What a token may call itself (RFC 7519, section 5.1; RFC 9068), in small letters.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A token, taken apart and not yet believed.
#[derive(Debug)]
pub(super) struct Compact<'a> {
    pub(super) header: Header,
    /// What is signed.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
    claims: &'a [u8],
}

/// What counts in the header. A member that comes twice is refused.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    typ: Option<String>,
    cty: Option<String>,
    /// Members that must be understood; none is.
    crit: Option<Value>,
}

impl<'a> Compact<'a> {
    /// Takes a token apart.
    pub(super) fn parse(token: &'a [u8]) -> Result<Self, JwtRefused> {
        if TOKEN_BYTES_MAX < token.len() {
            return Err(JwtRefused::Malformed);
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwtRefused::Malformed);
        };
        let message = &token[..header.len() + 1 + claims.len()];
        let header: Header = json(header)?;
        if header.crit.is_some() || header.cty.is_some() {
            return Err(JwtRefused::Kind);
        }
        if let Some(typ) = &header.typ
            && !TYPES.contains(&typ.to_ascii_lowercase().as_str())
        {
            return Err(JwtRefused::Kind);
        }
        let signature = decoded(signature)?;
        Ok(Self { header, message, signature, claims })
    }

    /// What it claims; to be read once the signature is known to hold.
    pub(super) fn claims<T: for<'de> Deserialize<'de>>(&self) -> Result<T, JwtRefused> {
        json(self.claims)
    }
}

fn decoded(part: &[u8]) -> Result<Vec<u8>, JwtRefused> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtRefused::Malformed)
}

fn json<T: for<'de> Deserialize<'de>>(part: &[u8]) -> Result<T, JwtRefused> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| JwtRefused::Malformed)
}

//! Tenant salts: what keeps tenants from observing each other through a worker's cache.
//!
//! Each named tenant's requests carry a salt that cannot be guessed: an HMAC of the tenant, mixed
//! with the client's own salt, if there is one. Workers share a prefix only under an equal salt. A
//! client cannot use another tenant's salt, because its own is mixed in and never passed on. Fields
//! by which a client could affect a worker's cache or scheduler are removed here.
//!
//! Anonymous requests (no key, no token) are one tenant without a salt.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::pipeline::keys::Caller;
use crate::settings::IsolationSettings;

/// The field that workers read.
pub(crate) const SALT: &str = "cache_salt";

/// Bytes of a secret that is drawn.
const SECRET_BYTES: usize = 32;

/// Makes salts.
pub(crate) struct Salts {
    key: hmac::Key,
    /// Whether it was drawn here.
    is_drawn: bool,
}

impl Salts {
    /// Salts by the configured secret, or by one that is drawn; `before` keeps its own until another
    /// is configured.
    pub(crate) fn new(settings: &IsolationSettings, before: Option<&Self>) -> Self {
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        match (&settings.salt_secret, before) {
            (Some(secret), _) => Self { key: key(secret.reveal()), is_drawn: false },
            (None, Some(before)) if before.is_drawn => {
                Self { key: before.key.clone(), is_drawn: true }
            }
            (None, _) => {
                let mut bytes = [0; SECRET_BYTES];
                SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
                Self { key: key(&bytes), is_drawn: true }
            }
        }
    }

    /// Whether other gateways cannot make the same salts.
    pub(crate) const fn is_drawn(&self) -> bool {
        self.is_drawn
    }

    /// The salt that workers are told for a request of `caller` that brought `sent`; `None` where what
    /// the client sent, if anything, goes as it came.
    pub(crate) fn salt(&self, caller: &Caller, sent: Option<&str>) -> Option<String> {
        if caller.is_nobody() {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&caller.realm());
        // Of a fixed length before it, the rest cannot be taken for anything else; a salt that is
        // empty is not the same as none.
        if let Some(sent) = sent {
            context.update(&[1]);
            context.update(sent.as_bytes());
        }
        Some(base64(context.sign().as_ref()))
    }
}

impl fmt::Debug for Salts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salts").field("is_drawn", &self.is_drawn).finish_non_exhaustive()
    }
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=three.len() {
            let digit = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or_default();
            text.push(char::from(DIGITS[digit]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use overdraft_store::{Revocations, Secret};

    use super::*;
    use crate::pipeline::keys::Keyring;
    use crate::settings::Door;

    fn caller(token: &str) -> Caller {
        let mut head = HeaderMap::new();
        if !token.is_empty() {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            head.insert("authorization", value);
        }
        Keyring::new(&[], Door::default())
            .identify(&head, &Revocations::default(), jiff::Timestamp::UNIX_EPOCH)
            .unwrap()
    }

    fn salts(secret: &str) -> Salts {
        let salt_secret = Some(Secret::new(secret));
        Salts::new(&IsolationSettings { salt_secret, ..IsolationSettings::default() }, None)
    }

    #[test]
    fn a_salt_is_a_tenant_s_own_and_what_the_client_sent_is_mixed_in() {
        let salts = salts("s3cret");
        let of = |token, sent| salts.salt(&caller(token), sent).unwrap();
        let all = [
            of("a", None),
            of("b", None),
            of("a", Some("")),
            of("a", Some("x")),
            of("b", Some("x")),
        ];
        for (at, salt) in all.iter().enumerate() {
            assert_eq!(salt.len(), 43);
            assert!(!all[..at].contains(salt));
        }
        assert_eq!(of("a", Some("x")), all[3], "the same again");
        // Sending another's salt does not give its salt.
        assert_ne!(of("b", Some(&all[0])), all[0]);
        assert_eq!(salts.salt(&caller(""), Some("x")), None);
    }

    #[test]
    fn gateways_with_one_secret_make_the_same_salts_and_others_do_not() {
        let of = |salts: &Salts| salts.salt(&caller("a"), None).unwrap();
        assert_eq!(of(&salts("one")), of(&salts("one")));
        assert_ne!(of(&salts("one")), of(&salts("other")));
        let settings = IsolationSettings::default();
        let drawn = Salts::new(&settings, None);
        assert_ne!(of(&drawn), of(&Salts::new(&settings, None)));
        assert_eq!(of(&drawn), of(&Salts::new(&settings, Some(&drawn))), "a reload keeps it");
    }

    #[test]
    fn base64_is_as_others_write_it() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"\xff\xfe", "__4")]
        {
            assert_eq!(base64(bytes), text);
        }
    }
}

//! Sealed reasoning: thoughts that clients keep for us and cannot read.
//!
//! A client that has nothing stored here sends its history anew each time, and with it the thoughts of the
//! answers before. They are encrypted with a key of the gateways, bound to the tenant.

use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use overdraft_wire::dialect::responses::Seal;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use crate::pipeline::keys::Realm;
use crate::settings::IsolationSettings;

/// What the key is derived from beside the secret, so that it is nobody else's.
const PURPOSE: &[u8] = b"overdraft reasoning seal 1";

/// What seals of ours begin with.
const PREFIX: &str = "od1.";

/// The same in JSON, where a seal is a text of its own.
pub(super) const SEALED: &str = "\"od1.";

/// Bytes of a secret that is drawn.
const SECRET_BYTES: usize = 32;

/// Makes the seals of all tenants.
pub(super) struct Seals(LessSafeKey);

impl Seals {
    /// Seals by the secret of the gateways; by one that is drawn where none is configured, and then they
    /// last until the gateway ends.
    pub(super) fn new(settings: &IsolationSettings) -> Self {
        let secret =
            settings.salt_secret.as_ref().map_or_else(drawn, |secret| secret.reveal().to_vec());
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(PURPOSE);
        context.update(&secret);
        let key = UnboundKey::new(&CHACHA20_POLY1305, context.finish().as_ref())
            .expect("a SHA-256 is as long as the key");
        Self(LessSafeKey::new(key))
    }

    /// The seal of one tenant.
    pub(super) fn of(self: &Arc<Self>, tenant: Realm) -> TenantSeal {
        TenantSeal { seals: Arc::clone(self), tenant }
    }
}

fn drawn() -> Vec<u8> {
    let mut secret = vec![0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).expect("the system gives random numbers");
    secret
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals(…)")
    }
}

/// The seal of one tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantSeal {
    seals: Arc<Seals>,
    tenant: Realm,
}

impl Seal for TenantSeal {
    fn seal(&self, text: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = text.as_bytes().to_vec();
        let aad = Aad::from(self.tenant);
        let key = &self.seals.0;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        let mut out = String::with_capacity(PREFIX.len() + 2 * (NONCE_LEN + sealed.len()));
        out.push_str(PREFIX);
        HEXLOWER.encode_append(&nonce, &mut out);
        HEXLOWER.encode_append(&sealed, &mut out);
        Some(out)
    }

    fn open(&self, sealed: &str) -> Option<String> {
        let mut bytes = HEXLOWER.decode(sealed.strip_prefix(PREFIX)?.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.seals.0.open_in_place(nonce, Aad::from(self.tenant), sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_opens_for_its_tenant_alone() {
        let seals = Arc::new(Seals::new(&IsolationSettings::default()));
        let (ours, others) = (seals.of([1; 32]), seals.of([2; 32]));
        let sealed = ours.seal("a thought, ein Gedanke 思").unwrap();
        assert!(!sealed.contains("thought"));
        assert_eq!(ours.open(&sealed).as_deref(), Some("a thought, ein Gedanke 思"));
        assert_eq!(others.open(&sealed), None);
        let mut broken = sealed.clone();
        broken.replace_range(sealed.len() - 4.., "0000");
        for foreign in [broken.as_str(), "", "gAAAAAB", "od1.", "od1.zz", "od1.000"] {
            assert_eq!(ours.open(foreign), None, "{foreign}");
        }
        assert_ne!(ours.seal("same"), ours.seal("same"));
    }
}

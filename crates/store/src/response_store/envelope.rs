//! Cached response envelope: the byte format in Redis, checksummed and optionally encrypted.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `ODC1` |
//! | 1 | the version of this form |
//! | 1 | 1 where it is sealed |
//! | 32, 32 | the key, and the tenant it belongs to |
//! | 16 | the stamp that tenant and model had |
//! | 16 | the first half of the SHA-256 over all other bytes |
//! | .. | the entry; sealed: 12 random bytes, then ChaCha20-Poly1305 |
//!
//! **Invariant:** an entry that opens is complete, was written for this key, this tenant and this
//! stamp, and where there is a secret, by a writer that knows it.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// Length of the name of a key, a tenant or a model.
pub const NAME_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"ODC1";
const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const SEALED: u8 = 1;

const STAMP_BYTES: usize = 16;
const SUM_BYTES: usize = 16;
const HEAD_BYTES: usize = 6 + 2 * NAME_BYTES + STAMP_BYTES;

/// Bytes that an envelope adds to an entry, at most.
pub(super) const OVERHEAD_MAX: usize = HEAD_BYTES + SUM_BYTES + NONCE_LEN + 16;

/// What an entry goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Of the request.
    pub key: [u8; NAME_BYTES],
    /// Whose it is.
    pub tenant: [u8; NAME_BYTES],
    /// Who answered it.
    pub model: [u8; NAME_BYTES],
}

/// What entries are sealed with; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of any length; the longer the better.
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self(secret.into())
    }

    /// The secret itself; never for a log.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why what lies there is as good as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is too short to be an entry.
    Short,
    /// It is another program's, or of another version.
    Foreign,
    /// It was written for another key or tenant.
    Misplaced,
    /// Its sum is wrong.
    Damaged,
    /// It was purged since.
    Purged,
    /// It is sealed with another secret, or not sealed though it should be.
    Sealed,
}

impl Unusable {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Short, Self::Foreign, Self::Misplaced, Self::Damaged, Self::Purged, Self::Sealed];

    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Foreign => "foreign",
            Self::Misplaced => "misplaced",
            Self::Damaged => "damaged",
            Self::Purged => "purged",
            Self::Sealed => "sealed",
        }
    }
}

/// What a purge changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u8; STAMP_BYTES]);

impl Stamp {
    /// Stands for these words in this order.
    pub(super) fn of(words: &[Option<String>]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for word in words {
            let word = word.as_deref().unwrap_or_default().as_bytes();
            context.update(&u64::try_from(word.len()).unwrap_or(u64::MAX).to_le_bytes());
            context.update(word);
        }
        Self(half(&context.finish()))
    }
}

/// A word that nobody has used before.
pub(super) fn fresh_word() -> String {
    let mut bytes = [0; STAMP_BYTES];
    // Without random numbers there is no TLS either; then the word is one that sealing refuses too.
    let _filled = SystemRandom::new().fill(&mut bytes);
    HEXLOWER.encode(&bytes)
}

/// Puts entries into envelopes and takes them out.
#[derive(Debug)]
pub(super) struct Sealer {
    secret: Option<Secret>,
}

impl Sealer {
    pub(super) const fn new(secret: Option<Secret>) -> Self {
        Self { secret }
    }

    /// The envelope of an entry; `None` where the machine gives no random numbers.
    pub(super) fn seal(&self, name: &Name, stamp: Stamp, entry: &[u8]) -> Option<Vec<u8>> {
        let flag = if self.secret.is_some() { SEALED } else { PLAIN };
        let head = head(name, stamp, flag);
        let payload = match &self.secret {
            None => entry.to_vec(),
            Some(secret) => {
                let mut nonce = [0; NONCE_LEN];
                SystemRandom::new().fill(&mut nonce).ok()?;
                let mut body = entry.to_vec();
                key(secret, &name.tenant)?
                    .seal_in_place_append_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::from(&head),
                        &mut body,
                    )
                    .ok()?;
                [&nonce[..], &body].concat()
            }
        };
        Some([&head[..], &sum(&head, &payload), &payload].concat())
    }

    /// What is in an envelope that was found under `name` while `stamp` is in force.
    pub(super) fn open(
        &self,
        name: &Name,
        stamp: Stamp,
        envelope: &[u8],
    ) -> Result<Vec<u8>, Unusable> {
        let Some((told, rest)) = envelope.split_first_chunk::<HEAD_BYTES>() else {
            let begins = envelope.starts_with(&MAGIC) || MAGIC.starts_with(envelope);
            return Err(if begins { Unusable::Short } else { Unusable::Foreign });
        };
        if told[..4] != MAGIC || told[4] != VERSION {
            return Err(Unusable::Foreign);
        }
        let (told_sum, payload) = rest.split_first_chunk::<SUM_BYTES>().ok_or(Unusable::Short)?;
        if *told_sum != sum(told, payload) {
            return Err(Unusable::Damaged);
        }
        let flag = told[5];
        if *told != head(name, stamp, flag) {
            let names = 6..6 + 2 * NAME_BYTES;
            let same = told[names.clone()] == head(name, stamp, flag)[names];
            return Err(if same { Unusable::Purged } else { Unusable::Misplaced });
        }
        match (&self.secret, flag) {
            (None, PLAIN) => Ok(payload.to_vec()),
            (Some(secret), SEALED) => {
                opened(secret, &name.tenant, told, payload).ok_or(Unusable::Sealed)
            }
            _ => Err(Unusable::Sealed),
        }
    }
}

fn opened(secret: &Secret, tenant: &[u8], head: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    let (nonce, body) = payload.split_first_chunk::<NONCE_LEN>()?;
    let mut body = body.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key(secret, tenant)?.open_in_place(nonce, Aad::from(head), &mut body).ok()?.len();
    body.truncate(length);
    Some(body)
}

/// Each tenant has a key of its own, made from the secret.
fn key(secret: &Secret, tenant: &[u8]) -> Option<LessSafeKey> {
    let made = Salt::new(HKDF_SHA256, b"overdraft cache 1").extract(&secret.0);
    let info = [tenant];
    let expanded = made.expand(&info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(expanded)))
}

fn head(name: &Name, Stamp(stamp): Stamp, flag: u8) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4] = VERSION;
    head[5] = flag;
    head[6..38].copy_from_slice(&name.key);
    head[38..70].copy_from_slice(&name.tenant);
    head[70..].copy_from_slice(&stamp);
    head
}

fn sum(head: &[u8], payload: &[u8]) -> [u8; SUM_BYTES] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(head);
    context.update(payload);
    half(&context.finish())
}

fn half(digest: &digest::Digest) -> [u8; 16] {
    let (half, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
    *half
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name { key: [1; 32], tenant: [2; 32], model: [3; 32] };

    fn stamp(word: &str) -> Stamp {
        Stamp::of(&[Some(word.to_owned()), None])
    }

    fn sealer(secret: &str) -> Sealer {
        Sealer::new((!secret.is_empty()).then(|| Secret::new(secret)))
    }

    #[test]
    fn what_was_put_in_comes_out_and_sealed_it_cannot_be_read() {
        for secret in ["", "s3cret"] {
            let sealer = sealer(secret);
            let envelope = sealer.seal(&NAME, stamp("a"), b"an answer").unwrap();
            assert!(envelope.len() <= 9 + OVERHEAD_MAX);
            let readable = envelope.windows(9).any(|window| window == b"an answer");
            assert_eq!(readable, secret.is_empty());
            assert_eq!(sealer.open(&NAME, stamp("a"), &envelope).as_deref(), Ok(&b"an answer"[..]));
        }
    }

    #[test]
    fn no_change_of_a_single_byte_and_no_cut_goes_unnoticed() {
        for secret in ["", "s3cret"] {
            let sealer = sealer(secret);
            let envelope = sealer.seal(&NAME, stamp("a"), b"an answer").unwrap();
            for at in 0..envelope.len() {
                let mut changed = envelope.clone();
                changed[at] ^= 1;
                assert!(sealer.open(&NAME, stamp("a"), &changed).is_err(), "byte {at}");
                assert!(sealer.open(&NAME, stamp("a"), &envelope[..at]).is_err());
            }
        }
    }

    #[track_caller]
    fn check(written_by: &str, read_by: &str, name: Name, now: &str, expected: Unusable) {
        let envelope = sealer(written_by).seal(&NAME, stamp("a"), b"an answer").unwrap();
        assert_eq!(sealer(read_by).open(&name, stamp(now), &envelope), Err(expected));
    }

    #[test]
    fn an_entry_opens_only_for_whom_and_as_long_as_it_is_meant() {
        check("", "", Name { tenant: [9; 32], ..NAME }, "a", Unusable::Misplaced);
        check("", "", Name { key: [9; 32], ..NAME }, "a", Unusable::Misplaced);
        check("", "", NAME, "b", Unusable::Purged);
        check("old", "new", NAME, "a", Unusable::Sealed);
        check("", "new", NAME, "a", Unusable::Sealed);
        check("old", "", NAME, "a", Unusable::Sealed);
        let sealer = sealer("");
        for (found, why) in [
            (&b"WRONG"[..], Unusable::Foreign),
            (&b"OD"[..], Unusable::Short),
            (&[b'x'; 200][..], Unusable::Foreign),
        ] {
            assert_eq!(sealer.open(&NAME, stamp("a"), found), Err(why));
        }
    }
}

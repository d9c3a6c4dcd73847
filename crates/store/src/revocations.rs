//! Revoked keys: each by its SHA-256, until it would have expired by itself.
//!
//! There is no way back from a revocation but a new key. So gateways only add to what they know: while the store
//! is away it stays in force, and what the store has lost is written back.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use data_encoding::HEXLOWER;

use crate::fault::Fault;

/// Maximum revocations that a store holds: as many as a gateway has keys.
pub const REVOCATIONS_MAX: usize = 10_000;

/// How long a key without an end is refused at most: a year. By then it is out of every configuration, or it
/// is good again.
pub const REVOCATION_LIFE_MAX: Duration = Duration::from_hours(366 * 24);

/// Maximum revocations in one command.
pub(crate) const REVOKED_AT_ONCE: usize = 512;

/// A key that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// Until when it is told, in milliseconds since 1970.
    pub until: u64,
}

/// What a store says of revocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    /// Changes with them.
    pub version: u64,
    /// All of them.
    pub keys: Vec<Revocation>,
}

/// The revocations that a gateway knows; looked up without waiting for the store.
#[derive(Debug, Default)]
pub struct Revocations {
    known: RwLock<BTreeMap<[u8; 32], u64>>,
}

/// What a gateway learnt from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Keys that it did not know to be revoked.
    pub new: usize,
    /// What it knows and the store has lost.
    pub lost: Vec<Revocation>,
}

impl Revocations {
    /// Whether the key with this SHA-256 has been revoked.
    pub fn is_revoked(&self, digest: &[u8; 32]) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(digest)
    }

    /// Takes in what the store says, at `now` in milliseconds since 1970, and lets go of what is over.
    pub fn learn(&self, told: &[Revocation], now: u64) -> Learnt {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, until| now < *until);
        let said: BTreeMap<[u8; 32], u64> =
            told.iter().map(|revocation| (revocation.digest, revocation.until)).collect();
        let lost = known.iter().filter(|(digest, _)| !said.contains_key(*digest));
        let lost = lost.map(|(digest, until)| Revocation { digest: *digest, until: *until });
        let mut learnt = Learnt { new: 0, lost: lost.collect() };
        for (digest, until) in said.into_iter().filter(|(_, until)| now < *until) {
            if REVOCATIONS_MAX <= known.len() && !known.contains_key(&digest) {
                break;
            }
            learnt.new += usize::from(known.insert(digest, until).is_none());
        }
        learnt
    }
}

/// The key of all revocations.
pub(crate) fn key(prefix: &str) -> String {
    format!("{prefix}revoked")
}

/// Reads a version and, behind it, digests with their ends; what cannot be read is left out.
pub(crate) fn revoked(answer: &[String]) -> Result<Revoked, Fault> {
    let (version, pairs) = answer.split_first().ok_or(Fault::Garbage)?;
    let version = version.parse().map_err(|_| Fault::Garbage)?;
    let one = |pair: &[String]| {
        let [digest, until] = pair else { return None };
        Some(Revocation { digest: digest_of(digest)?, until: until.parse().ok()? })
    };
    let keys = pairs.chunks(2).take(REVOCATIONS_MAX).filter_map(one).collect();
    Ok(Revoked { version, keys })
}

fn digest_of(text: &str) -> Option<[u8; 32]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revocation(first: u8, until: u64) -> Revocation {
        let mut digest = [0; 32];
        digest[0] = first;
        Revocation { digest, until }
    }

    #[test]
    fn what_is_known_stays_known_whatever_the_store_has_lost() {
        let revocations = Revocations::default();
        let (one, two) = (revocation(1, 100), revocation(2, 200));
        assert_eq!(revocations.learn(&[one, two], 0), Learnt { new: 2, lost: Vec::new() });
        assert_eq!(revocations.learn(&[two], 50), Learnt { new: 0, lost: vec![one] });
        assert_eq!(revocations.learn(&[], 50), Learnt { new: 0, lost: vec![one, two] });
        assert!(revocations.is_revoked(&one.digest) && revocations.is_revoked(&two.digest));
        // What is over is nobody's business any more.
        assert_eq!(revocations.learn(&[one], 100), Learnt { new: 0, lost: vec![two] });
        assert!(!revocations.is_revoked(&one.digest) && revocations.is_revoked(&two.digest));
    }

    #[test]
    fn no_more_are_kept_than_fit() {
        let revocations = Revocations::default();
        let many: Vec<Revocation> = (0..=REVOCATIONS_MAX)
            .map(|number| {
                let mut revocation = revocation(0, 1);
                revocation.digest[..8].copy_from_slice(&number.to_be_bytes());
                revocation
            })
            .collect();
        assert_eq!(revocations.learn(&many, 0).new, REVOCATIONS_MAX);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let one = revocation(0xab, 7);
        let [digest, soon] = [one.digest, [1; 32]].map(|digest| HEXLOWER.encode(&digest));
        let words = ["9", &digest, "7", "reason", "lost", &soon, "soon", "odd"];
        let read = revoked(&words.map(str::to_owned));
        assert_eq!(read, Ok(Revoked { version: 9, keys: vec![one] }));
        assert_eq!(revoked(&["x".to_owned()]), Err(Fault::Garbage));
        assert_eq!(revoked(&[]), Err(Fault::Garbage));
    }
}

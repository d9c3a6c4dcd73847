//! Peer load: what the other gateways have in flight, by worker.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use overdraft_core::fleet::Share;

/// TTL of a share that its gateway does not renew.
pub const SHARE_LIFE: Duration = Duration::from_millis(1_500);

/// Maximum gateways whose shares are read.
pub const GATEWAYS_MAX: usize = 64;

/// Maximum workers in one gateway's share.
const WORKERS_MAX: usize = 1_024;

/// What the others have in flight, by worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Sums over the other gateways.
    pub by_worker: BTreeMap<u64, Share>,
    /// Gateways, this one included.
    pub gateways: usize,
}

/// A share as text; workers with nothing in flight are left out.
pub(crate) fn text(shares: &[(u64, Share)]) -> String {
    let mut text = String::new();
    let busy = shares.iter().filter(|(_, share)| 0 < share.requests);
    for (worker, share) in busy.take(WORKERS_MAX) {
        let Share { requests, prompt_tokens, tokens } = share;
        write!(text, "{worker:x} {requests} {prompt_tokens} {tokens};")
            .expect("a string takes what is written");
    }
    text
}

/// Adds up what others told. What cannot be read is nobody's share; how many those were.
pub(crate) fn sum(told: &[String]) -> (Shared, u64) {
    let mut shared = Shared { gateways: told.len() + 1, ..Shared::default() };
    let mut unread = 0;
    for text in told.iter().take(GATEWAYS_MAX) {
        let Some(shares) = parse(text) else {
            unread += 1;
            continue;
        };
        for (worker, share) in shares {
            let all = shared.by_worker.entry(worker).or_default();
            all.requests = all.requests.saturating_add(share.requests);
            all.prompt_tokens = all.prompt_tokens.saturating_add(share.prompt_tokens);
            all.tokens = all.tokens.saturating_add(share.tokens);
        }
    }
    (shared, unread)
}

fn parse(text: &str) -> Option<Vec<(u64, Share)>> {
    let one = |part: &str| {
        let mut words = part.split(' ');
        let worker = u64::from_str_radix(words.next()?, 16).ok()?;
        let share = Share {
            requests: words.next()?.parse().ok()?,
            prompt_tokens: words.next()?.parse().ok()?,
            tokens: words.next()?.parse().ok()?,
        };
        // A newer gateway may tell more.
        Some((worker, share))
    };
    text.split_terminator(';').take(WORKERS_MAX).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(requests: u32) -> Share {
        Share { requests, prompt_tokens: 10, tokens: 20 }
    }

    #[test]
    fn what_is_told_is_what_is_heard_and_sums_over_gateways() {
        let told = [text(&[(7, share(1)), (9, share(0))]), text(&[(7, share(2)), (8, share(3))])];
        let (shared, unread) = sum(&told);
        assert_eq!((shared.gateways, unread), (3, 0));
        let requests: Vec<_> =
            shared.by_worker.iter().map(|(id, one)| (*id, one.requests)).collect();
        assert_eq!(requests, [(7, 3), (8, 3)]);
        assert_eq!(shared.by_worker[&7].tokens, 40);
    }

    #[test]
    fn garbage_is_nobodys_share() {
        let told =
            ["7 1 2".to_owned(), "x".to_owned(), "7 1 2 3x;".to_owned(), text(&[(7, share(1))])];
        let (shared, unread) = sum(&told);
        assert_eq!((shared.by_worker.len(), unread), (1, 3));
    }

    #[test]
    fn what_a_newer_gateway_tells_beside_is_left() {
        let (shared, unread) = sum(&["7 1 2 3 4;".to_owned()]);
        assert_eq!((shared.by_worker[&7].tokens, unread), (3, 0));
    }
}

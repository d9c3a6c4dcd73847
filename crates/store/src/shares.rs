//! Peer load: what the other gateways have in flight, by worker, and what waits in them, by model.

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

/// Maximum models in one gateway's share for which requests wait.
const MODELS_MAX: usize = 1_024;

/// What the word begins with that says how many requests wait.
const WAITING: char = 'q';

/// What one gateway carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnShare {
    /// What it has in flight, by worker.
    pub by_worker: Vec<(u64, Share)>,
    /// Requests that wait in it, by model.
    pub waiting: BTreeMap<u64, u64>,
}

/// What the others carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Sums over the other gateways.
    pub by_worker: BTreeMap<u64, Share>,
    /// Requests that wait in them, by model.
    pub waiting: BTreeMap<u64, u64>,
    /// Gateways, this one included.
    pub gateways: usize,
}

/// A share as text; workers with nothing in flight and models for which nobody waits are left out.
///
/// A model looks like a worker with nothing in flight and a fifth word: for that it is taken by gateways of before there
/// was such a word, which are running beside this one during an upgrade.
pub(crate) fn text(own: &OwnShare) -> String {
    let written = "a string takes what is written";
    let mut text = String::new();
    let busy = own.by_worker.iter().filter(|(_, share)| 0 < share.requests);
    for (worker, share) in busy.take(WORKERS_MAX) {
        let Share { requests, prompt_tokens, tokens } = share;
        write!(text, "{worker:x} {requests} {prompt_tokens} {tokens};").expect(written);
    }
    let awaited = own.waiting.iter().filter(|(_, count)| 0 < **count);
    for (model, count) in awaited.take(MODELS_MAX) {
        write!(text, "{model:x} 0 0 0 {WAITING}{count};").expect(written);
    }
    text
}

/// Adds up what others told. What cannot be read is nobody's share; how many those were.
pub(crate) fn sum(told: &[String]) -> (Shared, u64) {
    let mut shared = Shared { gateways: told.len() + 1, ..Shared::default() };
    let mut unread = 0;
    for text in told.iter().take(GATEWAYS_MAX) {
        let Some(own) = parse(text) else {
            unread += 1;
            continue;
        };
        for (model, count) in own.waiting {
            let all = shared.waiting.entry(model).or_default();
            *all = all.saturating_add(count);
        }
        for (worker, share) in own.by_worker {
            let all = shared.by_worker.entry(worker).or_default();
            all.requests = all.requests.saturating_add(share.requests);
            all.prompt_tokens = all.prompt_tokens.saturating_add(share.prompt_tokens);
            all.tokens = all.tokens.saturating_add(share.tokens);
        }
    }
    (shared, unread)
}

fn parse(text: &str) -> Option<OwnShare> {
    let mut own = OwnShare::default();
    for part in text.split_terminator(';').take(WORKERS_MAX + MODELS_MAX) {
        let mut words = part.split(' ');
        let number = u64::from_str_radix(words.next()?, 16).ok()?;
        let share = Share {
            requests: words.next()?.parse().ok()?,
            prompt_tokens: words.next()?.parse().ok()?,
            tokens: words.next()?.parse().ok()?,
        };
        // A newer gateway may tell more.
        if let Some(count) = words.next().and_then(|word| word.strip_prefix(WAITING)) {
            own.waiting.insert(number, count.parse().ok()?);
        } else {
            own.by_worker.push((number, share));
        }
    }
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(requests: u32) -> Share {
        Share { requests, prompt_tokens: 10, tokens: 20 }
    }

    /// What a gateway tells that has this in flight and these waiting.
    fn told(by_worker: &[(u64, Share)], waiting: &[(u64, u64)]) -> String {
        let waiting = waiting.iter().copied().collect();
        text(&OwnShare { by_worker: by_worker.to_vec(), waiting })
    }

    #[test]
    fn what_is_told_is_what_is_heard_and_sums_over_gateways() {
        let told = [
            told(&[(7, share(1)), (9, share(0))], &[(5, 20), (6, 0)]),
            told(&[(7, share(2)), (8, share(3))], &[(5, 5), (7, 1)]),
        ];
        let (shared, unread) = sum(&told);
        assert_eq!((shared.gateways, unread), (3, 0));
        let requests: Vec<_> =
            shared.by_worker.iter().map(|(id, one)| (*id, one.requests)).collect();
        assert_eq!(requests, [(7, 3), (8, 3)]);
        assert_eq!(shared.by_worker[&7].tokens, 40);
        assert_eq!(shared.waiting, BTreeMap::from([(5, 25), (7, 1)]));
    }

    #[test]
    fn a_model_is_told_as_a_worker_with_nothing_in_flight_and_a_word_more() {
        // Gateways that read four words of each, and leave the rest, must be able to go on beside this one.
        assert_eq!(told(&[(7, share(1))], &[(10, 3)]), "7 1 10 20;a 0 0 0 q3;");
    }

    #[test]
    fn garbage_is_nobodys_share() {
        let garbage = ["7 1 2", "x", "7 1 2 3x;", "7 0 0 0 qx;"].map(str::to_owned);
        let (shared, unread) = sum(&[&garbage[..], &[told(&[(7, share(1))], &[])]].concat());
        assert_eq!((shared.by_worker.len(), shared.waiting.len(), unread), (1, 0, 4));
    }

    #[test]
    fn what_a_newer_gateway_tells_beside_is_left() {
        let (shared, unread) = sum(&["7 1 2 3 4;".to_owned()]);
        assert_eq!((shared.by_worker[&7].tokens, unread), (3, 0));
    }
}

//! The protocol's event log: what was served live follows from the same events anew.

use std::collections::BTreeMap;

use overdraft_core::cascade::{
    Action, Cascade, Cause, Journal, Mode, Protocol, Rejected, Settings,
};
use overdraft_gateway::{CascadeLog, CascadeLogEntry, CascadeSettings};

use super::{Pair, begin_draft, ended, give_draft, go_on, said, score, window};
use crate::harness::ANSWER;

/// Requests that are recorded.
const REQUESTS: usize = 100;

/// What a worker says that refuses a request.
const REFUSAL: &str = r#"{"error":{"message":"no"}}"#;

/// An event that calls a tool, which no draft may.
const TOOLS: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\n";

impl Pair {
    /// A stream that ends as the draft says, one that dies and is continued, and answers that are whole, refused for
    /// tools, or not drafted at all. Few die, or the draft's worker would be out.
    async fn gated(&mut self, number: usize) {
        match number % 10 {
            0 | 5 | 6 => {
                let (mut client, mut call) = self.begun().await;
                call.chunk(&(said("c", 13) + &said("d", 14) + &ended(5))).await;
                call.end().await;
                client.rest().await;
            }
            1 => {
                let (mut client, call) = self.begun().await;
                call.reset();
                go_on(self.target().await, "c", 21).await;
                client.rest().await;
            }
            2 | 7 => {
                let mut client = self.chat("").await;
                give_draft(&mut self.draft, &(said("Hello", 11) + &ended(2))).await;
                client.whole().await;
            }
            3 | 8 => {
                let mut client = self.chat("").await;
                let _call = begin_draft(&mut self.draft, TOOLS).await;
                // Only the last answer is whole: once the target's time is known, drafts that are late are given up.
                let is_last = REQUESTS <= number + 2;
                let (status, answer) = if is_last { (200, ANSWER) } else { (400, REFUSAL) };
                self.target().await.answer(status, answer).await;
                client.whole().await;
            }
            _ => {
                let mut client = self.chat(r#","seed":7"#).await;
                self.target().await.answer(200, ANSWER).await;
                client.whole().await;
            }
        }
    }

    /// A draft of which the target accepts all, or all but the second token, after which it continues.
    async fn verified(&mut self, is_all: bool) {
        let mut client = self.chat(r#","temperature":0"#).await;
        give_draft(&mut self.draft, &(window() + &ended(3))).await;
        let told = score(&[(11, true), (12, is_all), (9, true)], is_all);
        self.target().await.answer(200, &told).await;
        if !is_all {
            go_on(self.target().await, "c", 21).await;
        }
        client.whole().await;
    }
}

/// A pair whose protocol is logged, with its settings and its log.
async fn logged(adjust: impl FnOnce(&mut CascadeSettings)) -> (Pair, Settings, CascadeLog) {
    let log = CascadeLog::default();
    let mut settings = None;
    let pair = Pair::start(1, |cascade| {
        adjust(cascade);
        cascade.slowdown = None;
        cascade.log = Some(log.clone());
        settings = Some(Settings::from(&*cascade));
    })
    .await;
    (pair, settings.expect("the gateway was set up"), log)
}

/// Asserts that the log's events, applied to a cascade that has learnt nothing, give the log's actions.
fn replay(settings: Settings, entries: &[CascadeLogEntry]) {
    let (mut cascade, mut journal) = (Cascade::new(settings), Journal::new(0));
    let mut requests: BTreeMap<u64, Protocol> = BTreeMap::new();
    for entry in entries {
        let protocol = requests
            .entry(entry.request)
            .or_insert_with(|| Protocol::new(&cascade, entry.terms, entry.at));
        let actions = protocol.handle(&mut cascade, &mut journal, entry.event.clone(), entry.at);
        assert_eq!(actions, entry.actions, "{entry:?}");
    }
    assert_eq!(requests.len(), REQUESTS);
}

fn count(entries: &[CascadeLogEntry], is_so: impl Fn(&Action) -> bool) -> usize {
    entries.iter().flat_map(|entry| &entry.actions).filter(|action| is_so(action)).count()
}

#[tokio::test]
async fn a_gate_of_a_hundred_requests_replays_to_the_same_actions() {
    let (mut pair, settings, log) = logged(|_| {}).await;
    for number in 0..REQUESTS {
        pair.gated(number).await;
    }
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="handed_over"} 10"#).await;
    let entries = log.entries();
    replay(settings, &entries);
    assert_eq!(count(&entries, |action| matches!(action, Action::AskDraft(_))), 80);
    assert_eq!(count(&entries, |action| matches!(action, Action::HandOver(_))), 10);
    assert_eq!(count(&entries, |action| matches!(action, Action::End)), 50);
    let refused = Action::AskTarget(Cause::Rejected(Rejected::Refused("tools")));
    assert_eq!(count(&entries, |action| *action == refused), 20);
}

#[tokio::test]
async fn a_verified_cascade_of_a_hundred_requests_replays_to_the_same_actions() {
    let (mut pair, settings, log) =
        logged(|cascade| (cascade.mode, cascade.threshold) = (Mode::Verify, None)).await;
    for number in 0..REQUESTS {
        pair.verified(number % 4 != 0).await;
    }
    let entries = log.entries();
    replay(settings, &entries);
    assert_eq!(count(&entries, |action| matches!(action, Action::Score { .. })), REQUESTS);
    assert_eq!(count(&entries, |action| matches!(action, Action::HandOver(_))), 25);
}

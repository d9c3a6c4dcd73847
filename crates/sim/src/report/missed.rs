//! Cache misses by cause: why prompt tokens were computed although they might have been cached.
//!
//! **Invariant:** a prompt token counts under one cause at most, and never as both hit and miss.

use serde_json::{Map, Value, json};

/// Prompt tokens that were computed, by why they were not in the cache of their worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Nobody had computed them before.
    pub never_seen: u64,
    /// They had been in a cache and gave way to other prompts.
    pub evicted: u64,
    /// The worker that had computed them last has crashed since.
    pub crashed: u64,
    /// The chosen worker had them when the request was sent, and no more when it was computed.
    pub displaced_on_the_way: u64,
    /// Another worker had them but no room for the request, or others waiting already.
    pub holder_full: u64,
    /// Another worker had them, and room.
    pub sent_elsewhere: u64,
}

impl Missed {
    fn all(self) -> [(&'static str, &'static str, u64); 6] {
        [
            ("missed_tokens_never_seen", "Input tokens never seen before:", self.never_seen),
            ("missed_tokens_evicted", "Found no more, evicted:", self.evicted),
            ("missed_tokens_crashed", "Found no more, lost in a crash:", self.crashed),
            (
                "missed_tokens_displaced_on_the_way",
                "Found no more, displaced on the way:",
                self.displaced_on_the_way,
            ),
            ("missed_tokens_holder_full", "Not sent where found, no room:", self.holder_full),
            (
                "missed_tokens_sent_elsewhere",
                "Not sent where found, though room:",
                self.sent_elsewhere,
            ),
        ]
    }

    /// Under names of their own.
    pub(crate) fn json(self) -> Map<String, Value> {
        self.all().into_iter().map(|(name, _, tokens)| (name.to_owned(), json!(tokens))).collect()
    }

    /// What is worth a line, for a terminal.
    pub(crate) fn lines(self) -> impl Iterator<Item = (&'static str, u64)> {
        let told = self.all().into_iter().map(|(_, title, tokens)| (title, tokens));
        told.filter(|(_, tokens)| 0 < *tokens)
    }
}

//! Incremental text output: detokenizes a sequence and matches stop strings.
//!
//! Tokens become characters, characters pass the stop matcher. Before `min_tokens` stop strings do
//! not count, not even as the beginning of one that ends later, as in vLLM.

use overdraft_units::TokenId;

use crate::request::Sampling;
use crate::stop::{StopMatcher, StopStep, StopText};
use overdraft_tokenizer::{Detokenize, SpecialTokens, TextCodec};

/// The text of one sequence, as it comes.
pub(super) struct TextOut {
    detokenizer: Box<dyn Detokenize>,
    matcher: StopMatcher,
    /// The detokenizer's output for one token, kept to save the allocation.
    piece: String,
}

/// Whether stop strings count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Not before `min_tokens`.
    NotYet,
    /// They do.
    Stops,
}

impl TextOut {
    pub(super) fn new(codec: &dyn TextCodec, sampling: &Sampling) -> Self {
        let special =
            if sampling.skip_special_tokens { SpecialTokens::Skip } else { SpecialTokens::Keep };
        let stop_text = if sampling.include_stop { StopText::Kept } else { StopText::Cut };
        Self {
            detokenizer: codec.detokenizer(special),
            matcher: StopMatcher::new(&sampling.stop, stop_text),
            piece: String::new(),
        }
    }

    /// The text that `token` makes certain.
    pub(super) fn push(&mut self, token: TokenId, watch: Watch) -> StopStep {
        self.piece.clear();
        self.detokenizer.push(token, &mut self.piece);
        match watch {
            Watch::NotYet => StopStep::Released(self.matcher.pass(&self.piece)),
            Watch::Stops => self.matcher.push(&self.piece),
        }
    }

    /// What is left when no token follows.
    pub(super) fn finish(&mut self, watch: Watch) -> StopStep {
        self.piece.clear();
        self.detokenizer.finish(&mut self.piece);
        if watch == Watch::NotYet {
            return StopStep::Released(self.matcher.pass(&self.piece));
        }
        match self.matcher.push(&self.piece) {
            StopStep::Released(mut text) => {
                text.push_str(&self.matcher.finish());
                StopStep::Released(text)
            }
            hit @ StopStep::Hit { .. } => hit,
        }
    }
}

impl core::fmt::Debug for TextOut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TextOut").field("matcher", &self.matcher).finish_non_exhaustive()
    }
}

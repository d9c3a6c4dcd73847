//! Text codec: the engine's interface to detokenization and end tokens.
//!
//! The loop never encodes, and a detokenizer is the state of one sequence, because a character may
//! span tokens.

use overdraft_units::TokenId;

/// A vocabulary as the engine's loop sees it.
pub trait TextCodec: Send + Sync {
    /// A detokenizer for one sequence.
    fn detokenizer(&self, special: SpecialTokens) -> Box<dyn Detokenize>;

    /// The model's own end tokens: end of sequence, end of turn.
    fn end_tokens(&self) -> &[TokenId];
}

/// Whether control tokens appear in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They are left out.
    Skip,
    /// They appear as the vocabulary spells them.
    Keep,
}

/// Turns the tokens of one sequence into text, piece by piece.
pub trait Detokenize: Send {
    /// Appends the text that `token` makes certain: whole characters only.
    fn push(&mut self, token: TokenId, text: &mut String);

    /// Appends what is left when no token follows, such as a replacement character for an
    /// incomplete one.
    fn finish(&mut self, text: &mut String);
}

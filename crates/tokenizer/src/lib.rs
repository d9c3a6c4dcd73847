//! How does text become a model's tokens, and tokens text again?
//!
//! Two vocabularies of pairs, the chat templates that models come with, and the seam through which
//! an engine's loop sees them. No file format and no clock: whoever reads a model's file describes
//! it as a [`TokenizerSource`], and the time of a chat is an argument.

pub mod codec;
pub mod template;
pub mod tokenizer;

pub use self::codec::{Detokenize, SpecialTokens, TextCodec};
pub use self::template::{ChatInput, ChatTemplate, Rendered, TemplateError};
pub use self::tokenizer::{
    ControlTokens, Detokenizer, Framing, TokenKind, Tokenizer, TokenizerError, TokenizerSource,
};

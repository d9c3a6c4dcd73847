//! How does text become a model's tokens, and tokens text again?
//!
//! Two kinds of vocabularies, the chat templates that models come with, and the seam through which an
//! engine's loop sees them. A [`Prompter`] puts them together with a cache of pieces: it makes the
//! prompt of a request, for the worker that computes it and for the gateway that routes it
//! (docs/design/tokenizing.md). No clock and no model files: whoever reads one describes what is in it
//! as a [`TokenizerSource`]; only [`Prompter::from_folder`] opens files.

pub mod codec;
pub mod document;
mod folder;
pub mod pieces;
pub mod prompter;
mod rendered;
pub mod template;
pub mod tokenizer;
mod tokenizer_json;

pub use self::codec::{Detokenize, SpecialTokens, TextCodec};
pub use self::document::{SourceError, TOKENIZER_DOCUMENT_BYTES_MAX, TokenizerDocument};
pub use self::pieces::{PIECE_BYTES, PIECE_CACHE_BYTES, PieceCache, PieceCounts};
pub use self::prompter::{Chat, Prompter, PrompterError};
pub use self::template::{ChatInput, ChatTemplate, Rendered, TemplateError};
pub use self::tokenizer::{
    ControlTokens, Detokenizer, Framing, Input, Metaspace, TokenKind, Tokenizer, TokenizerError,
    TokenizerSource,
};

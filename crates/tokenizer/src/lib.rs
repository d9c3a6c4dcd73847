//! Tokenizer library: byte-pair and score-based vocabularies, and chat templates.
//!
//! It has two kinds of vocabularies, the chat templates of models, and the interface through which
//! an engine's loop uses them. A [`Prompter`] combines them with a cache of pieces: it makes the
//! prompt of a request, for the worker that computes it and for the gateway that routes it
//! (docs/design/tokenizing.md). No clock and no model files: the reader of a model file describes
//! its vocabulary as a [`TokenizerSource`]; only [`Prompter::from_folder`] opens files.

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
pub use self::prompter::{Chat, PromptBound, Prompter, PrompterError, UNCUT_BYTES_MAX};
pub use self::template::{ChatInput, ChatTemplate, Rendered, TemplateError};
pub use self::tokenizer::{
    ControlTokens, Detokenizer, Framing, Input, Metaspace, TokenKind, Tokenizer, TokenizerError,
    TokenizerSource,
};

//! Prompter: the tokens that a worker will make of an OpenAI request.
//!
//! A tokenizer, a chat template and the cache of pieces, together. The worker asks it for the prompts
//! it computes and a gateway for the prompts it routes, so both get the same tokens.
//! **Invariant:** the tokens of [`Prompter::prompt_of`] are those of the request's first prompt.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use overdraft_units::{CacheSalt, TokenId, Tokens};
use overdraft_wire::json::Object;
use overdraft_wire::request::{Message, Prompt, Rendering, Truncation};
use overdraft_wire::{ApiError, ChatRequest, CompletionRequest, Generation};
use serde_json::Value;

use crate::document::{self, Described, SourceError};
use crate::folder;
use crate::pieces::PieceCache;
use crate::template::{ChatInput, ChatTemplate, TemplateError};
use crate::tokenizer::{ControlTokens, Framing, Input, Tokenizer, TokenizerSource};

/// Makes prompts of requests. Cheap to clone; threads share it.
#[derive(Clone, Debug)]
pub struct Prompter {
    tokenizer: Arc<Tokenizer>,
    template: Arc<ChatTemplate>,
    pieces: Arc<PieceCache>,
    /// The process's own, so that nobody can look for two salts with one number.
    salts: RandomState,
    reader: Reader,
    bound: Option<PromptBound>,
}

/// Bytes without a place to cut that are encoded at most, however few tokens they may be: encoding them takes some
/// 400 MiB of memory.
pub const UNCUT_BYTES_MAX: usize = 1024 * 1024;

/// What text of a prompt is encoded: what is within either bound, and has no stretch of more than
/// [`UNCUT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptBound {
    /// Text is within if it may have no more tokens than this.
    pub tokens: Tokens,
    /// Text is within if no stretch without a place to cut has more bytes. For each of them encoding
    /// takes some 400 bytes of memory.
    pub uncut_bytes: usize,
}

/// Whose prompts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Our worker's: what a client wrote never becomes a control token.
    Ours,
    /// A stock engine's: it tokenizes what its template rendered, control tokens in a client's text too, and
    /// truncates prompts where it is asked to.
    Stock,
}

/// A request has no prompt that could be made. Both are sentences for the client.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PrompterError {
    /// The body is not a request.
    #[error(transparent)]
    Request(#[from] ApiError),
    /// The template does not make a prompt of it.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The worker cuts it to a length that only the worker knows.
    #[error("`truncate_prompt_tokens` is no length that is known before a worker is chosen")]
    Truncated,
    /// It is beyond the [`PromptBound`], and was not encoded.
    #[error(
        "the prompt has at least `{}` tokens; expected at most {}: shorten it",
        at_least.get(), most.get()
    )]
    TooLong {
        /// Tokens that it has at least.
        at_least: Tokens,
        /// Tokens of the bound.
        most: Tokens,
    },
    /// Its tokens may fit, but a stretch of it would take too much memory, and was not encoded.
    #[error(
        "the prompt has {bytes} bytes without a place to cut them; expected at most {most}: \
         shorten them, or put words between them"
    )]
    Uncut {
        /// Bytes of the longest stretch.
        bytes: usize,
        /// Bytes of a stretch at most.
        most: usize,
    },
}

impl From<PrompterError> for ApiError {
    fn from(error: PrompterError) -> Self {
        match error {
            PrompterError::Request(error) => error,
            PrompterError::Template(error) => error.into(),
            error @ PrompterError::Truncated => {
                Self::invalid("truncate_prompt_tokens", error.to_string())
            }
            PrompterError::TooLong { at_least, most } => Self::prompt_too_long(at_least, most),
            error @ PrompterError::Uncut { .. } => Self::invalid("messages", error.to_string()),
        }
    }
}

/// What a chat's prompt is made of.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// Functions the model may call, as the client described them.
    pub tools: &'a [Value],
    /// How the prompt ends, and variables for the template.
    pub rendering: &'a Rendering,
}

impl Prompter {
    /// A prompter for the model that `tokenizer` and `template` belong to. One cache serves any
    /// number of models.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        template: Arc<ChatTemplate>,
        pieces: Arc<PieceCache>,
    ) -> Self {
        let salts = RandomState::new();
        Self { tokenizer, template, pieces, salts, reader: Reader::Ours, bound: None }
    }

    /// The same, but prompts beyond `bound` are refused before they are encoded.
    #[must_use]
    pub fn within(self, bound: PromptBound) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// The same for the prompts of an engine that is not ours.
    #[must_use]
    pub fn of_stock_engine(self) -> Self {
        Self { reader: Reader::Stock, ..self }
    }

    /// A prompter for the model that is so described.
    ///
    /// # Errors
    /// [`SourceError`] when the description is contradictory or of a kind unknown here.
    pub fn from_source(
        source: TokenizerSource,
        template: Option<&str>,
        pieces: Arc<PieceCache>,
    ) -> Result<Self, SourceError> {
        let chat_template = template.map(str::to_owned);
        Self::described(Described { source, chat_template, tool_template: None }, pieces)
    }

    fn described(described: Described, pieces: Arc<PieceCache>) -> Result<Self, SourceError> {
        let Described { source, chat_template, tool_template } = described;
        let tokenizer = Tokenizer::new(source)?;
        let template = ChatTemplate::new(chat_template.as_deref(), &tokenizer)?;
        let template = template.with_tools(tool_template.as_deref())?;
        Ok(Self::new(Arc::new(tokenizer), Arc::new(template), pieces))
    }

    /// A prompter for the model in a folder in Hugging Face's layout: `tokenizer.json`, and if they
    /// are there `tokenizer_config.json`, `chat_template.jinja` and
    /// `additional_chat_templates/tool_use.jinja`. Reads files.
    ///
    /// # Errors
    /// [`SourceError`] when a file cannot be read or is not understood.
    pub fn from_folder(path: &Path, pieces: Arc<PieceCache>) -> Result<Self, SourceError> {
        Self::described(folder::read(path)?, pieces)
    }

    /// A prompter for the model whose worker answered `document` to `GET /tokenizer_source`.
    ///
    /// # Errors
    /// [`SourceError`] when the document is too large, damaged or of another version.
    pub fn from_document(document: &[u8], pieces: Arc<PieceCache>) -> Result<Self, SourceError> {
        Self::described(document::read(document)?, pieces)
    }

    /// The tokens of a request's prompt; of several, the first's. `unix_seconds` since 1970 is for
    /// templates that tell the date.
    ///
    /// # Errors
    /// [`PrompterError`] when the worker would refuse the request too.
    pub fn prompt_of(
        &self,
        body: &[u8],
        generation: Generation,
        unix_seconds: u64,
    ) -> Result<Vec<TokenId>, PrompterError> {
        let prompts = self.prompts_of(body, generation, unix_seconds)?;
        Ok(prompts.into_iter().next().unwrap_or_default())
    }

    /// The tokens of all prompts of a request.
    ///
    /// # Errors
    /// As [`prompt_of`](Self::prompt_of).
    pub fn prompts_of(
        &self,
        body: &[u8],
        generation: Generation,
        unix_seconds: u64,
    ) -> Result<Vec<Vec<TokenId>>, PrompterError> {
        let prompts = self.whole_prompts_of(body, generation, unix_seconds)?;
        match self.reader {
            Reader::Ours => Ok(prompts),
            Reader::Stock => {
                let object = Object::parse(body).map_err(ApiError::from)?;
                let truncation = Truncation::of(&object).ok_or(PrompterError::Truncated)?;
                let left = prompts.into_iter().map(|prompt| truncation.apply(prompt));
                left.collect::<Option<_>>().ok_or(PrompterError::Truncated)
            }
        }
    }

    fn whole_prompts_of(
        &self,
        body: &[u8],
        generation: Generation,
        unix_seconds: u64,
    ) -> Result<Vec<Vec<TokenId>>, PrompterError> {
        match generation {
            Generation::Chat => {
                let request = ChatRequest::parse(body)?;
                let chat = Chat {
                    messages: &request.messages,
                    tools: &request.tools,
                    rendering: &request.rendering,
                };
                let salt = self.salt(request.options.scheduling.cache_salt.as_deref());
                Ok(vec![self.chat(&chat, salt, unix_seconds)?])
            }
            Generation::Completion => {
                let request = CompletionRequest::parse(body)?;
                let salt = self.salt(request.options.scheduling.cache_salt.as_deref());
                let framing = Framing::from_flag(request.add_special_tokens);
                let tokens = |prompt| match prompt {
                    Prompt::Text(text) => self.prompt(&text, framing, salt),
                    Prompt::Tokens(tokens) => Ok(tokens),
                };
                request.prompts.into_iter().map(tokens).collect()
            }
        }
    }

    /// The tokens of a chat.
    ///
    /// # Errors
    /// [`PrompterError::Template`], [`PrompterError::TooLong`] and [`PrompterError::Uncut`].
    pub fn chat(
        &self,
        chat: &Chat<'_>,
        salt: CacheSalt,
        unix_seconds: u64,
    ) -> Result<Vec<TokenId>, PrompterError> {
        let Chat { messages, tools, rendering } = *chat;
        let rendered =
            self.template.render(&ChatInput { messages, tools, rendering, unix_seconds })?;
        self.check_length(rendered.text())?;
        let framing = Framing::from_flag(rendering.add_special_tokens);
        let input = match self.reader {
            Reader::Ours => Input::Rendered(&rendered),
            Reader::Stock => Input::Text(rendered.text(), ControlTokens::Parsed),
        };
        Ok(self.framed(input, framing, salt))
    }

    /// The tokens of a client's raw prompt, in which control tokens are recognised.
    ///
    /// # Errors
    /// [`PrompterError::TooLong`] and [`PrompterError::Uncut`].
    pub fn prompt(
        &self,
        text: &str,
        framing: Framing,
        salt: CacheSalt,
    ) -> Result<Vec<TokenId>, PrompterError> {
        self.check_length(text)?;
        Ok(self.text(text, framing, salt))
    }

    /// The same for a text of our own, whatever its length.
    pub fn text(&self, text: &str, framing: Framing, salt: CacheSalt) -> Vec<TokenId> {
        self.framed(Input::Text(text, ControlTokens::Parsed), framing, salt)
    }

    /// The number under which pieces of requests with this `cache_salt` are shared.
    pub fn salt(&self, text: Option<&str>) -> CacheSalt {
        text.map_or(CacheSalt(0), |text| CacheSalt(self.salts.hash_one(text).max(1)))
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The cache it shares.
    pub fn pieces(&self) -> &Arc<PieceCache> {
        &self.pieces
    }

    /// Refuses what is beyond both bounds, and what no bound allows: a token may be 128 spaces, and so few tokens that
    /// they fit may take gigabytes to find.
    fn check_length(&self, text: &str) -> Result<(), PrompterError> {
        let Some(PromptBound { tokens: most, uncut_bytes }) = self.bound else { return Ok(()) };
        if text.len() <= uncut_bytes.min(UNCUT_BYTES_MAX) {
            return Ok(());
        }
        let at_least = self.tokenizer.tokens_at_least(text);
        if at_least <= most && text.len() <= UNCUT_BYTES_MAX {
            return Ok(());
        }
        let bytes = self.tokenizer.longest_uncut(text);
        if most < at_least && uncut_bytes < bytes {
            return Err(PrompterError::TooLong { at_least, most });
        }
        if UNCUT_BYTES_MAX < bytes {
            return Err(PrompterError::Uncut { bytes, most: UNCUT_BYTES_MAX });
        }
        Ok(())
    }

    fn framed(&self, input: Input<'_>, framing: Framing, salt: CacheSalt) -> Vec<TokenId> {
        let tokens = self.pieces.encode(&self.tokenizer, input, salt);
        match framing {
            Framing::Added => self.tokenizer.frame(tokens),
            Framing::Bare => tokens,
        }
    }
}

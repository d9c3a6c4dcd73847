//! Tokenizer document: a worker's tokenizer as JSON (`GET /tokenizer_source`).
//!
//! `{"version": 1, "source": {…}, "chat_template": "…" or null, "digest": "…"}`; version 2 has a `tool_template` as well.
//! The digest names the tokenizer and the templates: equal digests, equal prompts. **Invariant:** a document that is
//! read is the one that was written, or an error; its size and the length of its tokens are bounded before anything is
//! built of them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::template::TemplateError;
use crate::tokenizer::{TokenizerError, TokenizerSource};

/// Bytes of a document, or of a `tokenizer.json`, at most: the largest vocabularies take half of it.
pub const TOKENIZER_DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a chat template at most.
pub const CHAT_TEMPLATE_BYTES_MAX: usize = 1024 * 1024;
/// The version of the document that is written and read.
const VERSION: u32 = 1;
/// That of one with a template for requests with tools, which older readers would leave out.
const VERSION_OF_TOOLS: u32 = 2;

/// A tokenizer cannot be read from where it was said to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The operating system would not give us a file.
    #[error("the file `{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// It is larger than any real one.
    #[error("{what} takes `{bytes}` bytes; expected at most {most}")]
    TooLarge {
        /// What does.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// The bound.
        most: usize,
    },
    /// It is not JSON of the form expected.
    #[error("{what} cannot be understood: {reason}")]
    Malformed {
        /// What cannot.
        what: &'static str,
        /// Where and why.
        reason: String,
    },
    /// Another version of the document.
    #[error(
        "the tokenizer document has version `{found}`; expected {VERSION} or {VERSION_OF_TOOLS}: \
         update the older side"
    )]
    Version {
        /// The version it claims.
        found: u32,
    },
    /// The document is not the one that was written.
    #[error("the tokenizer document has digest `{found}`; expected `{expected}`: fetch it again")]
    Digest {
        /// What it claims.
        found: String,
        /// What its content has.
        expected: String,
    },
    /// A tokenizer of a kind that is not known here.
    #[error("`{entry}` of tokenizer.json is `{found}`; expected {expected}")]
    Unsupported {
        /// Which entry says so.
        entry: String,
        /// What it says, cut short.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// The description of the tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// A tokenizer and its chat template, written for others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TokenizerDocument {
    json: Bytes,
    digest: String,
}

/// A tokenizer and the texts of its chat templates, as a folder or a document has them.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) source: TokenizerSource,
    pub(crate) chat_template: Option<String>,
    /// That of requests with tools, if it is another one.
    pub(crate) tool_template: Option<String>,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    source: &'a TokenizerSource,
    chat_template: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_template: Option<&'a str>,
    digest: &'a str,
}

#[derive(Deserialize)]
struct Read {
    source: TokenizerSource,
    chat_template: Option<String>,
    tool_template: Option<String>,
    digest: String,
}

/// Looked at first: another version may have other fields.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl TokenizerDocument {
    /// Writes what a model's file says about its tokenizer, and the text of its chat template.
    pub fn new(source: &TokenizerSource, chat_template: Option<&str>) -> Self {
        Self::with_tools(source, chat_template, None)
    }

    /// The same of a model that may have another template for requests with tools.
    pub fn with_tools(
        source: &TokenizerSource,
        chat_template: Option<&str>,
        tool_template: Option<&str>,
    ) -> Self {
        let digest = digest(source, chat_template, tool_template);
        let version = if tool_template.is_some() { VERSION_OF_TOOLS } else { VERSION };
        let written = Written { version, source, chat_template, tool_template, digest: &digest };
        let json = serde_json::to_vec(&written).expect("strings, numbers and lists are JSON");
        Self { json: json.into(), digest }
    }

    /// The document.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Names the tokenizer and the templates, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Reads a document.
pub(crate) fn read(document: &[u8]) -> Result<Described, SourceError> {
    within("the tokenizer document", document.len(), TOKENIZER_DOCUMENT_BYTES_MAX)?;
    let malformed = |error: serde_json::Error| SourceError::Malformed {
        what: "the tokenizer document",
        reason: error.to_string(),
    };
    let Versioned { version } = serde_json::from_slice(document).map_err(malformed)?;
    if version != VERSION && version != VERSION_OF_TOOLS {
        return Err(SourceError::Version { found: version });
    }
    let Read { source, chat_template, tool_template, digest: found } =
        serde_json::from_slice(document).map_err(malformed)?;
    let expected = digest(&source, chat_template.as_deref(), tool_template.as_deref());
    if found != expected {
        return Err(SourceError::Digest { found, expected });
    }
    let described = Described { source, chat_template, tool_template };
    described.check_templates()?;
    Ok(described)
}

impl Described {
    /// Refuses templates that would take too long to prepare.
    pub(crate) fn check_templates(&self) -> Result<(), SourceError> {
        for template in [&self.chat_template, &self.tool_template].into_iter().flatten() {
            within("the chat template", template.len(), CHAT_TEMPLATE_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// Refuses what is larger than `most`.
pub(crate) fn within(what: &str, bytes: usize, most: usize) -> Result<(), SourceError> {
    if bytes <= most {
        return Ok(());
    }
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Err(SourceError::TooLarge { what: what.to_owned(), bytes, most })
}

fn digest(
    source: &TokenizerSource,
    chat_template: Option<&str>,
    tool_template: Option<&str>,
) -> String {
    let mut hasher = Xxh3::new();
    hasher.update(&source.digest().to_le_bytes());
    hasher.update(&[u8::from(chat_template.is_some())]);
    hasher.update(chat_template.unwrap_or_default().as_bytes());
    if let Some(text) = tool_template {
        // A byte that no text has tells where the other one ends.
        hasher.update(&[u8::MAX]);
        hasher.update(text.as_bytes());
    }
    format!("{:032x}", hasher.digest128())
}

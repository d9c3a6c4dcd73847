//! Tokenizer folder: reads Hugging Face's files of a model.
//!
//! `tokenizer.json` has the vocabulary, `tokenizer_config.json` names the tokens around a prompt and
//! may hold the chat templates, files of their own hold them otherwise and win. What the result
//! cannot express is an error, never a guess. **Invariant:** no file larger than its bound is read.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::document::{
    CHAT_TEMPLATE_BYTES_MAX, Described, SourceError, TOKENIZER_DOCUMENT_BYTES_MAX, within,
};
use crate::tokenizer::TokenizerSource;
use crate::tokenizer_json::TokenizerJson;

/// Bytes of a `tokenizer_config.json` at most; some list every added token again.
const CONFIG_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The files of chat templates: the usual one, and that of requests with tools.
const TEMPLATES: [&str; 2] = ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"];
/// Classes that build the frame of a prompt from their settings and not from `tokenizer.json`: a
/// `bos` unless told otherwise, and no `eos` unless asked for.
const FRAMING_CLASSES: [&str; 2] = ["LlamaTokenizer", "GemmaTokenizer"];

/// What is read of `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    tokenizer_class: Option<String>,
    bos_token: Option<Named>,
    eos_token: Option<Named>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    chat_template: Option<Templates>,
}

/// A token's text, alone or with its settings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Token { content: String },
}

/// One template, or several with names.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Several(Vec<NamedTemplate>),
    Other(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// Reads the description of a tokenizer and the texts of its chat templates.
pub(crate) fn read(folder: &Path) -> Result<Described, SourceError> {
    let path = folder.join("tokenizer.json");
    let Some(vocabulary) = contents(&path, TOKENIZER_DOCUMENT_BYTES_MAX)? else {
        let reason = "there is no such file; expected one in Hugging Face's layout".to_owned();
        return Err(SourceError::Unreadable { path: path.display().to_string(), reason });
    };
    let config = match contents(&folder.join("tokenizer_config.json"), CONFIG_BYTES_MAX)? {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| SourceError::Malformed {
            what: "tokenizer_config.json",
            reason: error.to_string(),
        })?,
        None => Config::default(),
    };
    let [usual, of_tools] = TEMPLATES;
    // As for Hugging Face's library, a file takes the place of all that the configuration has.
    let (chat_template, tool_template) = match (text(folder, usual)?, text(folder, of_tools)?) {
        (None, None) => (config.template("default"), config.template("tool_use")),
        files => files,
    };
    let parsed = TokenizerJson::parse(&vocabulary)?;
    let mut source = parsed.source()?;
    config.frame(&parsed, &mut source)?;
    let described = Described { source, chat_template, tool_template };
    described.check_templates()?;
    Ok(described)
}

/// The text of a chat template in a file of its own; `None` if there is no such file.
fn text(folder: &Path, name: &'static str) -> Result<Option<String>, SourceError> {
    let bytes = contents(&folder.join(name), CHAT_TEMPLATE_BYTES_MAX)?;
    bytes
        .map(String::from_utf8)
        .transpose()
        .map_err(|error| SourceError::Malformed { what: name, reason: error.to_string() })
}

/// A file's bytes; `None` if there is no such file.
fn contents(path: &Path, most: usize) -> Result<Option<Vec<u8>>, SourceError> {
    let unreadable = |error: std::io::Error| SourceError::Unreadable {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    within(&format!("`{}`", path.display()), bytes.len(), most)?;
    Ok(Some(bytes))
}

impl Config {
    /// The template of a name; one without a name is the `default`.
    fn template(&self, name: &str) -> Option<String> {
        match self.chat_template.as_ref()? {
            Templates::One(text) => (name == "default").then(|| text.clone()),
            Templates::Several(list) => {
                list.iter().find(|one| one.name == name).map(|one| one.template.clone())
            }
            Templates::Other(_) => None,
        }
    }

    /// Sets the tokens that begin and end texts, and whether prompts are given them.
    fn frame(
        &self,
        vocabulary: &TokenizerJson,
        source: &mut TokenizerSource,
    ) -> Result<(), SourceError> {
        let id = |token: &Option<Named>| token.as_ref().and_then(|named| source.id(named.text()));
        let (bos, eos) = (id(&self.bos_token), id(&self.eos_token));
        let class = self.tokenizer_class.as_deref().unwrap_or_default();
        let (first, last) = if FRAMING_CLASSES.iter().any(|known| class.starts_with(known)) {
            let added = |flag: Option<bool>, default: bool| flag.unwrap_or(default);
            (
                bos.filter(|_| added(self.add_bos_token, true)),
                eos.filter(|_| added(self.add_eos_token, false)),
            )
        } else {
            vocabulary.frame(source)?
        };
        agree("bos_token", bos, first)?;
        agree("eos_token", eos, last)?;
        source.bos = bos.or(first);
        source.eos = eos.or(last);
        source.add_bos = Some(first.is_some());
        source.add_eos = Some(last.is_some());
        Ok(())
    }
}

/// The token that is added must be the one that the configuration names, if it names one.
fn agree(name: &str, named: Option<u32>, added: Option<u32>) -> Result<(), SourceError> {
    match (named, added) {
        (Some(named), Some(added)) if named != added => Err(SourceError::Unsupported {
            entry: "post_processor".to_owned(),
            found: format!("a template that adds token {added}"),
            expected: if name == "bos_token" {
                "the `bos_token` of tokenizer_config.json"
            } else {
                "the `eos_token` of tokenizer_config.json"
            },
        }),
        _ => Ok(()),
    }
}

impl Named {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Token { content: text } => text,
        }
    }
}

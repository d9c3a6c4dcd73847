//! GGUF tokenizer: reads a model file's tokenizer and chat template.
//!
//! It converts the entries `tokenizer.*` to the types of [`overdraft_tokenizer`], which knows no
//! file format.

use overdraft_tokenizer::{
    ChatTemplate, TemplateError, Tokenizer, TokenizerError, TokenizerSource,
};

use crate::gguf::{Metadata, OpenError};

/// A model's file has no tokenizer that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileTokenizerError {
    /// The file has none, or an entry of it has the wrong type.
    #[error(transparent)]
    Metadata(#[from] OpenError),
    /// The file's cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl FileTokenizerError {
    /// What the operator of the model can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Metadata(error) => error.hint(),
            Self::Tokenizer(error) => error.hint(),
        }
    }
}

/// Two models whose tokens are not the same: one cannot guess for the other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the draft model has another tokenizer: `{draft}` tokens, where the target has {target}; the first \
     that differs is token {place}, `{found}`, where the target has `{expected}`"
)]
pub struct TokenizerMismatch {
    target: usize,
    draft: usize,
    place: usize,
    found: String,
    expected: String,
}

/// Whether the same numbers stand for the same texts, given both vocabularies by id.
///
/// # Errors
/// [`TokenizerMismatch`] with the first that differs.
pub fn check_same(target: &[String], draft: &[String]) -> Result<(), TokenizerMismatch> {
    let place = (0..target.len().max(draft.len())).find(|&id| target.get(id) != draft.get(id));
    let Some(place) = place else { return Ok(()) };
    let shown = |tokens: &[String]| tokens.get(place).map_or("nothing", String::as_str).to_owned();
    let (found, expected) = (shown(draft), shown(target));
    Err(TokenizerMismatch { target: target.len(), draft: draft.len(), place, found, expected })
}

/// The tokenizer in a model's file.
///
/// # Errors
/// [`FileTokenizerError`] when the file has none, or one of a kind unknown here.
pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, FileTokenizerError> {
    Ok(Tokenizer::new(source_from_metadata(metadata)?)?)
}

/// The chat template in a model's file, with that of requests with tools if it has two.
///
/// # Errors
/// [`TemplateError::Syntax`]; an entry of the wrong type counts as no template.
pub fn template_from_metadata(
    metadata: &Metadata,
    tokenizer: &Tokenizer,
) -> Result<ChatTemplate, TemplateError> {
    ChatTemplate::new(template_text(metadata), tokenizer)?.with_tools(tool_template_text(metadata))
}

/// The text of the chat template in a model's file, if it has one.
pub fn template_text(metadata: &Metadata) -> Option<&str> {
    metadata.text("tokenizer.chat_template").unwrap_or_default()
}

/// The text of the template for requests with tools, if the model's file has one beside the usual one, as those of
/// Hermes and Command R have.
pub fn tool_template_text(metadata: &Metadata) -> Option<&str> {
    metadata.text("tokenizer.chat_template.tool_use").unwrap_or_default()
}

/// The description of the tokenizer in a model's file.
///
/// # Errors
/// [`OpenError`] when it is missing or an entry has the wrong type.
pub fn source_from_metadata(metadata: &Metadata) -> Result<TokenizerSource, OpenError> {
    metadata.require_tokenizer()?;
    let id = |name: &str| -> Result<Option<u32>, OpenError> {
        let found = metadata.unsigned(&format!("tokenizer.ggml.{name}_token_id"))?;
        // Some writers mark an absent token with -1 as u32; what lies outside is dropped later.
        Ok(found.and_then(|id| u32::try_from(id).ok()))
    };
    let flag = |name: &str| metadata.flag(&format!("tokenizer.ggml.{name}"));
    let texts = |name: &str| -> Result<Option<Vec<String>>, OpenError> {
        let found = metadata.texts(&format!("tokenizer.ggml.{name}"))?;
        Ok(found.map(|texts| texts.into_iter().map(str::to_owned).collect()))
    };
    let token_types = metadata.integers("tokenizer.ggml.token_type")?.map(|kinds| {
        kinds.into_iter().map(|kind| i32::try_from(kind).unwrap_or_default()).collect()
    });
    Ok(TokenizerSource {
        model: metadata.text("tokenizer.ggml.model")?.unwrap_or_default().to_owned(),
        pre: metadata.text("tokenizer.ggml.pre")?.map(str::to_owned),
        tokens: texts("tokens")?.unwrap_or_default(),
        scores: metadata.floats("tokenizer.ggml.scores")?,
        token_types,
        merges: texts("merges")?,
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        unk: id("unknown")?,
        pad: id("padding")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        ..TokenizerSource::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_sameness(target: &[&str], draft: &[&str], expected: &str) {
        let own = |tokens: &[&str]| tokens.iter().map(ToString::to_string).collect::<Vec<_>>();
        let said = match check_same(&own(target), &own(draft)) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_draft_with_other_tokens_is_told_how_many_and_which() {
        check_sameness(&["a", "b"], &["a", "b"], "");
        check_sameness(
            &["a", "b", "c"],
            &["a", "x", "c"],
            "the draft model has another tokenizer: `3` tokens, where the target has 3; the first \
             that differs is token 1, `x`, where the target has `b`",
        );
        check_sameness(
            &["a", "b"],
            &["a", "b", "c"],
            "the draft model has another tokenizer: `3` tokens, where the target has 2; the first \
             that differs is token 2, `c`, where the target has `nothing`",
        );
    }

    #[test]
    fn a_file_without_a_tokenizer_is_named() {
        let error = from_metadata(&Metadata::default()).unwrap_err();
        assert!(matches!(error, FileTokenizerError::Metadata(_)), "{error}");
        assert!(!error.hint().is_empty());
    }
}

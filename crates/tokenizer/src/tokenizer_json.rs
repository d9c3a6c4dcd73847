//! `tokenizer.json` reader: Hugging Face's format as a [`TokenizerSource`].
//!
//! Two families are understood: words of bytes (GPT-2's descendants), whose patterns must be ones that
//! [`crate::tokenizer`] knows, and `SentencePiece`'s pieces with a list of pairs. Every entry that
//! changes tokens is either expressed or refused by name. **Invariant:** what is not refused gives the
//! tokens that Hugging Face's library gives.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::document::SourceError;
use crate::tokenizer::{Metaspace, TokenizerSource, family_of};

/// Token ids at most: an id beyond is a mistake, and would be paid for in memory.
const IDS_MAX: u32 = 1 << 22;
/// Characters of an entry that an error quotes at most.
const QUOTED_CHARS_MAX: usize = 120;
/// GGUF's numbers for kinds of tokens.
const ORDINARY: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The file, as far as it decides tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    model: Model,
}

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file's")]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Debug, Deserialize)]
struct Model {
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    fuse_unk: Option<bool>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    vocab: BTreeMap<String, u32>,
    merges: Vec<Merge>,
}

/// A pair to merge, in the older form or the newer.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Merge {
    Text(String),
    Pair(String, String),
}

/// Read first: other kinds of models have other shapes.
#[derive(Deserialize)]
struct Kinded {
    model: Kind,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    name: Option<String>,
}

impl TokenizerJson {
    /// Parses the file.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, SourceError> {
        let malformed = |error: serde_json::Error| SourceError::Malformed {
            what: "tokenizer.json",
            reason: error.to_string(),
        };
        let Kinded { model } = serde_json::from_slice(json).map_err(malformed)?;
        match model.name.as_deref() {
            Some("BPE") | None => serde_json::from_slice(json).map_err(malformed),
            Some(other) => Err(unsupported("model.type", other, "`BPE`")),
        }
    }

    /// The description, but for the tokens around a prompt.
    pub(crate) fn source(&self) -> Result<TokenizerSource, SourceError> {
        self.check_model()?;
        let (tokens, token_types) = self.tokens()?;
        let base = TokenizerSource {
            tokens,
            token_types: Some(token_types),
            merges: Some(self.model.merges.iter().map(Merge::listed).collect::<Result<_, _>>()?),
            ..TokenizerSource::default()
        };
        let steps = flattened(&self.pre_tokenizer, "pretokenizers");
        if steps.last().is_some_and(|step| step["type"] == "ByteLevel") {
            self.pairs(base, &steps)
        } else {
            self.pieces(base, &steps)
        }
    }

    /// The tokens that the file's template puts before and behind a prompt.
    pub(crate) fn frame(
        &self,
        source: &TokenizerSource,
    ) -> Result<(Option<u32>, Option<u32>), SourceError> {
        let mut frame = (None, None);
        for step in flattened(&self.post_processor, "processors") {
            match step["type"].as_str() {
                Some("ByteLevel") => {}
                Some("TemplateProcessing") => frame = template_frame(step, source)?,
                _ => return Err(refused("post_processor", step, "`TemplateProcessing`")),
            }
        }
        Ok(frame)
    }

    fn check_model(&self) -> Result<(), SourceError> {
        let model = &self.model;
        let affix = |text: &Option<String>| text.clone().unwrap_or_default();
        let (prefix, suffix) =
            (affix(&model.continuing_subword_prefix), affix(&model.end_of_word_suffix));
        if !prefix.is_empty() {
            return Err(unsupported("model.continuing_subword_prefix", &prefix, "none"));
        }
        if !suffix.is_empty() {
            return Err(unsupported("model.end_of_word_suffix", &suffix, "none"));
        }
        match model.dropout {
            Some(rate) if rate > 0.0 => {
                Err(unsupported("model.dropout", &rate.to_string(), "none"))
            }
            _ => Ok(()),
        }
    }

    /// Texts and kinds by id. Ids that nothing has are tokens without text.
    fn tokens(&self) -> Result<(Vec<String>, Vec<i32>), SourceError> {
        let added = self.added_tokens.iter().map(|token| token.id);
        let highest = self.model.vocab.values().copied().chain(added).max().unwrap_or(0);
        if highest >= IDS_MAX {
            let expected = "an id below 4,194,304";
            return Err(unsupported("model.vocab", &format!("token {highest}"), expected));
        }
        let count = usize::try_from(highest).map_or(0, |highest| highest + 1);
        let (mut texts, mut kinds) = (vec![String::new(); count], vec![UNUSED; count]);
        for (text, &id) in &self.model.vocab {
            let place = usize::try_from(id).expect("less than the count");
            texts[place].clone_from(text);
            kinds[place] = ORDINARY;
        }
        for token in &self.added_tokens {
            if token.single_word || token.lstrip || token.rstrip {
                let expected = "one without `single_word`, `lstrip` and `rstrip`";
                return Err(unsupported("added_tokens", &token.content, expected));
            }
            // The library would take the vocabulary's.
            if self.model.vocab.get(&token.content).is_some_and(|&id| id != token.id) {
                let expected = "the id that `model.vocab` gives it";
                return Err(unsupported("added_tokens", &token.content, expected));
            }
            let place = usize::try_from(token.id).expect("less than the count");
            texts[place].clone_from(&token.content);
            kinds[place] = if token.special { CONTROL } else { USER_DEFINED };
        }
        Ok((texts, kinds))
    }

    /// Words of bytes.
    fn pairs(
        &self,
        base: TokenizerSource,
        steps: &[&Value],
    ) -> Result<TokenizerSource, SourceError> {
        let mut patterns = Vec::new();
        for step in steps {
            patterns.extend(pattern(step)?);
        }
        let whole_words_first = self.model.ignore_merges.unwrap_or(false);
        let Some(family) = family_of(&patterns, whole_words_first) else {
            let expected = "patterns of a model that is known here";
            return Err(unsupported("pre_tokenizer", &patterns.join(" then "), expected));
        };
        let mut compose = None;
        for step in flattened(&self.normalizer, "normalizers") {
            if step["type"] != "NFC" {
                return Err(refused("normalizer", step, "`NFC` or none"));
            }
            compose = Some(true);
        }
        let (model, pre) = ("gpt2".to_owned(), Some(family.to_owned()));
        Ok(TokenizerSource { model, pre, compose, ..base })
    }

    /// Pieces.
    fn pieces(
        &self,
        base: TokenizerSource,
        steps: &[&Value],
    ) -> Result<TokenizerSource, SourceError> {
        let model = &self.model;
        let (bytes, fused) =
            (model.byte_fallback.unwrap_or(false), model.fuse_unk.unwrap_or(false));
        if !bytes {
            return Err(unsupported("model.byte_fallback", "false", "true, or words of bytes"));
        }
        if model.ignore_merges.unwrap_or(false) {
            return Err(unsupported("model.ignore_merges", "true", "false for pieces"));
        }
        if !fused && base.id("<0x00>").is_none() {
            return Err(unsupported("model.fuse_unk", "false", "true"));
        }
        let (add_space_prefix, metaspace) = self.spaces(steps)?;
        let unk = model.unk_token.as_deref().and_then(|text| base.id(text));
        let model = "llama".to_owned();
        Ok(TokenizerSource { model, unk, add_space_prefix, metaspace, ..base })
    }

    /// Whether a space is put before text, and where.
    fn spaces(&self, steps: &[&Value]) -> Result<(Option<bool>, Option<Metaspace>), SourceError> {
        let normalizers = flattened(&self.normalizer, "normalizers");
        let mut kinds = Vec::new();
        for step in &normalizers {
            kinds.push(match step["type"].as_str() {
                Some("Prepend") if step["prepend"] == "▁" => "prepend",
                Some("Replace") if step["pattern"]["String"] == " " && step["content"] == "▁" => {
                    "replace"
                }
                _ => return Err(refused("normalizer", step, "`Prepend` and `Replace` of `▁`")),
            });
        }
        let normalized = self.added_tokens.iter().find(|token| token.normalized);
        if let (Some(token), false) = (normalized, kinds.is_empty()) {
            return Err(unsupported("added_tokens", &token.content, "`normalized` to be false"));
        }
        let words: Vec<&&Value> = steps.iter().filter(|step| !splits_nothing(step)).collect();
        match (kinds.as_slice(), words.as_slice()) {
            (["prepend", "replace"], []) => Ok((Some(true), None)),
            (["replace"], []) => Ok((Some(false), None)),
            ([], [step]) if step["type"] == "Metaspace" => metaspace(step),
            (_, [step, ..]) => Err(refused("pre_tokenizer", step, "`ByteLevel` or `Metaspace`")),
            (found, []) => {
                let expected = "`Replace` of spaces, perhaps after `Prepend`";
                Err(unsupported("normalizer", &found.join(" then "), expected))
            }
        }
    }
}

/// Spaces are gone by then, so cutting at them does nothing.
fn splits_nothing(step: &Value) -> bool {
    step["type"] == "Split" && step["pattern"]["String"] == " "
}

fn metaspace(step: &Value) -> Result<(Option<bool>, Option<Metaspace>), SourceError> {
    let scheme = match (step["prepend_scheme"].as_str(), step["add_prefix_space"].as_bool()) {
        (Some(scheme), _) => scheme,
        (None, Some(false)) => "never",
        (None, _) => "always",
    };
    // Absent means true.
    if step["replacement"] != "▁" || step["split"] != false {
        return Err(refused("pre_tokenizer", step, "`replacement` `▁` and `split` false"));
    }
    match scheme {
        "never" => Ok((Some(false), None)),
        "first" => Ok((Some(true), Some(Metaspace::First))),
        "always" => Ok((Some(true), Some(Metaspace::Always))),
        _ => Err(refused("pre_tokenizer", step, "`first`, `always` or `never`")),
    }
}

/// The pattern that a step cuts by, if it cuts.
fn pattern(step: &Value) -> Result<Option<String>, SourceError> {
    let isolated = step["behavior"] == "Isolated" && step["invert"] != true;
    // What lies between matches would be lost, but the known patterns leave nothing between.
    let removed = step["behavior"] == "Removed" && step["invert"] == true;
    match step["type"].as_str() {
        Some("Split") if isolated || removed => match step["pattern"]["Regex"].as_str() {
            Some(pattern) => Ok(Some(pattern.to_owned())),
            None => Err(refused("pre_tokenizer", step, "a `Regex`")),
        },
        Some("Digits") if step["individual_digits"] == true => Ok(Some(r"\p{N}".to_owned())),
        Some("ByteLevel") if step["add_prefix_space"] == true => {
            Err(refused("pre_tokenizer", step, "`add_prefix_space` false"))
        }
        Some("ByteLevel") if step["use_regex"] == false => Ok(None),
        Some("ByteLevel") => Ok(Some(crate::tokenizer::BYTE_LEVEL_PATTERN.to_owned())),
        _ => Err(refused("pre_tokenizer", step, "`Split`, `Digits` and `ByteLevel`")),
    }
}

fn template_frame(
    step: &Value,
    source: &TokenizerSource,
) -> Result<(Option<u32>, Option<u32>), SourceError> {
    let expected = "at most one token on either side";
    let parts = step["single"].as_array().map(Vec::as_slice).unwrap_or_default();
    let token = |part: &Value| part["SpecialToken"]["id"].as_str().and_then(|id| source.id(id));
    let is_text = |part: &Value| part.get("Sequence").is_some();
    match parts {
        [text] if is_text(text) => Ok((None, None)),
        [first, text] if is_text(text) && token(first).is_some() => Ok((token(first), None)),
        [text, last] if is_text(text) && token(last).is_some() => Ok((None, token(last))),
        [first, text, last] if is_text(text) && token(first).is_some() && token(last).is_some() => {
            Ok((token(first), token(last)))
        }
        _ => Err(refused("post_processor", step, expected)),
    }
}

/// A step, or the steps of a sequence of them, whose list goes by `list`.
fn flattened<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match value {
        Value::Null => Vec::new(),
        sequence if sequence["type"] == "Sequence" => {
            let steps = sequence[list].as_array().map(Vec::as_slice).unwrap_or_default();
            steps.iter().collect()
        }
        step => vec![step],
    }
}

impl Merge {
    /// The pair as GGUF lists it: the first space behind the first character parts the halves.
    fn listed(&self) -> Result<String, SourceError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Pair(left, _) if left.chars().skip(1).any(|character| character == ' ') => {
                Err(unsupported("model.merges", left, "halves without spaces inside"))
            }
            Self::Pair(left, right) => Ok(format!("{left} {right}")),
        }
    }
}

fn refused(entry: &str, step: &Value, expected: &'static str) -> SourceError {
    unsupported(entry, &step.to_string(), expected)
}

fn unsupported(entry: &str, found: &str, expected: &'static str) -> SourceError {
    let found = found.chars().take(QUOTED_CHARS_MAX).collect();
    SourceError::Unsupported { entry: entry.to_owned(), found, expected }
}

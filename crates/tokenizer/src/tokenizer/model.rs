//! Pair merging (BPE): turns a word into tokens, by merge ranks or by scores.
//!
//! `gpt2` cuts text into words, spells them in bytes and merges by a list of pairs; `llama`
//! (`SentencePiece`) merges characters of the whole text by the scores of the pieces they make, and
//! spells what has no piece in bytes. Both run on the `tokenizers` crate, set up as Hugging Face sets
//! it up for the same models. **Invariant:** encoding cannot fail: what could is checked here.

use std::fmt;

use overdraft_units::TokenId;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use super::cut::Cuts;
use super::error::TokenizerError;
use super::piece_spelling::{PIECES, SPACE};
use super::source::{Metaspace, TokenKind, TokenizerSource};
use super::{Place, Segment, pre};

/// GGUF's name for vocabularies of pairs of bytes.
const PAIRS: &str = "gpt2";

/// Merges pairs.
pub(super) struct PairModel {
    inner: tokenizers::Tokenizer,
    spelling: Spelling,
    cuts: Cuts,
}

/// What is done to text before it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// The words are spelled in bytes.
    Bytes,
    /// Spaces are spelled as [`SPACE`].
    Pieces,
    /// The same, and one is put before the text.
    PiecesAfterSpace,
    /// The same, unless the text begins with a space.
    PiecesAfterOneSpace(Metaspace),
}

impl fmt::Debug for PairModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairModel").field("spelling", &self.spelling).finish_non_exhaustive()
    }
}

impl PairModel {
    pub(super) fn new(source: &TokenizerSource) -> Result<Self, TokenizerError> {
        let count = source.tokens.len();
        if count == 0 || u32::try_from(count).is_err() {
            return Err(TokenizerError::damaged(format!("the vocabulary has {count} tokens")));
        }
        match source.model.as_str() {
            PAIRS => Self::pairs(source),
            PIECES => Self::pieces(source),
            model => Err(TokenizerError::UnknownModel { model: model.to_owned() }),
        }
    }

    /// Whether a space is put before text.
    pub(super) fn adds_space(&self) -> bool {
        matches!(self.spelling, Spelling::PiecesAfterSpace | Spelling::PiecesAfterOneSpace(_))
    }

    /// Where text may be cut without changing its tokens.
    pub(super) const fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// Appends the tokens of plain text.
    pub(super) fn encode(&self, segment: Segment<'_>, tokens: &mut Vec<TokenId>) {
        if segment.text.is_empty() {
            return;
        }
        let spelled = self.spelling.spell(segment);
        let encoding =
            self.inner.encode_fast(spelled, false).expect("the model can spell every byte");
        tokens.extend(encoding.get_ids().iter().copied().map(TokenId));
    }

    /// The words that `text` is cut into, in characters.
    #[cfg(test)]
    pub(super) fn words(&self, text: &str) -> Vec<String> {
        use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
        let mut cut = PreTokenizedString::from(text);
        let cutter = self.inner.get_pre_tokenizer().expect("set by `pairs`");
        cutter.pre_tokenize(&mut cut).expect("cutting does not fail");
        let splits = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.iter().map(|(_, (start, end), _)| text[*start..*end].to_owned()).collect()
    }

    fn pairs(source: &TokenizerSource) -> Result<Self, TokenizerError> {
        let words = pre::find(source.pre.as_deref())?;
        let vocabulary = vocabulary(source);
        let merges = listed_merges(source, &vocabulary)?;
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .ignore_merges(words.whole_words_first)
            .build()
            .map_err(|error| TokenizerError::damaged(error.to_string()))?;
        let mut steps = Vec::with_capacity(words.patterns.len() + 1);
        for pattern in words.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .expect("the patterns are tested");
            steps.push(PreTokenizerWrapper::from(split));
        }
        steps.push(ByteLevel::new(false, false, false).into());
        let mut inner = tokenizers::Tokenizer::new(model);
        inner.with_pre_tokenizer(Some(Sequence::new(steps)));
        if source.compose == Some(true) {
            inner.with_normalizer(Some(NFC)).expect("no token was added that it could change");
        }
        Ok(Self { inner, spelling: Spelling::Bytes, cuts: Cuts::BehindWords })
    }

    fn pieces(source: &TokenizerSource) -> Result<Self, TokenizerError> {
        let vocabulary = vocabulary(source);
        // Hugging Face's files list the pairs, GGUF's rate the pieces.
        let merges = match (&source.scores, &source.merges) {
            (None, Some(_)) => listed_merges(source, &vocabulary)?,
            _ => scored_merges(source, &vocabulary)?,
        };
        let spans_cut = merges.iter().any(|(left, right)| has_inner_space(left, right));
        let cuts = if !spans_cut && vocabulary.contains_key("▁") {
            Cuts::BeforeSpaces
        } else {
            Cuts::Nowhere
        };
        let has_bytes = (0..=u8::MAX).all(|byte| vocabulary.contains_key(&byte_piece(byte)));
        let mut builder = BPE::builder().byte_fallback(has_bytes).fuse_unk(true);
        if let Some(unknown) = source.unk.and_then(|id| source.tokens.get(id as usize)) {
            builder = builder.unk_token(unknown.clone());
        } else if !has_bytes {
            let reason = "it has neither a token for every byte nor one for unknown text";
            return Err(TokenizerError::damaged(reason));
        }
        let model = builder
            .vocab_and_merges(vocabulary, merges)
            .build()
            .map_err(|error| TokenizerError::damaged(error.to_string()))?;
        let spelling = match (source.add_space_prefix, source.metaspace) {
            (Some(false), _) => Spelling::Pieces,
            (Some(true) | None, None) => Spelling::PiecesAfterSpace,
            (Some(true) | None, Some(places)) => Spelling::PiecesAfterOneSpace(places),
        };
        Ok(Self { inner: tokenizers::Tokenizer::new(model), spelling, cuts })
    }
}

impl Spelling {
    /// The text as the model reads it.
    fn spell(self, segment: Segment<'_>) -> String {
        let Segment { text, place } = segment;
        if self == Self::Bytes {
            return text.to_owned();
        }
        let spaced = text.replace(' ', "▁");
        let prefixed = match self {
            Self::PiecesAfterSpace => place != Place::Within,
            Self::PiecesAfterOneSpace(_) if spaced.starts_with(SPACE) => false,
            Self::PiecesAfterOneSpace(Metaspace::Always) => place != Place::Within,
            Self::PiecesAfterOneSpace(Metaspace::First) => place == Place::Start,
            Self::Bytes | Self::Pieces => false,
        };
        if prefixed { format!("▁{spaced}") } else { spaced }
    }
}

/// Whether a pair makes a piece in which a space follows something else.
fn has_inner_space(left: &str, right: &str) -> bool {
    let joined = format!("{left}{right}");
    let behind = joined.trim_start_matches(SPACE);
    behind.contains(SPACE)
}

fn vocabulary(source: &TokenizerSource) -> Vocab {
    (0..).zip(&source.tokens).map(|(id, text)| (text.clone(), id)).collect()
}

/// The list of pairs to merge. A pair that names no tokens would make the model's own checks panic.
fn listed_merges(source: &TokenizerSource, vocabulary: &Vocab) -> Result<Merges, TokenizerError> {
    let Some(listed) = &source.merges else {
        return Err(TokenizerError::damaged("`tokenizer.ggml.merges` is missing"));
    };
    let mut merges = Vec::with_capacity(listed.len());
    for pair in listed {
        // The first half is not empty, and may be a space itself.
        let split = pair.char_indices().skip(1).find(|&(_, character)| character == ' ');
        let halves = split.map(|(place, _)| (&pair[..place], &pair[place + 1..]));
        let known = halves.filter(|&(left, right)| {
            let joined = format!("{left}{right}");
            [left, right, &joined].iter().all(|&text| vocabulary.contains_key(text))
        });
        let Some((left, right)) = known else {
            let reason = format!("the merge `{pair}` names tokens that are not in the vocabulary");
            return Err(TokenizerError::damaged(reason));
        };
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// The pairs whose union is a piece, the highest scores first. Of equal scores the longer left half
/// comes first, then the longer right one, then the earlier piece: Hugging Face's order.
fn scored_merges(source: &TokenizerSource, vocabulary: &Vocab) -> Result<Merges, TokenizerError> {
    let scores = source.scores.as_ref().filter(|scores| scores.len() == source.tokens.len());
    let Some(scores) = scores else {
        let reason = "`tokenizer.ggml.scores` does not have one score per token";
        return Err(TokenizerError::damaged(reason));
    };
    let mut pairs = Vec::new();
    for (id, text) in source.tokens.iter().enumerate() {
        if source.kind(id) != TokenKind::Ordinary {
            continue;
        }
        let mut splits: Vec<(u32, u32, &str, &str)> = text
            .char_indices()
            .skip(1)
            .map(|(place, _)| text.split_at(place))
            .filter_map(|(left, right)| {
                Some((*vocabulary.get(left)?, *vocabulary.get(right)?, left, right))
            })
            .collect();
        splits.sort_unstable_by_key(|&(left, right, ..)| (left, right));
        pairs.extend(splits.into_iter().map(|(_, _, left, right)| (scores[id], left, right)));
    }
    // Lengths are counted in characters. The sort is stable: the earlier piece stays first.
    pairs.sort_by(|a, b| {
        let lengths = |left: &str, right: &str| (left.chars().count(), right.chars().count());
        b.0.total_cmp(&a.0).then_with(|| lengths(b.1, b.2).cmp(&lengths(a.1, a.2)))
    });
    Ok(pairs.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect())
}

/// The name of the piece that spells a byte.
pub(super) fn byte_piece(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

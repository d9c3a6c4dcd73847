//! Pre-tokenizer: splits text into words by the model's pattern.
//!
//! GGUF names them in `tokenizer.ggml.pre`; llama.cpp's names are used because its converter writes
//! them. The patterns are those of the models' own `tokenizer.json` files; characters are not composed
//! first, even where those files ask for it: llama.cpp does not, and text must survive encoding. **Invariant:** an unknown
//! name is an error: guessing would give tokens that the model was not trained on. Every way lets text
//! be cut as [`super::cut`] does it; a new one must too (docs/design/tokenizing.md#r2).

use super::error::TokenizerError;

/// A way to cut text into words.
#[derive(Debug)]
pub(super) struct Words {
    /// The names it goes by.
    names: &'static [&'static str],
    /// Applied one after the other: what a pattern matches becomes a word, and what lies between.
    pub(super) patterns: &'static [&'static str],
    /// Whether a word that is in the vocabulary is taken as it is, whatever the merges say.
    pub(super) whole_words_first: bool,
    /// Whether prompts begin with the model's `bos` unless its file says otherwise.
    adds_bos: bool,
}

pub(crate) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// Letters of scripts with upper and lower case, mathematical alphabets excepted.
const CASED_LETTERS: &str = r"\s?[[\p{Lu}\p{Ll}\p{Lt}]&&[^\x{1D400}-\x{1D7FF}]]+";

const PLAIN: Words = Words { names: &[], patterns: &[], whole_words_first: false, adds_bos: false };

const KNOWN: [Words; 12] = [
    Words {
        names: &[
            "gpt-2",
            "phi-2",
            "olmo",
            "mpt",
            "jais",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "trillion",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
        ],
        patterns: &[GPT2],
        ..PLAIN
    },
    Words {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"],
        patterns: &[LLAMA3],
        whole_words_first: true,
        adds_bos: true,
    },
    Words { names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], patterns: &[LLAMA3], ..PLAIN },
    Words {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "kormo"],
        patterns: &[QWEN2],
        ..PLAIN
    },
    Words {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        patterns: &[r"\p{N}", GPT2],
        ..PLAIN
    },
    Words { names: &["tekken"], patterns: &[TEKKEN], whole_words_first: true, adds_bos: true },
    Words { names: &["gpt-4o", "llama4"], patterns: &[GPT4O], ..PLAIN },
    Words {
        names: &["deepseek-llm"],
        patterns: &[
            r"[\r\n]",
            CASED_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
            r"\s+$",
            r"[一-龥\x{0800}-一가-\x{D7FF}]+",
            r"\p{N}+",
        ],
        ..PLAIN
    },
    Words {
        names: &["deepseek-coder"],
        patterns: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            r"[一-龥\x{0800}-一가-\x{D7FF}]+",
            r"\p{N}",
        ],
        ..PLAIN
    },
    Words {
        names: &["deepseek-v3", "hunyuan-dense"],
        patterns: &[r"\p{N}{1,3}", r"[一-龥\x{3040}-ゟ゠-ヿ]+", DEEPSEEK3],
        ..PLAIN
    },
    Words {
        names: &["falcon"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
        ..PLAIN
    },
    Words {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
        ..PLAIN
    },
];

/// The way that goes by `name`. A file without a name is older than the names; then llama.cpp takes
/// its default, and so do we.
pub(super) fn find(name: Option<&str>) -> Result<&'static Words, TokenizerError> {
    let name = name.unwrap_or("default");
    KNOWN.iter().find(|words| words.names.contains(&name)).ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        TokenizerError::UnknownPreTokenizer { pre: name.to_owned(), known }
    })
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|words| words.names).copied()
}

/// A name of the way that cuts by these patterns, written as in a `tokenizer.json`.
pub(crate) fn family_of(patterns: &[String], whole_words_first: bool) -> Option<&'static str> {
    let same = |words: &&Words| {
        words.whole_words_first == whole_words_first
            && words
                .patterns
                .iter()
                .map(|pattern| spelled_out(pattern))
                .eq(patterns.iter().cloned())
    };
    KNOWN.iter().find(same).and_then(|words| words.names.first().copied())
}

/// A pattern with its characters in place of their codes, `\x{3040}`.
fn spelled_out(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, code)) = rest.split_once(r"\x{") {
        let (digits, after) = code.split_once('}').expect("the patterns are tested");
        let number = u32::from_str_radix(digits, 16).expect("the patterns are tested");
        out.push_str(before);
        out.push(char::from_u32(number).expect("the patterns are tested"));
        rest = after;
    }
    out + rest
}

/// One name of each way.
#[cfg(test)]
pub(super) fn families() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|words| words.names[0])
}

/// Whether prompts begin with the model's `bos` unless its file says otherwise.
pub(super) fn adds_bos(name: Option<&str>) -> bool {
    find(name).is_ok_and(|words| words.adds_bos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_its_patterns() {
        for words in &KNOWN {
            let patterns: Vec<String> =
                words.patterns.iter().map(|pattern| spelled_out(pattern)).collect();
            assert!(patterns.iter().all(|pattern| !pattern.contains(r"\x")));
            let found = family_of(&patterns, words.whole_words_first).unwrap();
            // The first of those that cut alike.
            let found = find(Some(found)).unwrap();
            assert_eq!(found.patterns, words.patterns);
            assert_eq!(found.whole_words_first, words.whole_words_first);
        }
        assert_eq!(family_of(&[GPT2.to_owned()], true), None);
        assert_eq!(family_of(&[], false), None);
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names: Vec<&str> = names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

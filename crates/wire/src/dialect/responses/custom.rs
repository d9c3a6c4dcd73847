//! Freeform tool input: the raw text within the arguments of the function that stands for a custom tool.
//!
//! A chat worker knows functions only, so a custom tool becomes one with a single string. The client wants
//! that string bare, and as it grows: a patch may take minutes to write.

/// The name of the single parameter.
pub(super) const PARAMETER: &str = "input";

/// What stands before the string, spaces apart.
const OPENING: [&str; 4] = ["{", "\"input\"", ":", "\""];

/// Decodes the string of `{"input": "…"}` as it comes.
#[derive(Debug, Default)]
pub(super) struct InputDecoder {
    state: State,
    /// All that came, for arguments of another form.
    raw: String,
    /// What has been decoded.
    decoded: String,
    /// The first half of a pair of escapes.
    high: Option<u32>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the string.
    #[default]
    Before,
    /// Within it; the escape that is not whole yet.
    Within(String),
    /// Behind it.
    After,
}

impl InputDecoder {
    /// Takes in more of the arguments; what that adds to the text.
    pub(super) fn push(&mut self, more: &str) -> String {
        let before = self.decoded.len();
        for letter in more.chars() {
            self.raw.push(letter);
            match &mut self.state {
                State::Before if is_opened(&self.raw) => self.state = State::Within(String::new()),
                State::Before | State::After => {}
                State::Within(_) => self.step(letter),
            }
        }
        self.decoded[before..].to_owned()
    }

    /// All arguments have come; what that adds to the text: arguments of another form go as they are.
    pub(super) fn finish(&mut self) -> String {
        if self.state == State::Before {
            self.decoded.push_str(&self.raw);
            return self.decoded.clone();
        }
        String::new()
    }

    fn step(&mut self, letter: char) {
        let State::Within(escape) = &mut self.state else { return };
        match letter {
            '"' if escape.is_empty() => self.state = State::After,
            '\\' if escape.is_empty() => escape.push(letter),
            _ if escape.is_empty() => self.decoded.push(letter),
            _ => {
                escape.push(letter);
                if escape.len() < if escape.starts_with("\\u") { 6 } else { 2 } {
                    return;
                }
                let escape = std::mem::take(escape);
                self.unescape(&escape);
            }
        }
    }

    fn unescape(&mut self, escape: &str) {
        let letter = match &escape[1..] {
            "n" => '\n',
            "t" => '\t',
            "r" => '\r',
            "b" => '\u{8}',
            "f" => '\u{c}',
            other if other.starts_with('u') => {
                let digits = Some(&other[1..]).filter(|digits| !digits.starts_with('+'));
                let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let unit = unit.unwrap_or(0xFFFD);
                match (self.high.take(), unit) {
                    (None, 0xD800..=0xDBFF) => {
                        self.high = Some(unit);
                        return;
                    }
                    (Some(high), 0xDC00..=0xDFFF) => {
                        let code = 0x1_0000 + ((high - 0xD800) << 10) + (unit - 0xDC00);
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    (_, unit) => char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
                }
            }
            other => other.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER),
        };
        self.decoded.push(letter);
    }
}

/// Whether a text is what stands before the string, and all of it.
fn is_opened(text: &str) -> bool {
    let mut rest = text;
    for token in OPENING {
        let Some(after) = rest.trim_start().strip_prefix(token) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// The arguments that a text of a custom tool becomes.
pub(super) fn arguments_of(input: &str) -> String {
    serde_json::json!({ PARAMETER: input }).to_string()
}

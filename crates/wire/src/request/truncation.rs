//! Prompt truncation: `truncate_prompt_tokens`, which engines such as vLLM apply to a prompt's tokens.

use overdraft_units::TokenId;

use crate::json::Object;

/// What an engine leaves of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// All of it.
    Nothing,
    /// So many tokens at its end.
    Last(usize),
    /// So many at its front.
    First(usize),
    /// As many as fit the model, which only the engine knows.
    ToFit,
}

impl Truncation {
    /// What a request asks for; `None` where it is no request that an engine takes.
    pub fn of(object: &Object<'_>) -> Option<Self> {
        let Some(raw) = object.raw("truncate_prompt_tokens") else { return Some(Self::Nothing) };
        let count: Option<i64> = serde_json::from_str(raw).ok()?;
        Some(match count {
            None => Self::Nothing,
            Some(-1) => Self::ToFit,
            Some(count) => {
                let count = usize::try_from(count).ok()?;
                match object.raw("truncation_side") {
                    Some(r#""right""#) => Self::First(count),
                    _ => Self::Last(count),
                }
            }
        })
    }

    /// What is left of a prompt; `None` where that cannot be told here.
    pub fn apply(self, mut tokens: Vec<TokenId>) -> Option<Vec<TokenId>> {
        match self {
            Self::Nothing => {}
            Self::Last(count) => drop(tokens.drain(..tokens.len().saturating_sub(count))),
            Self::First(count) => tokens.truncate(count),
            Self::ToFit => return None,
        }
        Some(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_unless_the_front_is_asked_for() {
        let check = |members: &str, expected: Option<&[u32]>| {
            let body = format!("{{{members}}}");
            let object = Object::parse(body.as_bytes()).unwrap();
            let tokens = (1..=4).map(TokenId).collect();
            let left = Truncation::of(&object).and_then(|truncation| truncation.apply(tokens));
            let left = left.map(|left| left.into_iter().map(|token| token.0).collect::<Vec<_>>());
            assert_eq!(left.as_deref(), expected, "{members}");
        };
        check("", Some(&[1, 2, 3, 4]));
        check(r#""truncate_prompt_tokens":null"#, Some(&[1, 2, 3, 4]));
        check(r#""truncate_prompt_tokens":2"#, Some(&[3, 4]));
        check(r#""truncate_prompt_tokens":9"#, Some(&[1, 2, 3, 4]));
        check(r#""truncate_prompt_tokens":2,"truncation_side":"right""#, Some(&[1, 2]));
        check(r#""truncate_prompt_tokens":-1"#, None);
        check(r#""truncate_prompt_tokens":"2""#, None);
    }
}

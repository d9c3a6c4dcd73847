//! Draft transcript: the text, token ids and log probabilities that a model has streamed so far.
//!
//! It parses the events of a streamed answer into text, token ids and the features that the gate
//! weighs. It also marks the places where a token and a character end together: another model can
//! continue only there.
//!
//! Invariant: the text up to a mark is exactly the text of the tokens up to it.

use overdraft_core::cascade::{Finish, LogProb, Nats, Observation};
use overdraft_units::Tokens;
use overdraft_wire::answer::{TokenChoice, TokenChunk, TokenTold};
use overdraft_wire::response::FinishReason;

/// What of an answer cannot be judged or continued as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It calls tools.
    Tools,
    /// It has reasoning content in a field of its own.
    Reasoning,
    /// It is none that is known.
    Unknown,
}

impl Unfit {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Reasoning => "reasoning",
            Self::Unknown => "unknown",
        }
    }
}

/// Where tokens and text end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Tokens before it.
    pub(super) tokens: usize,
    /// Bytes of text before it.
    pub(super) bytes: usize,
}

/// An answer so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DraftTranscript {
    text: String,
    ids: Vec<u32>,
    /// The alternatives to each token (top log probabilities), where the engine gives their ids.
    rivals: Vec<Vec<u32>>,
    marks: Vec<Mark>,
    /// Whether some token came without its id.
    untold: bool,
    prompt: Option<Vec<u32>>,
    reason: Option<FinishReason>,
}

impl DraftTranscript {
    /// Parses the data of an event; returns the log probabilities of its tokens.
    pub(super) fn hear(&mut self, data: &[u8]) -> Result<Vec<Observation>, Unfit> {
        let chunk = TokenChunk::parse(data).map_err(|_| Unfit::Unknown)?;
        if self.prompt.is_none() {
            self.prompt = chunk.prompt;
        }
        let mut seen = Vec::new();
        for choice in chunk.choices {
            self.take(choice, &mut seen)?;
        }
        Ok(seen)
    }

    fn take(&mut self, choice: TokenChoice<'_>, seen: &mut Vec<Observation>) -> Result<(), Unfit> {
        if choice.has_calls {
            return Err(Unfit::Tools);
        }
        if choice.has_reasoning {
            return Err(Unfit::Reasoning);
        }
        let text = choice.text.unwrap_or_default();
        let rivals: Vec<Vec<u32>> = choice.tokens.iter().map(rivals).collect();
        seen.extend(choice.tokens.iter().filter_map(observation));
        match choice.ids {
            Some(ids) => {
                self.ids.extend_from_slice(&ids);
                if rivals.len() == ids.len() {
                    self.rivals.extend(rivals);
                }
                // Whose they are must be beyond doubt.
                self.rivals.resize_with(self.ids.len(), Vec::new);
            }
            None if !text.is_empty() || !seen.is_empty() => self.untold = true,
            None => {}
        }
        if !text.is_empty() {
            self.text.push_str(&text);
            self.marks.push(Mark { tokens: self.ids.len(), bytes: self.text.len() });
        }
        match choice.finish.as_deref() {
            None => {}
            Some("stop") => self.reason = Some(FinishReason::Stop),
            Some("length") => self.reason = Some(FinishReason::Length),
            Some("tool_calls" | "function_call") => return Err(Unfit::Tools),
            Some("content_filter") => self.reason = Some(FinishReason::ContentFilter),
            Some(_) => return Err(Unfit::Unknown),
        }
        Ok(())
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The ids of all tokens, if they came.
    pub(super) fn ids(&self) -> Option<&[u32]> {
        (!self.untold).then_some(&self.ids)
    }

    /// What else was likely in the place of each of [`Self::ids`], likeliest first or not; nothing where it is not known.
    pub(super) fn rivals(&self) -> &[Vec<u32>] {
        &self.rivals
    }

    /// The prompt's ids, as the worker made them.
    pub(super) fn prompt(&self) -> Option<&[u32]> {
        self.prompt.as_deref()
    }

    pub(super) const fn reason(&self) -> Option<FinishReason> {
        self.reason
    }

    /// How it ended, as the gate has it.
    pub(super) const fn finish(&self) -> Finish {
        match self.reason {
            None => Finish::Running,
            Some(FinishReason::Length) => Finish::Length,
            Some(FinishReason::ToolCalls) => Finish::Tools,
            Some(_) => Finish::Stop,
        }
    }

    /// The last mark at which so many tokens, or fewer, end.
    pub(super) fn mark(&self, tokens: usize) -> Mark {
        let after = self.marks.partition_point(|mark| mark.tokens <= tokens);
        after.checked_sub(1).map(|at| self.marks[at]).unwrap_or_default()
    }

    /// Whether the last token ended the answer and said nothing.
    pub(super) fn ends_with_its_end_token(&self) -> bool {
        let last = self.marks.last().copied().unwrap_or_default();
        self.reason == Some(FinishReason::Stop) && last.tokens < self.ids.len()
    }

    /// Tokens told by id.
    pub(super) fn count(&self) -> Tokens {
        Tokens::new(u32::try_from(self.ids.len()).unwrap_or(u32::MAX))
    }
}

/// What stands before a token's id where it is named by it, as vLLM does when it is told to.
const BY_ID: &str = "token_id:";

fn id(token: &str) -> Option<u32> {
    token.strip_prefix(BY_ID)?.parse().ok()
}

/// The ids of what else was likely, where it is named by them.
fn rivals(told: &TokenTold<'_>) -> Vec<u32> {
    told.alternatives.iter().filter_map(|(token, _)| id(token)).collect()
}

/// What is told of a token; nothing where its log probability is not.
fn observation(told: &TokenTold<'_>) -> Option<Observation> {
    let logprob = told.logprob?;
    let mut rivals: Vec<f64> = told.alternatives.iter().map(|(_, logprob)| *logprob).collect();
    rivals.sort_unstable_by(|one, other| other.total_cmp(one));
    let margin = match rivals.as_slice() {
        [first, second, ..] => {
            Some(Nats::margin(LogProb::from_nats(*first), LogProb::from_nats(*second)))
        }
        _ => None,
    };
    let entropy = (1 < rivals.len()).then(|| {
        let of = |logprob: &f64| if logprob.is_finite() { -logprob * logprob.exp() } else { 0.0 };
        Nats::from_nats(rivals.iter().map(of).sum())
    });
    // An id says nothing of the text.
    let is_named = told.token.starts_with(BY_ID);
    let digit = !is_named && told.token.bytes().any(|byte| byte.is_ascii_digit());
    Some(Observation { logprob: LogProb::from_nats(logprob), margin, entropy, digit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listened(events: &[&str]) -> (DraftTranscript, Vec<Observation>) {
        let mut transcript = DraftTranscript::default();
        let seen = events.iter().flat_map(|event| transcript.hear(event.as_bytes()).unwrap());
        let seen = seen.collect();
        (transcript, seen)
    }

    #[test]
    fn a_mark_stands_only_where_tokens_and_text_end_together() {
        let (transcript, _) = listened(&[
            r#"{"prompt_token_ids":[7,8],"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"token_ids":[1]}]}"#,
            r#"{"choices":[{"delta":{"content":""},"token_ids":[2]}]}"#,
            r#"{"choices":[{"delta":{"content":"ä"},"token_ids":[3]}]}"#,
            r#"{"choices":[{"delta":{"content":""},"finish_reason":"stop","token_ids":[9]}]}"#,
        ]);
        assert_eq!(transcript.text(), "aä");
        assert_eq!(transcript.ids(), Some(&[1, 2, 3, 9][..]));
        assert_eq!(transcript.prompt(), Some(&[7, 8][..]));
        let marks =
            [0, 1, 2, 3, 4].map(|tokens| transcript.mark(tokens)).map(|at| (at.tokens, at.bytes));
        assert_eq!(marks, [(0, 0), (1, 1), (1, 1), (3, 3), (3, 3)]);
        assert!(transcript.ends_with_its_end_token());
        assert_eq!(transcript.finish(), Finish::Stop);
    }

    #[test]
    fn tokens_without_ids_cannot_be_continued() {
        let (transcript, seen) = listened(&[
            r#"{"choices":[{"text":"a","logprobs":{"token_logprobs":[-0.5],"top_logprobs":[{"a":-0.5,"b":-1.5}]}}]}"#,
        ]);
        assert_eq!(transcript.ids(), None);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].logprob, LogProb::micronats(-500_000));
        assert_eq!(seen[0].margin, Some(Nats::micronats(1_000_000)));
    }

    #[test]
    fn a_token_with_a_digit_is_told_in_both_forms() {
        let (_, chat) = listened(&[
            r#"{"choices":[{"delta":{"content":"is 4"},"logprobs":{"content":[{"token":"is","logprob":-0.1},{"token":" 4","logprob":-0.2},{"token":"token_id:4","logprob":-0.2}]}}]}"#,
        ]);
        let (_, completion) = listened(&[
            r#"{"choices":[{"text":"is 4","logprobs":{"tokens":["is"," 4"],"token_logprobs":[-0.1,-0.2]}}]}"#,
        ]);
        let digits = |seen: &[Observation]| seen.iter().map(|one| one.digit).collect::<Vec<_>>();
        assert_eq!(digits(&chat), [false, true, false]);
        assert_eq!(digits(&completion), [false, true]);
    }

    #[test]
    fn rivals_are_known_where_they_are_told_by_ids_one_list_to_a_token() {
        let (chat, _) = listened(&[
            r#"{"choices":[{"delta":{"content":"a"},"token_ids":[1],"logprobs":{"content":[{"token":"token_id:1","logprob":-0.1,"top_logprobs":[{"token":"token_id:1","logprob":-0.1},{"token":"token_id:5","logprob":-3}]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"},"token_ids":[2],"logprobs":{"content":[{"token":"b","logprob":-0.1,"top_logprobs":[{"token":"c","logprob":-3}]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"cd"},"token_ids":[3,4],"logprobs":{"content":[{"token":"token_id:3","logprob":-0.1,"top_logprobs":[{"token":"token_id:6","logprob":-3}]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"e"},"token_ids":[9]}]}"#,
        ]);
        assert_eq!(chat.ids(), Some(&[1, 2, 3, 4, 9][..]));
        let none = Vec::new;
        assert_eq!(chat.rivals(), [vec![1, 5], none(), none(), none(), none()]);
        let (completion, _) = listened(&[
            r#"{"choices":[{"text":"ab","token_ids":[1,2],"logprobs":{"tokens":["token_id:1","token_id:2"],"token_logprobs":[-0.1,-0.2],"top_logprobs":[{"token_id:1":-0.1},{"token_id:7":-0.1,"x":-1}]}}]}"#,
        ]);
        assert_eq!(completion.rivals(), [vec![1], vec![7]]);
    }

    #[test]
    fn what_is_no_plain_text_is_unfit() {
        let unfit = |event: &str| DraftTranscript::default().hear(event.as_bytes()).unwrap_err();
        let tools = r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#;
        assert_eq!(unfit(tools), Unfit::Tools);
        let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#;
        assert_eq!(unfit(thought), Unfit::Reasoning);
        assert_eq!(unfit("{"), Unfit::Unknown);
    }
}

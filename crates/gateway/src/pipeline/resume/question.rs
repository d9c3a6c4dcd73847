//! Resume question: what another worker is asked, for each way.

use bytes::Bytes;
use http::Uri;
use overdraft_core::resume::{Draws, Engine, Part, Profile, PromptForm, Way, Withheld, withheld};
use overdraft_wire::json::Object;
use overdraft_wire::resume::{Left, by_ids, by_text};
use overdraft_wire::{Endpoint, Generation};

use super::journal::Journal;
use super::lookups::{self, Unanswered};
use crate::dispatch::Member;
use crate::pipeline::extras::IDS;
use crate::pipeline::upstream_body::{Content, Front};
use crate::upstream::headers;

/// The most tokens of a completion that says nothing, as vLLM and `SGLang` have it.
const COMPLETION_TOKENS_UNSAID: u32 = 16;

/// What stands for a character that is not whole.
const REPLACEMENT: char = '\u{fffd}';

/// What a worker is asked.
pub(super) struct Prepared {
    pub(super) content: Content,
    pub(super) path: Uri,
    pub(super) endpoint: Endpoint,
    pub(super) seam: Seam,
}

/// The end of what is known by ids but was not told.
#[derive(Debug, Default)]
pub(super) struct Seam {
    /// Whole characters.
    pub(super) withheld: String,
    /// Whether a character is open behind them.
    pub(super) is_open: bool,
}

/// What a worker says the ids come to.
pub(super) enum Decoded {
    /// All that was told, and this behind it.
    Seam(Seam),
    /// The worker does not say.
    Unsaid,
    /// All that was told, and what may be text or special tokens.
    Unsure,
    /// Another text: something in the answer is hidden, and its text alone does not say how it goes on.
    Differs,
}

/// What there is to ask.
pub(super) enum Asking {
    Question(Box<Prepared>),
    /// Nothing: the answer is as long as it may be.
    Full(Seam),
    /// The way turned out not to be open.
    Closed,
    /// Neither by ids nor by text: the answer has more in it than its text.
    Hidden,
    /// The worker did not answer what had to be known first.
    Unanswered,
}

impl Journal {
    /// The request's profile as a worker of this engine reads it; nothing where its answer's length cannot be told.
    pub(super) fn profile_at(&self, member: &Member) -> Profile {
        let profile = self.request.profile;
        let engine = member.resume_ability().engine();
        let is_unsaid = !self.request.says_limit && profile.prompt != PromptForm::Messages;
        match engine {
            Some(Engine::Vllm | Engine::Sglang) if is_unsaid => {
                Profile { limit: Some(COMPLETION_TOKENS_UNSAID), ..profile }
            }
            _ => profile,
        }
    }

    /// What `member` is asked on this way.
    pub(super) async fn question(&self, way: Way, member: &Member) -> Asking {
        match way {
            Way::Anew | Way::Replay => self.again(self.request.content.clone()),
            Way::Text => self.by_text(member),
            Way::Ids => Box::pin(self.by_ids(member)).await,
        }
    }

    fn again(&self, content: Content) -> Asking {
        let endpoint = self.request.generation.endpoint();
        let path = Uri::from_static(endpoint.path());
        Asking::Question(Box::new(Prepared { content, path, endpoint, seam: Seam::default() }))
    }

    fn by_text(&self, member: &Member) -> Asking {
        let profile = self.profile_at(member);
        let (told, kept) = (self.ledger.tokens(), self.ledger.solid_tokens());
        let is_full = profile.limit.is_some_and(|limit| limit <= told);
        if is_full && self.request.stops.strings.is_empty() {
            return Asking::Full(Seam::default());
        }
        let most = profile.limit.map(|limit| limit.saturating_sub(kept).max(1));
        let least = profile.least.saturating_sub(kept).min(most.unwrap_or(u32::MAX));
        let Content { body, front, tracked } = &self.request.content;
        let Ok(object) = Object::parse(body) else { return Asking::Closed };
        let generation = self.request.generation;
        let left = Left { most, least };
        match by_text(&object, generation, self.ledger.solid_text(), left) {
            Some(body) => {
                self.again(Content { body: body.into(), front: *front, tracked: *tracked })
            }
            None => Asking::Closed,
        }
    }

    async fn by_ids(&self, member: &Member) -> Asking {
        let Some((prompt, answer)) = self.ledger.ids() else { return Asking::Closed };
        let model = &self.request.info.model;
        let seam = match self.seam(member, &[]).await {
            Ok(Decoded::Seam(seam)) => seam,
            Ok(Decoded::Unsaid | Decoded::Unsure) => return Asking::Closed,
            Ok(Decoded::Differs) => return Asking::Hidden,
            Err(Unanswered) => return Asking::Unanswered,
        };
        let profile = self.profile_at(member);
        let kept = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        let most = match profile.limit {
            Some(limit) if limit <= kept => return Asking::Full(seam),
            Some(limit) => Some(limit - kept),
            None if member.resume_ability().engine() == Some(Engine::LlamaServer) => None,
            None => {
                let context = match lookups::context(&member.upstream, model).await {
                    Ok(Some(context)) => context,
                    Ok(None) => return Asking::Closed,
                    Err(Unanswered) => return Asking::Unanswered,
                };
                let used = u32::try_from(prompt.len()).unwrap_or(u32::MAX).saturating_add(kept);
                match context.saturating_sub(used) {
                    0 => return Asking::Full(seam),
                    left => Some(left),
                }
            }
        };
        let least = profile.least.saturating_sub(kept).min(most.unwrap_or(u32::MAX));
        // Drawn on with the same seed, what follows would repeat the draws of the beginning.
        let seed = match profile.draws {
            Draws::Seeded(seed) => Some(seed.wrapping_add(i64::from(kept))),
            Draws::Greedy | Draws::Free => None,
        };
        let Ok(object) = Object::parse(&self.request.content.body) else { return Asking::Closed };
        let ids = [prompt, answer].concat();
        let said = self.ledger.frequencies();
        let mut body = by_ids(&object, &ids, Left { most, least }, seed, &said);
        body.entry("model").or_insert_with(|| model.as_str().into());
        if member.resume_ability().is_asked_for_ids(PromptForm::Ids) {
            body.insert(IDS.into(), true.into());
        }
        let body = Bytes::from(serde_json::Value::Object(body).to_string());
        let content = Content { body, front: Front::Unknown { counts: false }, tracked: None };
        let endpoint = Generation::Completion.endpoint();
        let path = Uri::from_static(endpoint.path());
        Asking::Question(Box::new(Prepared { content, path, endpoint, seam }))
    }

    /// What the answer's ids and `more` come to behind what was told.
    ///
    /// # Errors
    /// [`Unanswered`] where the worker does not answer.
    pub(super) async fn seam(&self, member: &Member, more: &[u32]) -> Result<Decoded, Unanswered> {
        let ids = [self.ledger.ids_of_text(), more].concat();
        let request = &self.request;
        let credentials = request.pipeline.settings().credentials;
        let (from, upstream) = (&request.head.headers, &member.upstream);
        let head = headers::outgoing(from, upstream, &request.request_id, credentials);
        let text = lookups::text(upstream, &head, &request.info.model, &ids).await?;
        let Some(text) = text else { return Ok(Decoded::Unsaid) };
        let (told, holds_back) = (self.ledger.text(), !request.stops.strings.is_empty());
        Ok(match withheld(told, &text, holds_back) {
            Withheld::Text(rest) => {
                // One that was told stands for bytes that are no character, and is over.
                let withheld = rest.trim_end_matches(REPLACEMENT).to_owned();
                Decoded::Seam(Seam { is_open: withheld.len() < rest.len(), withheld })
            }
            Withheld::Unsure if text.starts_with(told) => Decoded::Unsure,
            Withheld::Unsure | Withheld::Differs => Decoded::Differs,
        })
    }
}

/// The part that a seam's text is.
pub(super) fn part(withheld: String) -> Part {
    Part { text: withheld, ids: Some(Vec::new()), ..Part::default() }
}

//! Request info: what routing and admission know of a request.
//!
//! This is its model, its session, its maximum answer length, and its prompt: by tokens where they
//! are known, else by text in chunks. The hash chain is computed outside of every lock. Hashing
//! text runs at memory speed; the costly part, tokenizing, is done for the new part only.

use std::num::NonZeroU32;

use bytes::Bytes;
use http::HeaderValue;
use overdraft_core::admit::Priority;
use overdraft_core::estimate::{Kind, Media};
use overdraft_core::fleet::{FirstToken, Turn};
use overdraft_core::prefix::{Chunking, PrefixChain, PrefixKey};
use overdraft_core::route::{Prompt, Request, Strictness, Tried};
use overdraft_telemetry::Delivery;
use overdraft_units::{BlockSize, CacheSalt, Tokens};
use overdraft_wire::json::Member;
use overdraft_wire::request::{self as wire, media};
use overdraft_wire::{Endpoint, RequestPeek};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::prefix_digest;
use crate::dispatch::Placing;
use crate::pipeline::canary::Side;
use crate::pipeline::keys::Caller;
use crate::pipeline::usage::Counts;
use crate::settings::{Routes, TEXT_CHUNK};
use crate::upstream::Pieces;

/// Chunks of one prompt that are looked up at most; what is beyond them is not told apart.
pub(crate) const CHUNKS_MAX: usize = 16_384;

/// A request, as far as routing is concerned.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) model: String,
    /// The name that its client gave, where that is an alias, a cascade or a canary.
    pub(crate) named: Option<String>,
    pub(crate) delivery: Delivery,
    /// For whom the token counts of a stream are.
    pub(crate) counts: Counts,
    pub(crate) choices: u32,
    /// Tokens that each answer may have.
    pub(crate) limit: Option<u32>,
    pub(crate) session: Option<u64>,
    pub(crate) dice: u64,
    /// Who asks.
    pub(crate) caller: Caller,
    /// How urgently.
    pub(crate) priority: Priority,
    /// What sort of answer it wants: chats and completions differ in length.
    pub(crate) kind: Kind,
    /// What a worker has to do for it.
    pub(crate) work: Work,
    /// The salt that workers are told; none where they are told what the client sent.
    pub(crate) salt: Option<String>,
    /// The side of a comparison that it is on, where it is part of one.
    pub(crate) side: Option<Side>,
    /// Whether its client wrote it in another dialect than its worker reads.
    pub(crate) is_translated: bool,
    /// How its body goes on, where that is a form and no JSON.
    pub(crate) form: Option<Box<FormContent>>,
    prompt: Known,
}

/// A form on its way to a worker.
#[derive(Clone, Debug)]
pub(crate) struct FormContent {
    /// As the client wrote it, with the boundary.
    pub(crate) content_type: HeaderValue,
    /// The body with parts changed, where any is; else nothing.
    pub(crate) edited: Vec<Bytes>,
}

impl FormContent {
    /// The form as its worker gets it, where the client sent `body`.
    pub(crate) fn pieces(&self, body: &Bytes) -> Pieces {
        if self.edited.is_empty() { body.clone().into() } else { self.edited.as_slice().into() }
    }
}

/// What a worker has to do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It reads a prompt and generates tokens.
    Generation,
    /// It reads texts.
    Reading,
    /// Nothing that takes its engine: such a request never waits for room.
    Chore,
}

/// What a request asks for, by whose word the core draws and sticks.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    /// The model, no alias.
    pub(crate) model: String,
    /// Its session as a number, where sessions stick.
    pub(crate) session: Option<u64>,
    /// A number of its own, for draws.
    pub(crate) dice: u64,
}

/// What is known of a prompt.
#[derive(Clone, Debug)]
enum Known {
    Text { bytes: u64, media: Media, chain: PrefixChain, chunk: NonZeroU32 },
    Counted { tokens: Tokens, chain: PrefixChain, block: BlockSize },
}

/// Keeps the salts of text apart from those of tokens.
const TEXT: u64 = 0x7465_7874;

impl RequestInfo {
    /// Looks at a request for `model` with the session and the dice it was given.
    pub(crate) fn of_text(
        routes: &Routes,
        asking: Asking,
        peek: &RequestPeek<'_>,
        tenant_salt: Option<String>,
    ) -> Self {
        let Asking { model, session, dice } = asking;
        let chunk = routes.settings.text_chunk;
        let prompt = peek.messages.or(peek.prompt).unwrap_or_default();
        let parts = media(prompt);
        // Templates put the tools before the conversation.
        let tools = peek.object.raw("tools").unwrap_or_default();
        let sent = peek.cache_salt.as_deref();
        let salt = tenant_salt.as_deref().or(sent).unwrap_or_default();
        let salt = xxh3_64_with_seed(salt.as_bytes(), xxh3_64_with_seed(model.as_bytes(), TEXT));
        let mut chain = PrefixChain::new(CacheSalt(salt), Chunking::Text(chunk));
        if routes.asks_for_prefixes(&model) || routes.settings.names_prefixes {
            let most = CHUNKS_MAX.saturating_mul(usize::try_from(chunk.get()).unwrap_or(1));
            chain.push_bytes(tools.as_bytes().get(..most).unwrap_or(tools.as_bytes()));
            push(&mut chain, prompt, &parts, most);
        }
        let payloads: usize = parts.iter().map(|part| part.payload.len()).sum();
        let bytes = u64::try_from(tools.len() + prompt.len() - payloads).unwrap_or(u64::MAX);
        Self {
            model,
            named: None,
            delivery: if peek.stream { Delivery::Streamed } else { Delivery::Whole },
            counts: Counts::of(peek),
            choices: peek.choices(),
            limit: peek.max_tokens,
            session,
            dice,
            caller: Caller::operator(),
            priority: Priority::default(),
            kind: Kind::default(),
            work: Work::Generation,
            salt: tenant_salt,
            side: None,
            is_translated: false,
            form: None,
            prompt: Known::Text { bytes, media: counted(&parts), chain, chunk },
        }
    }

    /// A request that generates nothing and leaves nothing in a cache, such as `/tokenize`.
    pub(crate) fn of_chore(asking: Asking, peek: &RequestPeek<'_>) -> Self {
        let Asking { model, session, dice } = asking;
        let chunk = TEXT_CHUNK;
        let chain = PrefixChain::new(CacheSalt::default(), Chunking::Text(chunk));
        Self {
            model,
            named: None,
            delivery: if peek.stream { Delivery::Streamed } else { Delivery::Whole },
            counts: Counts::Relayed,
            choices: 1,
            limit: Some(0),
            session,
            dice,
            caller: Caller::operator(),
            priority: Priority::default(),
            kind: Kind::default(),
            work: Work::Chore,
            salt: None,
            side: None,
            is_translated: false,
            form: None,
            prompt: Known::Text { bytes: 0, media: Media::default(), chain, chunk },
        }
    }

    /// A request whose texts the model reads without generating anything, such as `/v1/embeddings`: it needs a worker's
    /// time and room as a prompt does, and leaves nothing that is sure to be found again.
    pub(crate) fn of_reading(
        asking: Asking,
        peek: &RequestPeek<'_>,
        members: &[&str],
        salt: Option<String>,
    ) -> Self {
        let texts = members.iter().filter_map(|name| peek.object.raw(name));
        Self { salt, ..Self::of_texts(asking, peek, texts) }
    }

    /// A request that generates, of whose prompt nothing is known but its size: whatever it says may be read by the model.
    pub(crate) fn of_size(asking: Asking, peek: &RequestPeek<'_>, limit: Option<u32>) -> Self {
        let texts = peek.object.members().iter().map(Member::value);
        Self { work: Work::Generation, limit, ..Self::of_texts(asking, peek, texts) }
    }

    fn of_texts<'a>(
        asking: Asking,
        peek: &RequestPeek<'_>,
        texts: impl Iterator<Item = &'a str>,
    ) -> Self {
        let (mut bytes, mut all) = (0_u64, Media::default());
        for text in texts {
            let found = media(text);
            let payloads: usize = found.iter().map(|part| part.payload.len()).sum();
            let Media { parts, guessed } = counted(&found);
            let read = u64::try_from(text.len() - payloads).unwrap_or(u64::MAX);
            bytes = bytes.saturating_add(read);
            all.parts = all.parts.saturating_add(parts);
            all.guessed = all.guessed.saturating_add(guessed);
        }
        Self::of_form(asking, peek, bytes, all)
    }

    /// The same of a form with so many bytes of text and these files.
    pub(crate) fn of_form(
        asking: Asking,
        peek: &RequestPeek<'_>,
        bytes: u64,
        media: Media,
    ) -> Self {
        let chain = PrefixChain::new(CacheSalt::default(), Chunking::Text(TEXT_CHUNK));
        let prompt = Known::Text { bytes, media, chain, chunk: TEXT_CHUNK };
        Self { work: Work::Reading, prompt, ..Self::of_chore(asking, peek) }
    }

    /// The same request as it is put to another model in `body`.
    pub(crate) fn of_draft(
        &self,
        routes: &Routes,
        model: &str,
        body: &[u8],
        endpoint: Endpoint,
    ) -> Self {
        let Ok(peek) = RequestPeek::parse(body) else { return self.clone() };
        let asking = Asking { model: model.to_owned(), session: self.session, dice: self.dice };
        let info = Self::of_text(routes, asking, &peek, self.salt.clone());
        let info = Self { is_translated: self.is_translated, ..info };
        info.of(self.caller.clone(), self.priority, endpoint)
    }

    /// Says who asks with which priority, at which endpoint.
    #[must_use]
    pub(crate) fn of(self, caller: Caller, priority: Priority, endpoint: Endpoint) -> Self {
        Self { caller, priority, kind: Kind(xxh3_64(endpoint.path().as_bytes())), ..self }
    }

    /// The request for a worker after the attempts in `tried`. What generates nothing is bounded by no admission.
    pub(crate) fn placing<'a>(
        &'a self,
        tried: &'a Tried,
        turn: Turn,
        strictness: Strictness,
    ) -> Placing<'a> {
        let strictness = if self.work == Work::Chore { Strictness::Waived } else { strictness };
        Placing { request: self.request(), tried, turn, strictness }
    }

    /// Replaces the text by the tokens it comes to.
    pub(crate) fn counted(&mut self, tokens: Tokens, chain: PrefixChain, block: BlockSize) {
        self.prompt = Known::Counted { tokens, chain, block };
    }

    /// Whether the prompt's tokens are known.
    pub(crate) const fn is_counted(&self) -> bool {
        matches!(self.prompt, Known::Counted { .. })
    }

    /// Whether they are, or can be told from its words.
    pub(crate) const fn is_measured(&self) -> bool {
        match self.prompt {
            Known::Counted { .. } => true,
            Known::Text { media, .. } => media.parts == 0,
        }
    }

    /// Bytes of the prompt and names of its beginnings, for the access line; none once it was counted.
    pub(crate) fn beginnings(&self) -> Option<(u64, String)> {
        let Known::Text { bytes, chain, chunk, .. } = &self.prompt else { return None };
        Some((*bytes, prefix_digest::told(bounded(chain), *chunk)))
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let prompt = match &self.prompt {
            Known::Text { bytes, media, chain, chunk } => Prompt::Text {
                bytes: *bytes,
                words: *bytes,
                media: *media,
                chain: bounded(chain),
                chunk: *chunk,
            },
            Known::Counted { tokens, chain, block } => {
                Prompt::Counted { tokens: *tokens, chain: bounded(chain), block: *block }
            }
        };
        Request {
            model: &self.model,
            prompt,
            limit: self.limit,
            choices: self.choices,
            first_token: match self.delivery {
                Delivery::Streamed => FirstToken::Seen,
                Delivery::Whole => FirstToken::Unseen,
            },
            session: self.session,
            dice: self.dice,
            priority: self.priority,
            tenant: self.caller.tenant,
            kind: self.kind,
        }
    }
}

/// Bytes of text that stand for a token of a picture where chunks are named.
const BYTES_PER_MEDIA_TOKEN: usize = 4;

/// Pushes a prompt of which at most `most` bytes count. In the place of a picture stands as much as its tokens come
/// to, made of its digest: a chunk is then as many tokens in a picture as in a text.
fn push(chain: &mut PrefixChain, prompt: &str, parts: &[wire::Media], most: usize) {
    let bytes = prompt.as_bytes();
    let bytes = bytes.get(..most).unwrap_or(bytes);
    let mut at = 0;
    for part in parts.iter().take_while(|part| part.payload.end <= bytes.len()) {
        chain.push_bytes(&bytes[at..part.payload.start]);
        let digest = xxh3_64(&bytes[part.payload.clone()]).to_le_bytes();
        let tokens = usize::try_from(part.tokens).unwrap_or(usize::MAX);
        for _ in 0..tokens.saturating_mul(BYTES_PER_MEDIA_TOKEN) / digest.len() {
            chain.push_bytes(&digest);
        }
        at = part.payload.end;
    }
    chain.push_bytes(&bytes[at..]);
}

/// How many there are, and what they are likely to come to.
fn counted(parts: &[wire::Media]) -> Media {
    Media {
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        guessed: parts.iter().fold(0, |sum: u32, part| sum.saturating_add(part.tokens)),
    }
}

fn bounded(chain: &PrefixChain) -> &[PrefixKey] {
    let keys = chain.keys();
    &keys[..keys.len().min(CHUNKS_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RoutingSettings;

    #[test]
    fn a_prompt_is_looked_up_under_the_salt_that_its_worker_is_told() {
        let routes = Routes::new(RoutingSettings::default(), &std::collections::BTreeMap::new());
        let info = |member: &str, tenant: Option<&str>| {
            let text = "word ".repeat(400);
            let body = format!(r#"{{"messages":"{text}"{member}}}"#);
            let peek = RequestPeek::parse(body.as_bytes()).unwrap();
            let salt = tenant.map(str::to_owned);
            let asking = Asking { model: "m".into(), session: None, dice: 0 };
            let info = RequestInfo::of_text(&routes, asking, &peek, salt);
            match info.request().prompt {
                Prompt::Text { chain, .. } => chain.to_vec(),
                Prompt::Counted { .. } => panic!("nobody has counted"),
            }
        };
        let told = info(r#","cache_salt":"told""#, None);
        assert!(!told.is_empty());
        assert_eq!(info("", Some("told")), told);
        assert_eq!(info(r#","cache_salt":"sent""#, Some("told")), told);
        assert_ne!(info("", Some("another")), told);
        assert_ne!(info("", None), told);
    }

    #[test]
    fn whatever_an_unknown_request_says_counts_as_its_prompt() {
        let size = |body: &str| {
            let peek = RequestPeek::parse(body.as_bytes()).unwrap();
            let asking = Asking { model: "m".into(), session: None, dice: 0 };
            let info = RequestInfo::of_size(asking, &peek, Some(9));
            assert_eq!((info.limit, info.work), (Some(9), Work::Generation));
            let Known::Text { bytes, media, .. } = info.prompt else {
                panic!("nobody has counted")
            };
            (bytes, media.parts)
        };
        let words = "word ".repeat(400);
        let (plain, _) = size(r#"{"model":"m","input":"hi"}"#);
        let (more, parts) =
            size(&format!(r#"{{"model":"m","input":"hi","reminders":[{{"text":"{words}"}}]}}"#));
        assert!(plain + 2_000 <= more && more < plain + 2_100 && parts == 0, "{plain} {more}");
        let picture = "iVBORw0KGgo".repeat(1_000);
        let (with_picture, parts) = size(&format!(
            r#"{{"model":"m","input":"hi","album":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{picture}"}}}}]}}"#
        ));
        assert!(with_picture < plain + 200 && parts == 1, "{plain} {with_picture}");
    }
}

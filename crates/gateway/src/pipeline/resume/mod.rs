//! Stream resume: follows a stream, and has it go on at another worker when it breaks off.
//!
//! The core decides how ([`overdraft_core::resume`]), the bytes are `wire`'s. Here a stream's [`Journal`]
//! feeds the ledger with what goes out, and asks other workers when it must.
//!
//! | subject                                   | file         |
//! |-------------------------------------------|--------------|
//! | Which requests, and what they ask         | `mod.rs`     |
//! | The first answer, on its way              | `journal.rs` |
//! | An event that is no JSON                  | `doubt.rs`   |
//! | A second answer, on its way               | `second.rs`  |
//! | Asking another worker                     | `ask.rs`     |
//! | The question, for each way                | `question.rs` |
//! | Texts of ids, lengths of contexts         | `lookups.rs` |

mod ask;
mod doubt;
mod journal;
mod lookups;
mod question;
mod second;

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_core::resume::{Draws, Mode, Profile, PromptForm, StopRules, Trait, Traits};
use overdraft_telemetry::Delivery;
use overdraft_wire::json::RequestPeek;
use overdraft_wire::request::StreamUsage;
use overdraft_wire::resume::{Asked, Judged, judge};
use overdraft_wire::{ApiError, Endpoint, Generation};
use tokio::time::Instant;

use self::journal::Journal;
use super::Pipeline;
use super::context::RequestContext;
use super::extras::{IDS, IdsFor, Tracked};
use super::facts::SharedFacts;
use super::question::Question;
use super::request_info::{RequestInfo, Work};
use super::upstream_body::Content;
use super::usage::Counts;

const SWITCH: HeaderName = HeaderName::from_static("x-overdraft-resume");

/// What a stream needs of its request to go on elsewhere.
#[derive(Debug)]
struct Resumable {
    pipeline: Arc<Pipeline>,
    /// As routing knows it; its token counts are for the journal.
    info: RequestInfo,
    content: Content,
    tracked: Tracked,
    generation: Generation,
    profile: Profile,
    /// Whether the client says anything of its answer's length.
    says_limit: bool,
    stops: StopRules,
    head: Parts,
    request_id: HeaderValue,
    facts: SharedFacts,
    begun: Instant,
}

/// Whether a client lets its stream be resumed.
///
/// # Errors
/// 400 where it says something else than `on` or `off`.
pub(crate) fn is_wanted(head: &HeaderMap) -> Result<bool, ApiError> {
    match head.get(SWITCH).map(HeaderValue::as_bytes) {
        None | Some(b"on") => Ok(true),
        Some(b"off") => Ok(false),
        Some(other) => {
            let said = String::from_utf8_lossy(other);
            let message = format!("`{said}` is not a `{SWITCH}`; expected `on` or `off`");
            Err(ApiError::invalid(SWITCH.as_str(), message))
        }
    }
}

/// Has the answer to `question` resumed should it break off, where its request allows that.
pub(crate) fn prepare(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &mut Question<'_>,
) {
    let is_stream =
        info.delivery == Delivery::Streamed && info.choices == 1 && info.work == Work::Generation;
    if !is_stream || pipeline.settings().resume.mode == Mode::Off {
        return;
    }
    let Some(generation) = question.endpoint.and_then(Endpoint::generation) else {
        return;
    };
    let Ok(peek) = RequestPeek::parse(&question.content.body) else { return };
    let Some(judged) = judge(&peek.object, generation) else { return };
    let profile = profile(&judged, &peek, generation);
    let usage = match info.counts {
        Counts::KeptBack => StreamUsage::Never,
        Counts::Relayed => peek.usage,
    };
    let tracked = Tracked {
        prompt: profile.prompt,
        ids: ids_for(&judged, &peek, &profile),
        usage,
        counts: profile.uses_text(),
    };
    question.content.tracked = Some(tracked);
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.headers = kept(&question.head.headers);
    let is_kept = judged.asked.contains(&Asked::StopKept);
    let mut info = info.clone();
    info.counts = Counts::Relayed;
    let resumable = Resumable {
        pipeline: Arc::clone(pipeline),
        info,
        content: question.content.kept(),
        tracked,
        generation,
        profile,
        says_limit: judged.limit.is_some(),
        stops: StopRules { strings: judged.stops, is_included: is_kept },
        head,
        request_id: question.request_id.clone(),
        facts: context.facts.clone(),
        begun: question.begun,
    };
    context.continuation = Some(Box::new(Journal::new(resumable)));
}

/// The same lines in memory of their own: as they came they are slices of the buffer that their connection reads into.
fn kept(head: &HeaderMap) -> HeaderMap {
    let own = |value: &HeaderValue| {
        let mut own = HeaderValue::from_bytes(value.as_bytes()).expect("it is one");
        own.set_sensitive(value.is_sensitive());
        own
    };
    head.iter().map(|(name, value)| (name.clone(), own(value))).collect()
}

fn ids_for(judged: &Judged, peek: &RequestPeek<'_>, profile: &Profile) -> IdsFor {
    match () {
        () if judged.asked.contains(&Asked::Ids) => IdsFor::Client,
        () if profile.uses_ids() && peek.object.raw(IDS).is_none() => IdsFor::Gateway,
        () => IdsFor::Nobody,
    }
}

fn profile(judged: &Judged, peek: &RequestPeek<'_>, generation: Generation) -> Profile {
    let of = |asked: &Asked| match asked {
        Asked::Tools => Some(Trait::Tools),
        Asked::Grammar => Some(Trait::Grammar),
        Asked::Logprobs => Some(Trait::Logprobs),
        Asked::Presence => Some(Trait::Presence),
        Asked::Frequency => Some(Trait::Frequency),
        Asked::Media => Some(Trait::Media),
        Asked::Unknown => Some(Trait::Unknown),
        Asked::Continuation => Some(Trait::Prefilled),
        Asked::Greedy | Asked::Ids | Asked::StopKept => None,
    };
    let traits = judged.asked.iter().filter_map(of).fold(Traits::default(), Traits::with);
    let draws = match judged.seed {
        _ if judged.asked.contains(&Asked::Greedy) => Draws::Greedy,
        Some(seed) => Draws::Seeded(seed),
        None => Draws::Free,
    };
    let is_ids =
        |raw: &str| raw.trim_start_matches(['[', ' ']).starts_with(|c: char| c.is_ascii_digit());
    let prompt = match generation {
        Generation::Chat => PromptForm::Messages,
        Generation::Completion if peek.prompt.is_some_and(is_ids) => PromptForm::Ids,
        Generation::Completion => PromptForm::Text,
    };
    let limit = judged.limit.flatten();
    Profile { traits, draws, prompt, limit, least: judged.least }
}

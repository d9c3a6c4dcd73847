//! Journal: follows one stream, and keeps what its client was told.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use overdraft_core::resume::{CallPart, Closed, Engine, Ledger, Part, Spent, Splice, View};
use overdraft_core::route::Tried;
use overdraft_units::Tokens;
use overdraft_wire::Generation;
use overdraft_wire::answer::UsageTold;
use overdraft_wire::request::StreamUsage;
use overdraft_wire::resume::{Heading, NotJson, Piece, Role, Sums, Template, without};
use overdraft_wire::sse::{self, Ending, Event, Splitter};

use super::Resumable;
use super::doubt::{Doubt, Judgement};
use crate::dispatch::{Member, Used};
use crate::pipeline::extras::{IdsFor, Tracked};
use crate::pipeline::relay::{Continuation, Fault, Passed, Resuming, Verdict};

/// Members of chunks that only the gateway asks for.
const OURS: [&str; 2] = ["token_ids", "prompt_token_ids"];

/// Where a journal stands, for an attempt that may come to nothing.
#[derive(Debug)]
pub(super) struct State {
    ledger: Ledger,
    splice: Option<Splice>,
    usage: Option<UsageTold>,
}

/// What the client has been told of what its answer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Untold,
    /// With every chunk, what was used so far.
    SoFar,
    /// What the whole answer used.
    Told,
}

/// Chunks that looked like those before.
#[derive(Debug, Default)]
struct Alike {
    /// Their bytes.
    length: usize,
    /// Whether something is taken out of each, ...
    is_cut: bool,
    /// ... and then what is left of them.
    told: Vec<u8>,
}

/// Follows one stream.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) request: Arc<Resumable>,
    /// The request's, at hand: every chunk asks.
    tracked: Tracked,
    pub(super) ledger: Ledger,
    pub(super) heading: Heading,
    pub(super) splitter: Splitter,
    /// What the chunks of the first answer look like, once one was read.
    template: Option<Template>,
    /// Ids of the chunk that is read; memory that the next one uses again.
    chunk_ids: Vec<u32>,
    /// Who answers now.
    pub(super) member: Option<Arc<Member>>,
    /// The second answer, where there is one.
    pub(super) splice: Option<Splice>,
    pub(super) tried: Tried,
    pub(super) spent: Spent,
    pub(super) closed: Closed,
    /// How often it went on.
    pub(super) resumes: u8,
    /// What the worker that answers now says it used.
    pub(super) usage: Option<UsageTold>,
    counting: Counting,
    /// Whether it stays where it is though its worker leaves.
    pub(super) stays: bool,
    /// What is held back, since an event was no JSON.
    pub(super) doubt: Option<Doubt>,
}

impl Journal {
    pub(super) fn new(request: Resumable) -> Self {
        let view = if request.tracked.ids == IdsFor::Client { View::Ids } else { View::Text };
        let event_bytes = request.pipeline.settings().limits.event_bytes;
        Self {
            tracked: request.tracked,
            request: Arc::new(request),
            ledger: Ledger::of(view),
            heading: Heading::default(),
            splitter: Splitter::new(event_bytes),
            template: None,
            chunk_ids: Vec::new(),
            member: None,
            splice: None,
            tried: Tried::default(),
            spent: Spent::default(),
            closed: Closed::default(),
            resumes: 0,
            usage: None,
            counting: Counting::Untold,
            stays: false,
            doubt: None,
        }
    }

    /// Where it stands, for an attempt that may come to nothing.
    pub(super) fn state(&self) -> State {
        State { ledger: self.ledger.clone(), splice: self.splice.clone(), usage: self.usage }
    }

    /// Nothing came of it.
    pub(super) fn restore(&mut self, state: State) {
        let State { ledger, splice, usage } = state;
        (self.ledger, self.splice, self.usage) = (ledger, splice, usage);
    }

    /// Cuts whole events apart.
    pub(super) fn events(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.splitter.push(bytes);
        let mut events = Vec::new();
        while let Ok(Some(event)) = self.splitter.next_event() {
            events.push(event);
        }
        // What is whole waits for nothing.
        if let Ending::Event(event) = self.splitter.finish() {
            events.push(event);
        }
        events
    }

    /// Notes and tells chunks of the first answer as long as they look like those before.
    fn note_alike(&mut self, bytes: &[u8]) -> Alike {
        let mut alike = Alike::default();
        let is_plain = self.splice.is_none() && self.doubt.is_none();
        let Some(template) = self.template.as_ref().filter(|_| is_plain) else {
            return alike;
        };
        alike.is_cut = template.has_ids() && self.tracked.ids == IdsFor::Gateway;
        let is_every = self.tracked.usage == StreamUsage::Every;
        let mut rest = bytes;
        while let Some(matched) = template.read(rest, &mut self.chunk_ids) {
            self.ledger.tell_text(&matched.text, template.has_ids().then_some(&self.chunk_ids));
            if alike.is_cut && (!matched.text.is_empty() || is_every) {
                template.write(&matched, &mut alike.told);
            }
            rest = &rest[matched.length..];
            self.chunk_ids.clear();
        }
        alike.length = bytes.len() - rest.len();
        alike
    }

    /// Passes events that do not look like those before, and tells them behind `out`. It stands apart, for its variables
    /// would be room on the stack that each other chunk has to touch.
    #[inline(never)]
    fn pass_others(&mut self, events: &[u8], mut out: Vec<u8>) -> Passed {
        for event in self.events(events) {
            let noted = match &self.doubt {
                Some(_) => self.hold(event, &mut out),
                None if self.splice.is_some() => self.second(&event, &mut out),
                None => self.note(&event, &mut out).or_else(|error| self.doubts(error)),
            };
            let verdict =
                noted.unwrap_or_else(|error| Verdict::Failed(Fault::Broken(error.to_string())));
            if !matches!(verdict, Verdict::GoesOn) {
                return Passed { events: out.into(), verdict };
            }
        }
        Passed { events: out.into(), verdict: Verdict::GoesOn }
    }

    /// The chunk in an event. What holds none is told as it is, and the end as the gateway ends it.
    pub(super) fn chunk_of<'event>(
        &mut self,
        event: &'event Event,
        out: &mut Vec<u8>,
    ) -> Option<Cow<'event, [u8]>> {
        let Some(data) = event.data() else {
            out.extend_from_slice(event.raw());
            return None;
        };
        if event.is_done() {
            out.extend_from_slice(&self.ending());
            return None;
        }
        Some(data)
    }

    /// An event of the first answer: noted, and told without what only the gateway asked for.
    fn note(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<Verdict, NotJson> {
        let Some(data) = self.chunk_of(event, out) else { return Ok(Verdict::GoesOn) };
        let piece = Piece::parse(&data)?;
        self.heading.note(&piece, self.request.generation);
        self.usage = piece.usage.or(self.usage);
        if let Some(usage) = piece.usage {
            self.ledger.prompt_counted(usage.prompt);
        }
        if let (Some(member), IdsFor::Gateway, true) =
            (&self.member, self.tracked.ids, piece.is_token() && self.ledger.tokens() == 0)
        {
            member.resume_ability().told_ids(piece.ids.is_some());
        }
        self.ledger.tell(&part_of(&piece));
        if let Some(template) = Template::of(event.raw(), &piece) {
            self.template = Some(template);
        }
        if let Some(ids) = &piece.prompt_ids {
            self.ledger.prompt(ids.clone());
        }
        self.count(&piece);
        self.relay(event, &piece, out);
        Ok(Verdict::GoesOn)
    }

    /// An event was no JSON: what follows is held back, where a count will tell whether a token was lost with it.
    fn doubts(&mut self, error: NotJson) -> Result<Verdict, NotJson> {
        if self.tracked.usage == StreamUsage::Never {
            return Err(error);
        }
        self.doubt = Some(Doubt::default());
        Ok(Verdict::GoesOn)
    }

    /// An event that comes after one that was no JSON.
    fn hold(&mut self, event: Event, out: &mut Vec<u8>) -> Result<Verdict, NotJson> {
        let Some(doubt) = &mut self.doubt else { return Ok(Verdict::GoesOn) };
        let Judgement::Counted { tokens, all } = doubt.hold(event)? else {
            return Ok(Verdict::GoesOn);
        };
        if all != Some(self.ledger.tokens_least().saturating_add(tokens)) {
            return Err(NotJson);
        }
        let held = self.doubt.take().map(Doubt::into_held).unwrap_or_default();
        for event in held {
            self.note(&event, out)?;
        }
        self.request.pipeline.requests.resumed("malformed", "none", "left_out");
        Ok(Verdict::GoesOn)
    }

    /// Notes whether an event of the first answer tells what was used.
    fn count(&mut self, piece: &Piece<'_>) {
        if piece.usage.is_none() {
            return;
        }
        if !piece.has_choice || self.counts_at_end(piece) {
            self.counting = Counting::Told;
        } else if piece.finish.is_none() && self.counting == Counting::Untold {
            self.counting = Counting::SoFar;
        }
    }

    /// Whether the counts that the client asked for come with the finish reason, as llama-server tells them for
    /// completions.
    fn counts_at_end(&self, piece: &Piece<'_>) -> bool {
        let is_wanted = self.tracked.usage == StreamUsage::Last;
        is_wanted
            && piece.usage.is_some()
            && piece.finish.is_some()
            && self.counting != Counting::SoFar
    }

    /// Whether these counts would have come had nobody asked for any: llama-server ends all completions so.
    fn counts_unasked(&self, piece: &Piece<'_>) -> bool {
        let is_completion = self.request.generation == Generation::Completion;
        let engine = || self.member.as_ref().and_then(|member| member.resume_ability().engine());
        is_completion && piece.finish.is_some() && engine() == Some(Engine::LlamaServer)
    }

    /// Tells an event of the first answer as it is, but for what only the gateway asked for.
    fn relay(&self, event: &Event, piece: &Piece<'_>, out: &mut Vec<u8>) {
        let tracked = self.tracked;
        let is_ours = tracked.ids == IdsFor::Gateway && piece.ids.is_some();
        let is_bare = piece.text.is_empty() && piece.reasoning.is_empty() && piece.calls.is_empty();
        let is_idle = is_bare
            && piece.role == Role::Untold
            && piece.finish.is_none()
            && piece.logprobs.is_none();
        if is_ours && is_idle && !piece.is_strange && tracked.usage != StreamUsage::Every {
            // It came for its ids alone.
            return;
        }
        let mut names = Vec::new();
        if tracked.ids == IdsFor::Gateway && (piece.ids.is_some() || piece.prompt_ids.is_some()) {
            names.extend(OURS);
        }
        let keeps = tracked.usage == StreamUsage::Every
            || self.counts_at_end(piece)
            || self.counts_unasked(piece);
        if !keeps && piece.usage.is_some() && piece.has_choice {
            names.push("usage");
        }
        out.extend_from_slice(&without(event.raw(), &names));
    }

    /// What the whole answer used, as far as is known.
    pub(super) fn sums(&self) -> Option<Sums> {
        let prompt = self.ledger.prompt_tokens();
        let Some(splice) = &self.splice else {
            let completion = self.usage.map_or(self.ledger.tokens(), |usage| usage.completion);
            return prompt.map(|prompt| Sums { prompt, completion });
        };
        let completion = splice.tokens();
        let again = completion.saturating_sub(self.usage.map_or(0, |usage| usage.completion));
        let told = self.usage.map(|usage| usage.prompt.saturating_sub(again));
        prompt.or(told).map(|prompt| Sums { prompt, completion })
    }
}

impl Continuation for Journal {
    fn begins(&mut self, member: &Arc<Member>) {
        // Who was asked before has failed it.
        if let Some(before) = self.member.replace(Arc::clone(member)) {
            self.tried.add(before.id);
        }
    }

    fn pass(&mut self, events: &Bytes) -> Passed {
        let alike = self.note_alike(events);
        if alike.length == events.len() {
            // Most chunks go out as they came in.
            let events = if alike.is_cut { alike.told.into() } else { events.clone() };
            return Passed { events, verdict: Verdict::GoesOn };
        }
        let (same, rest) = events.split_at(alike.length);
        let out = if alike.is_cut { alike.told } else { same.to_vec() };
        self.pass_others(rest, out)
    }

    fn ending(&mut self) -> Bytes {
        let mut out = Vec::new();
        if self.tracked.usage != StreamUsage::Never
            && self.counting != Counting::Told
            && let Some(sums) = self.sums()
        {
            self.counting = Counting::Told;
            self.heading.counts(sums, &mut out);
        }
        out.extend_from_slice(sse::DONE);
        out.into()
    }

    fn is_doubtful(&self) -> bool {
        self.doubt.is_some()
    }

    fn is_leaving(&self) -> bool {
        let leaves = self.member.as_ref().and_then(|member| member.leaves_since());
        let Some(since) = leaves.filter(|_| !self.stays) else { return false };
        let drain_after = self.request.pipeline.settings().resume.drain_after;
        drain_after <= self.request.pipeline.dispatcher.clock.now().since(since)
    }

    fn used(&self, last: Option<Used>) -> Option<Used> {
        if self.splice.is_none() {
            return last;
        }
        let sums = self.sums()?;
        let cached = None;
        Some(Used {
            prompt: Tokens::new(sums.prompt),
            cached,
            completion: Tokens::new(sums.completion),
        })
    }

    fn resume(self: Box<Self>, fault: Option<Fault>) -> Resuming {
        Box::pin(self.go_on(fault))
    }
}

/// What a chunk adds to an answer.
pub(super) fn part_of(piece: &Piece<'_>) -> Part {
    let calls = piece.calls.iter().map(|call| CallPart {
        index: call.index,
        id: call.id.clone(),
        name: call.name().map(str::to_owned),
        arguments: call.arguments().to_owned(),
    });
    Part {
        text: piece.text.as_ref().to_owned(),
        reasoning: piece.reasoning.as_ref().to_owned(),
        calls: calls.collect(),
        ids: piece.ids.clone().filter(|_| piece.has_choice),
        tokens: piece.usage.filter(|_| piece.has_choice).map(|usage| usage.completion),
        is_token: piece.is_token(),
        is_strange: piece.is_strange,
    }
}

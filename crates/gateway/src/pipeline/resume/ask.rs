//! Resume loop: one worker after the other is asked to go on with a stream, as the core says.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::deadline::STALL_LEAST;
use overdraft_core::fleet::{Failure, Turn};
use overdraft_core::resume::{
    Cause, Draws, Part, Refusal, Splice, StopRules, Way, is_within, is_worth_waiting, way as way_on,
};
use overdraft_core::route::{Choice, Tried, Verdict as Retry};
use overdraft_otlp::Attribute;
use overdraft_wire::resume::{Piece, resumed};
use tokio::time::{Instant, sleep, timeout};

use super::Resumable;
use super::journal::Journal;
use super::question::{Asking, Decoded, Seam, part};
use super::second::Last;
use crate::dispatch::{Explanation, Lease, Member};
use crate::pipeline::attempt::{Answer, converse};
use crate::pipeline::question::Question;
use crate::pipeline::relay::{Continuation, Fault, Opened, Outcome, Resumed, Verdict};

/// Chunks of a second answer that are waited for to close an open character.
const OPEN_CHUNKS_MAX: usize = 8;

/// Pause between two looks for a worker, while none is up.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A worker that goes on, and how.
struct Found {
    way: Way,
    outcome: Outcome,
}

/// A resume that has come to no end yet. Dropped by then, since its time or its client is gone, it was given up.
struct UnderWay {
    request: Option<Arc<Resumable>>,
    cause: &'static str,
}

impl UnderWay {
    /// It has come to an end, which tells itself.
    fn end(mut self) {
        self.request = None;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            request.pipeline.requests.resumed(self.cause, "none", "given_up");
        }
    }
}

impl Journal {
    /// Has the stream go on elsewhere.
    pub(super) async fn go_on(mut self: Box<Self>, fault: Option<Fault>) -> Resumed {
        let name = fault.as_ref().map_or("drain", Fault::cause);
        let failure = fault.as_ref().and_then(Fault::failure);
        let cause = failure.map_or(Cause::Leaves, Cause::Broken);
        let under_way = UnderWay { request: Some(Arc::clone(&self.request)), cause: name };
        let found = self.seek(cause, name).await;
        under_way.end();
        let metrics = &self.request.pipeline.requests;
        let outcome = match found {
            Ok(Found { way, outcome }) => {
                metrics.resumed(name, way.name(), "resumed");
                self.note_resume(name, way.name());
                let resumes = self.resumes;
                self.request.facts.note(|record| {
                    record.resumed = Some(resumes);
                    record.resumed_by = Some(way.name());
                });
                outcome
            }
            Err(why) => {
                metrics.resumed(name, "none", why.name());
                self.note_resume(name, why.name());
                self.stays = cause == Cause::Leaves;
                if !self.stays {
                    self.request.facts.note(|record| record.resumed_by = Some(why.name()));
                }
                Outcome::Refused(why.name())
            }
        };
        Resumed { continuation: self, outcome }
    }

    /// Notes in the trace why the stream went on elsewhere, and by which way, or why it did not.
    fn note_resume(&self, cause: &'static str, way: &'static str) {
        self.request.facts.trace().event("overdraft.resume", || {
            vec![
                Attribute::new("overdraft.resume.cause", cause),
                Attribute::new("overdraft.resume.way", way),
            ]
        });
    }

    async fn seek(&mut self, cause: Cause, name: &'static str) -> Result<Found, Refusal> {
        if let Some(member) = self.member.clone() {
            match cause {
                Cause::Broken(failure) => self.failed(&member, failure)?,
                Cause::Leaves => self.tried.add(member.id),
            }
        }
        let patience = self.request.pipeline.settings().resume.patience;
        let until = Instant::now() + Duration::from(patience);
        loop {
            is_within(&self.request.pipeline.settings().resume, self.spent, &self.ledger)?;
            let lease = self.place_within(cause, until).await?;
            let kept = self.state();
            match self.ask(lease, cause, name).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => {
                    self.restore(kept);
                    return Err(why);
                }
            }
        }
    }

    /// A worker has failed it: whether it may be asked elsewhere, by the budget that it shares with retries.
    fn failed(&mut self, member: &Arc<Member>, failure: Failure) -> Result<(), Refusal> {
        let (request, dispatcher) = (&self.request, &self.request.pipeline.dispatcher);
        let verdict =
            dispatcher.resume_failed(&request.info.model, &mut self.tried, member.id, failure);
        match verdict {
            Retry::Elsewhere => Ok(()),
            Retry::GiveUp(_) => Err(Refusal::Budget),
        }
    }

    /// A worker for it. While none is up, it is waited for: one that was just restarted is not ready at once.
    async fn place_within(&mut self, cause: Cause, until: Instant) -> Result<Lease, Refusal> {
        if let Ok(lease) = self.place_at(cause, &self.tried) {
            return Ok(lease);
        }
        if cause == Cause::Leaves {
            return Err(Refusal::NoWorker);
        }
        is_worth_waiting(&self.request.profile, &self.ledger, self.closed)?;
        // One that has failed it is given longer each time: its death may not be known yet.
        let pause = LOOK_AGAIN * 4_u32.pow(u32::from(self.spent.attempts.min(3)));
        while Instant::now() < until {
            sleep(pause).await;
            if let Some(lease) = self.place(cause) {
                return Ok(lease);
            }
            // The last one too: its failures have been noticed by now, and if it is up it was restarted.
            self.member = None;
        }
        Err(Refusal::NoWorker)
    }

    /// A worker that has not failed it. Where all have, one that did so before the last: it may be another process
    /// by now.
    fn place(&mut self, cause: Cause) -> Option<Lease> {
        if let Ok(lease) = self.place_at(cause, &self.tried) {
            return Some(lease);
        }
        let mut last = Tried::default();
        if let Some(member) = &self.member {
            last.add(member.id);
        }
        let mut lease = self.place_at(cause, &last).ok()?;
        if !cause.allows_again(lease.member().is_paused()) {
            lease.decline();
            return None;
        }
        self.tried = last;
        Some(lease)
    }

    /// A worker that is none of these.
    fn place_at(&self, cause: Cause, tried: &Tried) -> Result<Lease, Choice> {
        let placing = self.request.info.placing(tried, Turn::Again, cause.strictness());
        self.request.pipeline.dispatcher.place(placing, &mut Explanation::default())
    }

    /// Asks one worker; nothing where the next is to be asked.
    async fn ask(
        &mut self,
        mut lease: Lease,
        cause: Cause,
        name: &'static str,
    ) -> Result<Option<Found>, Refusal> {
        let member = Arc::clone(lease.member());
        let ability = *member.resume_ability();
        let way = way_on(&self.profile_at(&member), &self.ledger, ability, self.closed)?;
        let is_safe = matches!(way, Way::Ids | Way::Text);
        if cause == Cause::Leaves && !is_safe {
            return Err(Refusal::Capability);
        }
        let prepared = match self.question(way, &member).await {
            Asking::Question(prepared) => prepared,
            Asking::Full(seam) => {
                lease.decline();
                return self.full(seam, way, name).map(Some);
            }
            Asking::Closed => return Ok(self.close(lease, &[way])),
            Asking::Hidden => return Ok(self.close(lease, &[Way::Ids, Way::Text])),
            // Another one may still say it.
            Asking::Unanswered => return self.unanswered(lease, &member).map(|()| None),
        };
        let request = Arc::clone(&self.request);
        self.spend(way);
        let question = Question {
            content: prepared.content,
            path: prepared.path,
            endpoint: Some(prepared.endpoint),
            request_id: request.request_id.clone(),
            head: &request.head,
            begun: request.begun,
            trace: request.facts.trace().clone(),
        };
        match converse(&request.pipeline, &request.info, &question, &mut lease).await {
            Ok(Answer::Stream { mut opened, .. }) if opened.watch.has_events() => {
                let comment = self.comment(way, name);
                self.begin(way);
                let verdict = self.open(&mut opened, prepared.seam, &member, comment).await?;
                self.member = Some(member);
                let name = lease.member().upstream.name().to_owned();
                self.request.facts.note(|record| record.worker = Some(name));
                let outcome = if matches!(verdict, Verdict::Finished) {
                    Outcome::Finished(opened.first)
                } else {
                    Outcome::GoesOn { lease: Box::new(lease), opened }
                };
                Ok(Some(Found { way, outcome }))
            }
            // It will not have the question in this form; that says nothing of the worker.
            Ok(Answer::Stream { .. } | Answer::Whole { .. }) => {
                lease.decline();
                self.closed.close(way);
                if is_safe { Ok(None) } else { Err(Refusal::Capability) }
            }
            Err(failed) => {
                request.pipeline.requests.upstream_failed(failed.kind());
                let failure = failed.failure;
                lease.refused(failure, failed.retry_after());
                self.failed(&member, failure)?;
                Ok(None)
            }
        }
    }

    /// Gives a worker back unasked: these ways are not open.
    fn close(&mut self, mut lease: Lease, ways: &[Way]) -> Option<Found> {
        lease.decline();
        for way in ways {
            self.closed.close(*way);
        }
        None
    }

    /// A worker did not answer what had to be known before it was asked.
    fn unanswered(&mut self, lease: Lease, member: &Arc<Member>) -> Result<(), Refusal> {
        lease.refused(Failure::Broken, None);
        self.spent.attempts = self.spent.attempts.saturating_add(1);
        self.failed(member, Failure::Broken)
    }

    /// Counts an attempt, and what it has computed again.
    fn spend(&mut self, way: Way) {
        let told = match way {
            Way::Anew | Way::Replay => 0,
            Way::Ids | Way::Text => self.ledger.tokens(),
        };
        let tokens = self.ledger.prompt_tokens().unwrap_or(0).saturating_add(told);
        self.spent.attempts = self.spent.attempts.saturating_add(1);
        self.spent.tokens = self.spent.tokens.saturating_add(tokens);
        self.request.pipeline.requests.computed_again(way.name(), tokens);
    }

    /// What the client may read of it.
    fn comment(&mut self, way: Way, cause: &'static str) -> Vec<u8> {
        self.resumes = self.resumes.saturating_add(1);
        let is_another = matches!(self.request.profile.draws, Draws::Seeded(_))
            && matches!(way, Way::Ids | Way::Text);
        let sample = if is_another { "; sample=another" } else { "" };
        resumed(&format!("{}; way={}; cause={cause}{sample}", self.resumes, way.name()))
    }

    /// What comes now is a second answer.
    fn begin(&mut self, way: Way) {
        let rules = match way {
            Way::Ids | Way::Text => self.request.stops.clone(),
            Way::Anew | Way::Replay => StopRules::default(),
        };
        let profile = self.request.profile;
        self.splice = Some(Splice::new(way, &self.ledger, rules, profile.least));
        (self.usage, self.doubt) = (None, None);
        match way {
            Way::Anew => self.ledger.restart(),
            Way::Text => {
                self.ledger.forget_ids();
                self.ledger.counted(self.ledger.solid_tokens());
            }
            Way::Ids | Way::Replay => {}
        }
        if matches!(way, Way::Ids | Way::Text) && profile.draws != Draws::Greedy {
            self.ledger.redrawn();
        }
    }

    /// Has the client told what is new of the first events of a second answer; whether that ends it.
    async fn open(
        &mut self,
        opened: &mut Opened,
        seam: Seam,
        member: &Member,
        mut out: Vec<u8>,
    ) -> Result<Verdict, Refusal> {
        let verdict = if seam.is_open {
            self.close_seam(opened, member, &mut out).await?
        } else if seam.withheld.is_empty() {
            Verdict::GoesOn
        } else {
            self.take(part(seam.withheld), Last::default(), &mut out)
        };
        let verdict = match verdict {
            Verdict::GoesOn => {
                let passed = self.pass(&opened.first);
                out.extend_from_slice(&passed.events);
                passed.verdict
            }
            ended => ended,
        };
        opened.first = out.into();
        match verdict {
            Verdict::Failed(_) => Err(Refusal::Diverged),
            fine => Ok(fine),
        }
    }

    /// Waits for the end of the character that the answer broke off in, and tells it by its ids: what a worker says
    /// of a character whose beginning it was given is of no use.
    async fn close_seam(
        &mut self,
        opened: &mut Opened,
        member: &Member,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, Refusal> {
        let mut ids = Vec::new();
        let mut rest = Vec::new();
        let mut finish = None;
        let request = &self.request;
        let deadlines = request.pipeline.routes().route(&request.info.model).deadlines;
        let patience = Duration::from(deadlines.stall.at_least(STALL_LEAST));
        let mut events = std::mem::take(&mut opened.first);
        for _ in 0..OPEN_CHUNKS_MAX {
            for event in self.events(&events) {
                let data = event.data().unwrap_or_default();
                match Piece::parse(&data) {
                    Ok(piece) if piece.has_choice => {
                        ids.extend(piece.ids.ok_or(Refusal::Capability)?);
                        finish = piece.finish.map(String::from).or(finish);
                    }
                    _ => rest.extend_from_slice(event.raw()),
                }
            }
            // The token that ends an answer has no text in it.
            let said = if finish.as_deref() == Some("stop") {
                ids.len().saturating_sub(1)
            } else {
                ids.len()
            };
            let Ok(Decoded::Seam(seam)) = self.seam(member, &ids[..said]).await else {
                return Err(Refusal::Capability);
            };
            if !seam.is_open || finish.is_some() {
                let is_token = true;
                let part =
                    Part { text: seam.withheld, ids: Some(ids), is_token, ..Part::default() };
                let last = Last { finish: finish.as_deref(), ..Last::default() };
                opened.first = rest.into();
                return Ok(self.take(part, last, out));
            }
            let next = poll_fn(|cx| opened.answer.poll_data(cx));
            let chunk = timeout(patience, next).await.ok().flatten();
            let chunk = chunk.and_then(Result::ok).ok_or(Refusal::Capability)?;
            let seen = opened.watch.take(chunk);
            if seen.fault.is_some() {
                return Err(Refusal::Capability);
            }
            events = seen.relay;
        }
        Err(Refusal::Capability)
    }

    /// Ends an answer that is as long as it may be.
    fn full(&mut self, seam: Seam, way: Way, name: &'static str) -> Result<Found, Refusal> {
        let mut out = self.comment(way, name);
        self.begin(Way::Ids);
        let last = Last { finish: Some("length"), ..Last::default() };
        match self.take(part(seam.withheld), last, &mut out) {
            Verdict::GoesOn => out.extend_from_slice(&self.ending()),
            Verdict::Finished => {}
            Verdict::Failed(_) => return Err(Refusal::Diverged),
        }
        Ok(Found { way, outcome: Outcome::Finished(out.into()) })
    }
}

//! Dialect stream: a chat stream translated event by event, with signs of life.
//!
//! | state      | source                                        | then                            |
//! |------------|-----------------------------------------------|---------------------------------|
//! | waiting    | the question has no answer yet                | relaying, collecting            |
//! | relaying   | the chat stream                               | over, after its end or its error |
//! | collecting | an answer that is no stream, to be read whole | over                            |
//! | over       | nothing                                       | the end, or the break           |
//!
//! A client hears something at least every [`PING`], or as often as held streams are to. While the question has no answer, that costs the status:
//! the head is sent with the first sign of life, and an error then comes as an event.
//!
//! **Invariant:** a stream that broke off upstream ends with the dialect's error.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use overdraft_http::{Body, BoxError, BrokenOff, DeadlineTimer, reply};
use overdraft_wire::ApiError;
use overdraft_wire::dialect::{EventWriter, Failure, StreamTranslator};
use overdraft_wire::sse::{Ending, Event, Splitter};
use tokio::time::timeout;

use super::answer::{collect, failure_of, is_stream};
use crate::settings::GatewaySettings;

/// Between two signs of life; clients hang up after 15 s of silence and less.
pub(super) const PING: Duration = Duration::from_secs(10);

/// How a stream is paced and how long its events may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    event_bytes: usize,
    /// Between two signs of life.
    pub(super) ping: Duration,
}

impl Pacing {
    /// As the settings say: where requests are held, a client hears at least as often from us as they ask for.
    pub(super) fn of(settings: &GatewaySettings) -> Self {
        let admission = settings.admission;
        let is_held = !admission.hold.is_zero() && !admission.keep_alive.is_zero();
        let ping = if is_held { PING.min(admission.keep_alive) } else { PING };
        Self { event_bytes: settings.limits.event_bytes, ping }
    }
}

/// A question under way; its answer is a worker's.
pub(super) type Question = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// What a stream that broke off does to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// It is aborted: the error event is no end of this dialect's streams.
    Abort,
    /// It ends: the dialect has an event for a response that failed.
    End,
}

/// What is done with the writer once its last event is written, before that is sent.
pub(super) type Ended<W> = Box<dyn FnOnce(&W) + Send>;

/// A translated stream.
pub(super) struct Translated<W> {
    source: Source,
    translator: StreamTranslator<W>,
    splitter: Splitter,
    timer: DeadlineTimer,
    /// Between two signs of life.
    ping: Duration,
    out: Vec<u8>,
    after_failure: AfterFailure,
    ended: Option<Ended<W>>,
}

enum Source {
    Waiting(Question),
    Relaying(Body),
    Collecting(Pin<Box<dyn Future<Output = Collected> + Send>>),
    /// The connection is to be aborted.
    Breaking,
    Over,
}

/// What an answer was that is no stream.
enum Collected {
    Answer(Bytes),
    Error(Failure),
}

impl<W: EventWriter + Send + Unpin + 'static> Translated<W> {
    /// The answer to `question` as a stream; what is asked when it ends is `ended`.
    pub(super) fn new(
        question: Question,
        translator: StreamTranslator<W>,
        pacing: Pacing,
        after_failure: AfterFailure,
    ) -> Self {
        Self {
            source: Source::Waiting(question),
            translator,
            splitter: Splitter::new(pacing.event_bytes),
            ping: pacing.ping,
            timer: DeadlineTimer::default(),
            out: Vec::new(),
            after_failure,
            ended: None,
        }
    }

    /// Has `ended` done once the last event is written.
    pub(super) fn then(self, ended: Ended<W>) -> Self {
        Self { ended: Some(ended), ..self }
    }

    /// What writes it.
    pub(super) const fn writer(&self) -> &W {
        self.translator.writer()
    }

    /// Answers the client: with the worker's own error while nothing has been sent, else with a stream.
    pub(super) async fn respond(mut self) -> Response<Body> {
        let Source::Waiting(question) = &mut self.source else {
            return reply::event_stream(Body::wrap(self));
        };
        let Ok(response) = timeout(self.ping, question).await else {
            self.translator.ping(&mut self.out);
            return reply::event_stream(Body::wrap(self));
        };
        if !response.status().is_success() {
            return response;
        }
        let (mut head, body) = response.into_parts();
        self.adopt(Response::from_parts(head.clone(), body));
        let stream = reply::event_stream(Body::wrap(self));
        let (given, body) = stream.into_parts();
        head.headers.remove(http::header::CONTENT_LENGTH);
        head.headers.extend(given.headers);
        Response::from_parts(head, body)
    }

    /// Waiting => Relaying | Collecting
    fn adopt(&mut self, response: Response<Body>) {
        self.translator.begin(&mut self.out);
        let status = response.status();
        self.source = if status.is_success() && is_stream(&response) {
            Source::Relaying(response.into_body())
        } else {
            Source::Collecting(Box::pin(collected(status, response.into_body())))
        };
    }

    fn take(&mut self, data: &[u8]) {
        self.splitter.push(data);
        loop {
            match self.splitter.next_event() {
                Ok(Some(event)) => self.handle(&event),
                Ok(None) => return,
                Err(error) => {
                    self.fail(&Failure::of(&ApiError::upstream(error.to_string())));
                    return;
                }
            }
        }
    }

    fn handle(&mut self, event: &Event) {
        if event.is_done() {
            self.translator.handle_done(&mut self.out);
        } else if let Some(data) = event.data() {
            self.translator.handle_data(&data, &mut self.out);
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.translator.fail(failure, &mut self.out);
    }

    /// The source has ended.
    fn end(&mut self) {
        if let Ending::Event(event) = self.splitter.finish() {
            self.handle(&event);
        }
        if !self.translator.is_over() {
            let message = "the worker's answer broke off before its end";
            self.fail(&Failure::of(&ApiError::upstream(message)));
        }
        self.source = Source::Over;
    }

    /// Ends the answer as failed unless it has ended, and lets go of its worker.
    pub(super) fn give_up(&mut self, error: &ApiError) {
        if matches!(self.source, Source::Waiting(_)) {
            self.translator.begin(&mut self.out);
        }
        self.fail(&Failure::of(error));
        self.source = Source::Over;
        self.settle();
    }

    /// What the last event leaves to be done.
    fn settle(&mut self) {
        if !self.translator.is_over() {
            return;
        }
        if let Some(ended) = self.ended.take() {
            ended(self.translator.writer());
        }
        if self.translator.has_failed() {
            self.source = match self.after_failure {
                AfterFailure::Abort => Source::Breaking,
                AfterFailure::End => Source::Over,
            };
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Waiting(question) => {
                let response = ready!(question.as_mut().poll(cx));
                self.adopt(response);
            }
            Source::Relaying(body) => match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.take(&data);
                    }
                }
                Some(Err(_)) | None => self.end(),
            },
            Source::Collecting(collecting) => {
                match ready!(collecting.as_mut().poll(cx)) {
                    Collected::Answer(answer) => {
                        self.translator.handle_data(&answer, &mut self.out);
                        self.translator.handle_done(&mut self.out);
                    }
                    Collected::Error(failure) => self.fail(&failure),
                }
                self.source = Source::Over;
            }
            Source::Breaking | Source::Over => {}
        }
        Poll::Ready(())
    }
}

async fn collected(status: StatusCode, body: Body) -> Collected {
    if !status.is_success() {
        return Collected::Error(failure_of(status, body).await);
    }
    match collect(body).await {
        Ok(answer) => Collected::Answer(answer),
        Err(failure) => Collected::Error(failure),
    }
}

impl<W: EventWriter + Send + Unpin + 'static> HttpBody for Translated<W> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if !this.out.is_empty() {
                this.timer.arm(this.ping);
                let events = std::mem::take(&mut this.out);
                return Poll::Ready(Some(Ok(Frame::data(events.into()))));
            }
            match this.source {
                Source::Breaking => {
                    this.source = Source::Over;
                    return Poll::Ready(Some(Err(BrokenOff.into())));
                }
                Source::Over => return Poll::Ready(None),
                Source::Waiting(_) | Source::Relaying(_) | Source::Collecting(_) => {}
            }
            if this.poll_source(cx).is_ready() {
                this.settle();
                continue;
            }
            if this.translator.is_over() {
                // The client has its answer; the worker's connection is only read to its end.
                return Poll::Pending;
            }
            if !this.timer.is_armed() {
                this.timer.arm(this.ping);
            }
            ready!(this.timer.poll_due(cx));
            this.translator.ping(&mut this.out);
        }
    }
}

impl<W: fmt::Debug> fmt::Debug for Translated<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translated").field("translator", &self.translator).finish_non_exhaustive()
    }
}

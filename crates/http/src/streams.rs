//! Streams of one HTTP/2 connection: a task for each, which ends with the connection or when its client reads nothing.
//!
//! hyper hands over a future for each stream right after it has called the service for it, in the same poll of the
//! connection. What the service notes of the request is therefore found here by the future that belongs to it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use overdraft_telemetry::Ender;
use tokio::task::JoinSet;

use crate::deadline_timer::DeadlineTimer;
use crate::exchange::Access;

/// Whom an answer waits for: its source, or its client.
#[derive(Debug, Default)]
pub(crate) struct AnswerPulse {
    /// Frames that were taken from the answer's body.
    taken: AtomicU64,
    /// How many had been taken when it was asked for one more.
    asked: AtomicU64,
}

impl AnswerPulse {
    /// The client can take more.
    pub(crate) fn note_asked(&self) {
        self.asked.store(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A frame was handed over.
    pub(crate) fn note_taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The frame that the client has yet to make room for, if there is one, by its number.
    fn stuck(&self) -> Option<u64> {
        let taken = self.taken.load(Ordering::Relaxed);
        (taken != self.asked.load(Ordering::Relaxed)).then_some(taken)
    }
}

/// What is known of a request whose stream is about to begin.
#[derive(Debug)]
struct Begun {
    pulse: Arc<AnswerPulse>,
    access: Access,
}

/// The streams of one connection; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Streams {
    tasks: Mutex<JoinSet<()>>,
    begun: Mutex<Option<Begun>>,
    write_stall: Duration,
}

impl Streams {
    pub(crate) fn new(write_stall: Duration) -> Arc<Self> {
        Arc::new(Self { tasks: Mutex::default(), begun: Mutex::default(), write_stall })
    }

    /// A request has come; its stream is started next. Returns what its answer has to keep up.
    pub(crate) fn begin(&self, access: Access) -> Arc<AnswerPulse> {
        let pulse = Arc::new(AnswerPulse::default());
        let begun = Begun { pulse: Arc::clone(&pulse), access };
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        pulse
    }

    /// Starts streams for hyper, for as long as the connection lives.
    pub(crate) fn starter(self: &Arc<Self>) -> StreamStarter {
        StreamStarter(Arc::downgrade(self))
    }

    /// Ends all that are left and waits until they are gone.
    pub(crate) async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
    }

    fn start(&self, stream: impl Future<Output = ()> + Send + 'static) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut tasks = self.tasks();
        // Those that have ended; as many as were started, at most.
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a stream panicked");
            }
        }
        let Some(begun) = begun else { return };
        tasks.spawn(Stream {
            inner: Box::pin(stream),
            begun,
            seen: None,
            stall: DeadlineTimer::default(),
            write_stall: self.write_stall,
        });
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the streams of a connection. It does not keep them: a stream has one of these itself.
#[derive(Clone, Debug)]
pub(crate) struct StreamStarter(Weak<Streams>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamStarter {
    fn execute(&self, stream: F) {
        if let Some(streams) = self.0.upgrade() {
            streams.start(stream);
        }
    }
}

/// One stream, until it is over or its client has made no room for too long.
///
/// The connection's own deadline for writing does not see that: a client may read the connection and open the window
/// of the stream never (RFC 9113, section 5.2).
struct Stream<F> {
    inner: Pin<Box<F>>,
    begun: Begun,
    /// The frame that was stuck the last time.
    seen: Option<u64>,
    stall: DeadlineTimer,
    write_stall: Duration,
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.inner.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let stuck = this.begun.pulse.stuck();
        if stuck != this.seen {
            this.seen = stuck;
            this.stall.arm(this.write_stall);
        }
        if stuck.is_none() || this.stall.poll_due(cx).is_pending() {
            return Poll::Pending;
        }
        this.begun.access.note(|record| {
            if record.end.ender == Ender::Nobody {
                record.end.ender = Ender::ClientStalled;
            }
        });
        Poll::Ready(())
    }
}

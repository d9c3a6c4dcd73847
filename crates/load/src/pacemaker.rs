//! Pacemaker: a thread that releases sessions when they are due.
//!
//! The runtime's timers are true to a millisecond, which is more than a fast endpoint takes; a thread that
//! waits on its own is true to some tens of microseconds. It also makes the prompts' plan, so that reading a
//! trace does not delay answers.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use overdraft_sim::workload::{Session, Sessions, WorkloadError};
use overdraft_telemetry::Clock;
use tokio::sync::mpsc as channel;

/// Sessions that are due and not taken yet; more wait in the thread, and their lag is told.
const DUE_MAX: usize = 1_024;

/// Hands out sessions; dropped, it stops.
#[derive(Debug)]
pub(crate) struct Pacemaker {
    pub(crate) due: channel::Receiver<Result<Session, WorkloadError>>,
    /// Dropped to stop the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pacemaker {
    /// Starts handing out, at the times of `clock`.
    pub(crate) fn start(sessions: Sessions, clock: Clock) -> std::io::Result<Self> {
        let (send, due) = channel::channel(DUE_MAX);
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("pacemaker".to_owned())
            .spawn(move || hand_out(sessions, clock, &send, &stopped))?;
        Ok(Self { due, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Pacemaker {
    fn drop(&mut self) {
        self.stop = None;
        self.due.close();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, and a panic in it was a closed channel to us.
            let _ended = thread.join();
        }
    }
}

fn hand_out(
    sessions: Sessions,
    clock: Clock,
    due: &channel::Sender<Result<Session, WorkloadError>>,
    stopped: &mpsc::Receiver<()>,
) {
    for session in sessions {
        if let Ok(session) = &session {
            let wait = session.at.since(clock.now());
            let ended = stopped.recv_timeout(Duration::from(wait));
            if ended != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
        let is_last = session.is_err();
        if due.blocking_send(session).is_err() || is_last {
            return;
        }
    }
}

//! Engine child process: starts, watches, restarts and stops the supervised command.
//!
//! The child leads a process group of its own, so that its descendants can be ended with it: an
//! orphan that holds the device's memory keeps the next child from starting.

use std::future::poll_fn;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use overdraft_core::restart::{Backoff, Restarts};
use overdraft_telemetry::Clock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Order;
use super::environment::Setting;
use crate::fault::Fault;

/// Timeouts and pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// From asking the command to end until it is killed.
    pub(super) grace: Duration,
    pub(super) backoff: Backoff,
    /// Deaths in a row after which to give up.
    pub(super) deaths_max: u32,
}

/// What the HTTP API tells.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The process's number; zero while none runs.
    pid: AtomicU32,
    died: AtomicU64,
    ordered: AtomicU64,
}

impl State {
    /// The number of the process that runs.
    pub(super) fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Starts after the first: after deaths, and on demand.
    pub(super) fn restarts(&self) -> [u64; 2] {
        [self.died.load(Ordering::Relaxed), self.ordered.load(Ordering::Relaxed)]
    }
}

/// An engine and how it is run.
pub(super) struct Engine {
    pub(super) command: Vec<String>,
    pub(super) environment: Vec<Setting>,
    pub(super) patience: Patience,
    pub(super) state: Arc<State>,
    pub(super) clock: Clock,
}

/// What comes next.
enum Next {
    Died(std::io::Result<ExitStatus>),
    Ordered(Order),
    Stop,
}

/// What asks a supervisor to end: SIGTERM, interrupt, quit, and the hang-up of its terminal. The command leads a process
/// group of its own, so no terminal tells it: who ended without it would leave it running, with the device's memory.
struct Signals(Vec<tokio::signal::unix::Signal>);

impl Signals {
    fn watch() -> Result<Self, Fault> {
        let hangup = (!ignores_hangups(&status())).then(SignalKind::hangup);
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
        let listened: std::io::Result<Vec<_>> =
            kinds.into_iter().chain(hangup).map(signal).collect();
        listened
            .map(Self)
            .map_err(|error| Fault::running(format!("signals cannot be watched: {error}")))
    }

    async fn next(&mut self) {
        poll_fn(|cx| {
            let comes = self.0.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if comes { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// What the system says of this process; empty where it says nothing.
fn status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Whether the process was started to outlive its terminal, as `nohup` does it: hang-ups, the first of all signals, are
/// ignored.
fn ignores_hangups(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

impl Engine {
    /// Runs the command until a signal says stop, or it dies too often.
    pub(super) async fn run(self, mut orders: mpsc::Receiver<Order>) -> Result<(), Fault> {
        let mut signals = Signals::watch()?;
        let mut deaths = Restarts::NONE;
        let mut order: Option<Order> = None;
        let mut child = self.start().map_err(|error| {
            let program = &self.command[0];
            Fault::input(format!("`{program}` could not be started: {error}"))
                .hint("behind `--` comes a program that exists, then its arguments")
        })?;
        let mut begun = self.clock.now();
        loop {
            if let Some(order) = order.take() {
                // Whoever asked may have left.
                let _ = order.send(child.id().unwrap_or_default());
            }
            let next = tokio::select! {
                status = child.wait() => Next::Died(status),
                Some(order) = orders.recv() => Next::Ordered(order),
                () = signals.next() => Next::Stop,
            };
            match next {
                Next::Stop => {
                    tracing::info!("stopping: the command is asked to end");
                    self.end(&mut child, &mut signals).await;
                    return Ok(());
                }
                Next::Ordered(asked) => {
                    tracing::info!("restarting the command as asked");
                    self.end(&mut child, &mut signals).await;
                    self.state.ordered.fetch_add(1, Ordering::Relaxed);
                    order = Some(asked);
                }
                Next::Died(status) => {
                    self.sweep();
                    let lived = self.clock.now().since(begun);
                    let pause = deaths.pause(lived, self.patience.backoff);
                    let pause = Duration::from(pause);
                    tell(status, pause);
                    if self.patience.deaths_max <= deaths.count() {
                        return Err(too_often(deaths.count()));
                    }
                    match rest(pause, &mut orders, &mut signals).await {
                        Rested::Start(asked) => order = asked,
                        Rested::Stop => return Ok(()),
                    }
                    self.state.died.fetch_add(1, Ordering::Relaxed);
                }
            }
            child = self.start().map_err(|error| {
                Fault::running(format!("`{}` could not be started again: {error}", self.command[0]))
            })?;
            begun = self.clock.now();
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let (program, arguments) =
            self.command.split_first().expect("the command line has one at least");
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).kill_on_drop(true);
        for Setting { name, value } in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.spawn()?;
        self.state.pid.store(child.id().unwrap_or_default(), Ordering::Relaxed);
        tracing::info!(pid = child.id(), program, "the command runs");
        Ok(child)
    }

    /// Asks the command to end and waits until it has; a second signal ends the patience.
    async fn end(&self, child: &mut Child, signals: &mut Signals) {
        if let Some(pid) = group(child) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
            tokio::select! {
                _ended = child.wait() => {}
                () = sleep(self.patience.grace) => {
                    let grace = self.patience.grace;
                    tracing::warn!(?grace, "the command has not ended; it is killed");
                }
                () = signals.next() => tracing::warn!("the command is killed at once"),
            }
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait().await;
        }
        self.state.pid.store(0, Ordering::Relaxed);
    }

    /// Ends what a command that died has left running.
    fn sweep(&self) {
        let pid = self.state.pid.swap(0, Ordering::Relaxed);
        if let Some(pid) = raw(pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// How the pause after a death ends.
enum Rested {
    /// Because it is over, or somebody asked for a start.
    Start(Option<Order>),
    Stop,
}

async fn rest(
    pause: Duration,
    orders: &mut mpsc::Receiver<Order>,
    signals: &mut Signals,
) -> Rested {
    tokio::select! {
        () = sleep(pause) => Rested::Start(None),
        Some(asked) = orders.recv() => Rested::Start(Some(asked)),
        () = signals.next() => Rested::Stop,
    }
}

fn too_often(deaths: u32) -> Fault {
    Fault::running(format!("the command died {deaths} times in a row"))
        .hint("its own last words are above; `--deaths-max` allows more")
}

/// The child's process group, which bears its number.
fn group(child: &Child) -> Option<Pid> {
    raw(child.id()?)
}

fn raw(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn tell(status: std::io::Result<ExitStatus>, pause: Duration) {
    match status {
        Ok(status) => tracing::error!(%status, ?pause, "the command died"),
        Err(error) => tracing::error!(%error, ?pause, "the command cannot be waited for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hang_ups_that_were_ignored_from_the_start_stay_so() {
        assert!(ignores_hangups("Name:\tsh\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hangups("SigIgn:\t0000000000001000\nSigCgt:\t1\n"));
        assert!(!ignores_hangups(""));
    }
}

//! A listener from its first connection to its last.
//!
//! It owns every connection in a `JoinSet`: nothing outlives [`Server::serve`]. At the end it stops
//! accepting, lets what runs finish, asks what is left to end itself, and aborts the rest.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use overdraft_telemetry::{Clock, RequestIds};
use overdraft_tls::ServerTls;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::acceptor::{Client, Scope};
use crate::body_budget::BodyBudget;
use crate::connection;
use crate::drain::{DrainSignal, Stage};
use crate::idle_connections::IdleConnections;
use crate::limits::Limits;
use crate::service::Service;
use crate::shared::Shared;

/// After an accept that failed, for want of file descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What Linux and macOS say where the system (`ENFILE`) or the process (`EMFILE`) may open no more files.
const OUT_OF_FILES: [i32; 2] = [23, 24];

/// Between asking streams to end and aborting them.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// How long an idle connection that has to make room may take to go.
const OUSTED_WITHIN: Duration = Duration::from_secs(1);

/// Silence after which the kernel asks whether the client is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A listener's settings.
#[derive(Debug)]
pub struct Server {
    /// Its bounds.
    pub limits: Limits,
    /// The process's clock.
    pub clock: Clock,
    /// Names of requests that bring none.
    pub ids: RequestIds,
    /// What connections are encrypted by, if they are.
    pub tls: Option<Arc<ServerTls>>,
}

/// How a listener ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still answering when the drain's deadline passed.
    pub connections_cut: usize,
}

impl Server {
    /// A server with request names of its own.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        Self { limits, clock, ids: RequestIds::random(), tls: None }
    }

    /// The same with encrypted connections only.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<ServerTls>>) -> Self {
        Self { tls, ..self }
    }

    /// Serves until `shutdown` resolves, then drains. Dropping the future stops everything at once.
    pub async fn serve<S: Service>(
        self,
        listener: TcpListener,
        service: Arc<S>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Drained {
        let limits = Arc::new(self.limits);
        let mut connections = Connections {
            room: semaphore(limits.connections),
            vital: semaphore(limits.connections_vital),
            shared: Arc::new(Shared {
                service,
                limits: Arc::clone(&limits),
                clock: self.clock,
                ids: self.ids,
                bodies: Arc::new(BodyBudget::new(limits.bodies_bytes)),
                idle: Arc::default(),
                tls: self.tls,
            }),
            drain: DrainSignal::new(),
            tasks: JoinSet::new(),
        };
        connections.accept_until(&listener, shutdown).await;
        connections.drain.enter(Stage::Leaving);
        if !limits.lame_duck.is_zero() {
            connections.accept_until(&listener, sleep(limits.lame_duck)).await;
        }
        drop(listener);
        connections.drain_within(limits.drain).await
    }
}

/// The open connections of one listener.
struct Connections<S> {
    room: Arc<Semaphore>,
    /// Room for who asks for what is vital.
    vital: Arc<Semaphore>,
    shared: Arc<Shared<S>>,
    drain: DrainSignal,
    tasks: JoinSet<()>,
}

impl<S: Service> Connections<S> {
    async fn accept_until(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(ended) = self.tasks.join_next() => report(ended),
                stream = accept(listener, &self.room, &self.vital, &self.shared.idle) => {
                    self.greet(stream);
                }
            }
        }
    }

    /// Serves a connection in a task of its own.
    fn greet(&mut self, stream: TcpStream) {
        let Ok(peer) = stream.peer_addr() else {
            return; // gone before it was greeted
        };
        prepare_stream(&stream);
        let (shared, drain) = (Arc::clone(&self.shared), self.drain.subscribe());
        let (room, vital) = (Arc::clone(&self.room), Arc::clone(&self.vital));
        if let Ok(permit) = Arc::clone(&room).try_acquire_owned() {
            self.tasks.spawn(async move {
                let client = Client { shared, peer, drain, scope: Scope::Full };
                connection::serve(stream, client).await;
                drop(permit);
            });
            return;
        }
        // It had better be counted at once: whoever comes next must not find the same room.
        let Ok(permit) = vital.try_acquire_owned() else { return };
        let makes_room = self.shared.idle.close_longest();
        self.tasks.spawn(async move {
            let place = if makes_room {
                timeout(OUSTED_WITHIN, room.acquire_owned()).await.ok()
            } else {
                None
            };
            let scope = if place.is_some() { Scope::Full } else { Scope::Vital };
            let permit = (scope == Scope::Vital).then_some(permit);
            connection::serve(stream, Client { shared, peer, drain, scope }).await;
            drop((place, permit));
        });
    }

    async fn drain_within(mut self, span: Duration) -> Drained {
        self.drain.enter(Stage::Draining);
        if timeout(span, self.join_all()).await.is_ok() {
            return Drained::default();
        }
        let connections_cut = self.tasks.len();
        self.drain.enter(Stage::Cut);
        if timeout(CUT_GRACE, self.join_all()).await.is_err() {
            self.tasks.shutdown().await;
        }
        Drained { connections_cut }
    }

    async fn join_all(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            report(ended);
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection panicked");
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}

/// The next connection, once there is room for it or for its asking what is vital.
async fn accept(
    listener: &TcpListener,
    room: &Semaphore,
    vital: &Semaphore,
    idle: &IdleConnections,
) -> TcpStream {
    let found = tokio::select! {
        permit = room.acquire() => permit,
        permit = vital.acquire() => permit,
    };
    // Only this task takes permits, so what was found is there when the connection is.
    drop(found);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                make_room(&error, idle);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Closes the connection that has been idle for longest, where a new one lacks a file.
fn make_room(error: &std::io::Error, idle: &IdleConnections) {
    if error.raw_os_error().is_some_and(|code| OUT_OF_FILES.contains(&code)) {
        idle.close_longest();
    }
}

/// Sets a connection's socket up: small events must leave at once, and a client whose machine
/// vanished must be noticed.
pub fn prepare_stream(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let set =
        stream.set_nodelay(true).and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = set {
        tracing::debug!(%error, "a socket option could not be set");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::task::{Context, Waker};

    use super::*;
    use crate::line::Line;

    #[tokio::test]
    async fn where_files_are_short_the_connection_that_is_idle_for_longest_makes_room() {
        let (idle, line) = (Arc::new(IdleConnections::default()), Arc::new(Line::default()));
        let _entered = idle.enter(&line);
        line.note_idle(&Context::from_waker(Waker::noop()));
        make_room(&Error::from(std::io::ErrorKind::ConnectionAborted), &idle);
        assert!(!line.is_ousted(), "a client that has gone takes no room");
        make_room(&Error::from_raw_os_error(OUT_OF_FILES[1]), &idle);
        assert!(line.is_ousted());
    }
}

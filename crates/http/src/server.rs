//! A listener from its first connection to its last.
//!
//! It owns every connection in a `JoinSet`: nothing outlives [`Server::serve`]. At the end it stops
//! accepting, lets what runs finish, asks what is left to end itself, and aborts the rest.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use overdraft_telemetry::{Clock, RequestIds};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::body::{Body, RequestBody};
use crate::connection::{self, Shared};
use crate::drain::{DrainSignal, Stage};
use crate::exchange::Exchange;
use crate::limits::Limits;

/// After an accept that failed, for want of file descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Between asking streams to end and aborting them.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// Silence after which the kernel asks whether the client is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Answers requests.
///
/// The future is dropped when the client goes away before the answer has begun, the answer's body
/// when it goes away later.
pub trait Service: Send + Sync + 'static {
    /// Answers one request.
    fn call(
        &self,
        exchange: Exchange,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A listener's settings.
#[derive(Debug)]
pub struct Server {
    /// Its bounds.
    pub limits: Limits,
    /// The process's clock.
    pub clock: Clock,
    /// Names of requests that bring none.
    pub ids: RequestIds,
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
        Self { limits, clock, ids: RequestIds::random() }
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
            room: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            shared: Arc::new(Shared {
                service,
                limits: Arc::clone(&limits),
                clock: self.clock,
                ids: self.ids,
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
                (stream, permit) = accept(listener, Arc::clone(&self.room)) => {
                    let Ok(peer) = stream.peer_addr() else {
                        continue; // gone before it was greeted
                    };
                    prepare(&stream);
                    let (shared, drain) = (Arc::clone(&self.shared), self.drain.subscribe());
                    self.tasks.spawn(async move {
                        connection::serve(stream, peer, shared, drain).await;
                        drop(permit);
                    });
                }
            }
        }
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

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: Arc<Semaphore>,
) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    let permit = room.acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Small events must leave at once, and a client whose machine vanished must be noticed.
fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let set =
        stream.set_nodelay(true).and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = set {
        tracing::debug!(%error, "a socket option could not be set");
    }
}

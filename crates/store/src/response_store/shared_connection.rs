//! Shared (multiplexed) Redis connection for cached answers, with backoff after a failure.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fault::Fault;
use crate::redis_breaker::RedisBreaker;
use crate::transport::{Connection, Dialer};

/// A connection that mends itself.
#[derive(Debug)]
pub(super) struct SharedConnection {
    dialer: Arc<Dialer>,
    line: watch::Sender<Line>,
    /// The task that makes the connection, one at a time; it ends with its owner.
    dialing: Mutex<JoinSet<()>>,
    breaker: Mutex<RedisBreaker>,
    /// Opens for look-ups alone where they are late: a purge waits for a slow store, a request does not.
    haste: Mutex<RedisBreaker>,
    timeout: Duration,
}

/// How the connection stands.
#[derive(Clone, Debug)]
enum Line {
    /// Nobody has asked for one, or it broke.
    Down,
    /// It is being made.
    Dialing,
    /// It is there.
    Up(Connection),
    /// It could not be made.
    Failed(Fault),
}

impl Line {
    /// Gives up a connection that is silent; one that is being made may still come.
    fn hang_up(&mut self) -> bool {
        let was_up = matches!(self, Self::Up(_));
        if was_up {
            *self = Self::Down;
        }
        was_up
    }
}

impl SharedConnection {
    pub(super) fn new(dialer: Dialer, timeout: Duration) -> Self {
        Self {
            dialer: Arc::new(dialer),
            line: watch::Sender::new(Line::Down),
            dialing: Mutex::default(),
            breaker: Mutex::new(RedisBreaker::new()),
            haste: Mutex::new(RedisBreaker::new()),
            timeout,
        }
    }

    /// Does `work`, within the time it has and unless the breaker is open.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        // Who finds out whether it is back is given the time for it before another may try.
        if !self.breaker().admits(Instant::now(), 2 * self.timeout) {
            return Err(Fault::Fused);
        }
        let done = timeout(self.timeout, work).await.unwrap_or(Err(Fault::Timeout));
        match done.as_ref().err() {
            None => self.breaker().held(),
            // It answers, and quickly.
            Some(Fault::Full | Fault::WrongType | Fault::Forbidden) => self.breaker().held(),
            Some(fault) => {
                self.breaker().failed(Instant::now());
                if fault.ends_the_connection() {
                    self.line.send_if_modified(Line::hang_up);
                }
            }
        }
        done
    }

    /// Does `work` for which a request waits: not at all while the store is known to be late.
    pub(super) async fn in_haste<T>(
        &self,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let begun = Instant::now();
        if !self.haste().admits(begun, 2 * self.timeout) {
            return Err(Fault::Fused);
        }
        let done = self.in_time(work).await;
        // What fails is the other breaker's business.
        if done.is_ok() {
            self.haste().answered_after(begun.elapsed(), Instant::now());
        }
        done
    }

    /// Runs one command.
    pub(super) async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Fault> {
        let mut connection = self.connection().await?;
        command.query_async(&mut connection).await.map_err(Fault::from)
    }

    async fn connection(&self) -> Result<Connection, Fault> {
        let mut line = self.line.subscribe();
        let begins = self.line.send_if_modified(|line| {
            let begins = matches!(line, Line::Down | Line::Failed(_));
            if begins {
                *line = Line::Dialing;
            }
            begins
        });
        if begins {
            self.dial();
        }
        let settled = line.wait_for(|line| matches!(line, Line::Up(_) | Line::Failed(_))).await;
        match settled.map(|line| line.clone()) {
            Ok(Line::Up(connection)) => Ok(connection),
            Ok(Line::Failed(fault)) => Err(fault),
            _ => Err(Fault::Unreachable),
        }
    }

    /// Makes the connection beside the requests that wait for it, for they may not wait long enough.
    fn dial(&self) {
        let (dialer, line) = (Arc::clone(&self.dialer), self.line.clone());
        let mut dialing = self.dialing.lock().unwrap_or_else(PoisonError::into_inner);
        while dialing.try_join_next().is_some() {}
        dialing.spawn(async move {
            let line_now = match dialer.dial().await {
                Ok(connection) => Line::Up(connection),
                Err(fault) => Line::Failed(fault),
            };
            line.send_replace(line_now);
        });
    }

    fn haste(&self) -> MutexGuard<'_, RedisBreaker> {
        self.haste.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaker(&self) -> MutexGuard<'_, RedisBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Lazy Redis connection: made on demand, dropped on failure, with a circuit breaker.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use tokio::time::{Instant, timeout};

use crate::fault::Fault;
use crate::redis_breaker::RedisBreaker;
use crate::scripts::Script;
use crate::status::{Side, Status};
use crate::transport::{Connection, Dialer};

/// A connection to Redis that mends itself.
#[derive(Debug)]
pub(crate) struct Link {
    dialer: Dialer,
    connection: Option<Connection>,
    breaker: RedisBreaker,
    status: Arc<Status>,
    timeout: Duration,
    /// As logs call it.
    place: String,
}

impl Link {
    pub(crate) fn new(
        dialer: Dialer,
        status: Arc<Status>,
        timeout: Duration,
        place: String,
    ) -> Self {
        Self { dialer, connection: None, breaker: RedisBreaker::new(), status, timeout, place }
    }

    /// Runs a command.
    pub(crate) async fn run<T: FromRedisValue>(
        &mut self,
        side: Side,
        command: &Cmd,
    ) -> Result<T, Fault> {
        let ran = self.attempt(command).await;
        self.judge(side, ran)
    }

    /// Runs a script by its name; a server that does not know it is told it.
    pub(crate) async fn script<T: FromRedisValue>(
        &mut self,
        side: Side,
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<T, Fault> {
        let command = |verb: &str, body: &str| {
            let mut command = redis::cmd(verb);
            command.arg(body).arg(keys.len());
            for part in keys.iter().chain(arguments) {
                command.arg(part);
            }
            command
        };
        let mut ran = self.attempt(&command("EVALSHA", script.name())).await;
        if let Err(Missed::Unknown) = ran {
            // It was restarted, or failed over: from now on it knows the script.
            ran = self.attempt(&command("EVAL", script.text())).await;
        }
        self.judge(side, ran)
    }

    async fn attempt<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Missed> {
        if !self.breaker.lets_through(Instant::now()) {
            return Err(Missed::Fault(Fault::Fused));
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.dialer.dial().await.map_err(Missed::Fault)?,
        };
        let answer = timeout(self.timeout, command.query_async(&mut connection)).await;
        let missed = match answer {
            Ok(Ok(answer)) => {
                self.connection = Some(connection);
                return Ok(answer);
            }
            Ok(Err(error)) if error.code() == Some("NOSCRIPT") => Missed::Unknown,
            Ok(Err(error)) => Missed::Fault(Fault::from(error)),
            Err(_elapsed) => Missed::Fault(Fault::Timeout),
        };
        let keeps = match missed {
            Missed::Unknown => true,
            Missed::Fault(fault) => !fault.ends_the_connection(),
        };
        if keeps {
            self.connection = Some(connection);
        }
        Err(missed)
    }

    fn judge<T>(&mut self, side: Side, ran: Result<T, Missed>) -> Result<T, Fault> {
        let ran = ran.map_err(|missed| match missed {
            Missed::Fault(fault) => fault,
            Missed::Unknown => Fault::Refused,
        });
        match ran.as_ref().err() {
            None => self.breaker.held(),
            // It answers, and quickly.
            Some(Fault::Full | Fault::WrongType | Fault::Forbidden | Fault::Fused) => {}
            Some(_) => self.breaker.failed(Instant::now()),
        }
        self.status.note(side, ran.as_ref().err().copied(), &self.place);
        ran
    }
}

/// Why a command had no result.
enum Missed {
    Fault(Fault),
    /// The server does not know the script.
    Unknown,
}

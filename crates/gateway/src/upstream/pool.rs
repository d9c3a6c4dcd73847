//! Connection pool: idle keep-alive connections to one worker, most recently used first.
//!
//! The connection used last is the least likely to have been closed; the others age and are
//! dropped. No task watches an idle connection; the pool checks it when it is taken and at each
//! sweep. Invariant: at most `connections_max` are idle, none longer than `keep_alive` past a
//! sweep.

use std::time::Duration;

use tokio::time::Instant;

use super::connection::{Connection, Freshness};

/// The idle connections to one worker.
#[derive(Debug)]
pub(super) struct Pool {
    /// The one used last is at the end.
    idle: Vec<(Connection, Instant)>,
    connections_max: usize,
    keep_alive: Duration,
}

impl Pool {
    pub(super) const fn new(connections_max: usize, keep_alive: Duration) -> Self {
        Self { idle: Vec::new(), connections_max, keep_alive }
    }

    /// A connection that is open as far as can be seen.
    pub(super) fn take(&mut self) -> Option<Connection> {
        while let Some((mut connection, since)) = self.idle.pop() {
            if self.keep_alive < since.elapsed() {
                // All others are older.
                self.idle.clear();
                return None;
            }
            if connection.freshness() == Freshness::Reusable {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, or closes it when there are enough.
    pub(super) fn put(&mut self, connection: Connection) {
        if self.idle.len() < self.connections_max {
            self.idle.push((connection, Instant::now()));
        }
    }

    /// Closes what is stale.
    pub(super) fn sweep(&mut self) {
        let keep_alive = self.keep_alive;
        self.idle.retain_mut(|(connection, since)| {
            since.elapsed() <= keep_alive && connection.freshness() == Freshness::Reusable
        });
    }
}

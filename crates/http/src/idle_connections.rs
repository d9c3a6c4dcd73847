//! Idle connections: who makes room when a listener has as many connections as it takes.
//!
//! Clients keep connections open that they may use again. When there is no room for another one, the
//! connection that has been idle for longest is closed, as its client must expect at any time (RFC 9112,
//! section 9.5). A connection with a request on it is never closed for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::line::Line;

/// The connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    next: u64,
    open: BTreeMap<u64, Weak<Line>>,
}

impl IdleConnections {
    /// Enters a connection, until what this returns is dropped.
    pub(crate) fn enter(self: &Arc<Self>, line: &Arc<Line>) -> Entered {
        let mut lines = self.lines();
        let number = lines.next;
        lines.next += 1;
        lines.open.insert(number, Arc::downgrade(line));
        Entered { number, connections: Arc::clone(self) }
    }

    /// Closes the connection that has been idle for longest; false where none is.
    pub(crate) fn close_longest(&self) -> bool {
        let lines = self.lines();
        let open = lines.open.values().filter_map(Weak::upgrade);
        let idle = open.filter_map(|line| Some((line.idle_since()?, line)));
        let longest = idle.min_by_key(|(since, _)| *since);
        longest.map(|(_, line)| line.oust()).is_some()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection among the others.
#[derive(Debug)]
pub(crate) struct Entered {
    number: u64,
    connections: Arc<IdleConnections>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.connections.lines().open.remove(&self.number);
    }
}

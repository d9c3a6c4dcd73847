//! Listener limits: connections, header and body sizes, timeouts.

use std::time::Duration;

/// Bounds of one listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once. The next one takes the place of the one that has been idle for longest; where
    /// none is idle, it may only ask for what is `vital`.
    pub connections: usize,
    /// Connections beyond those, for who asks whether the server lives and how it is doing; further ones wait in the
    /// kernel's queue.
    pub connections_vital: usize,
    /// The paths that are answered on them.
    pub vital: &'static [&'static str],
    /// Header lines of one request.
    pub headers: usize,
    /// Bytes of one request's head: request line and headers.
    pub head_bytes: usize,
    /// Bytes of one request's body.
    pub body_bytes: usize,
    /// Bytes of all request bodies in memory.
    pub bodies_bytes: usize,
    /// From the first byte of a head to its end.
    pub head: Duration,
    /// From the end of a head to the end of its body.
    pub body: Duration,
    /// How long a connection may lie idle between requests.
    pub idle: Duration,
    /// How long a client may leave an answer unread before it is cut off.
    pub write_stall: Duration,
    /// How long to go on accepting after the end was signalled, so that load balancers notice.
    pub lame_duck: Duration,
    /// How long requests may go on after accepting has ended.
    pub drain: Duration,
    /// What clients that speak HTTP/2 may do besides; without it, only HTTP/1 is spoken.
    pub http2: Option<Http2Limits>,
}

/// Bounds of one connection of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Requests that are answered at once; a further one is refused (`REFUSED_STREAM`) before it is looked at.
    pub streams: u32,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self { streams: 100 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_vital: 32,
            vital: &["/healthz", "/livez", "/readyz", "/health", "/ping", "/metrics"],
            headers: 100,
            head_bytes: 32 * 1024,
            body_bytes: 32 * 1024 * 1024,
            bodies_bytes: 512 * 1024 * 1024,
            head: Duration::from_secs(10),
            body: Duration::from_mins(1),
            idle: Duration::from_secs(75),
            write_stall: Duration::from_secs(30),
            lame_duck: Duration::ZERO,
            drain: Duration::from_secs(30),
            http2: None,
        }
    }
}

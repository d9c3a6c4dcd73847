//! HTTP server library: listening, limits, one access line per request, drain.
//!
//! A [`Server`] is given its socket, its [`Service`] and its end. It owns every task it starts, and
//! a request is cancelled by dropping its future or its body: when the client goes away, when the
//! drain's deadline passes, when the server itself is dropped. **Invariant:** whatever bytes a
//! client sends, it gets an answer in `OpenAI`'s shape or a closed connection, and the process lives.

mod acceptor;
mod answer;
mod body;
mod body_budget;
mod body_error;
mod coding;
mod connection;
mod deadline_timer;
mod drain;
mod exchange;
mod http2;
mod idle_connections;
mod limits;
mod line;
mod operator;
pub mod reply;
mod request_body;
mod server;
mod service;
mod shared;
mod streams;
mod timed_socket;
mod wake_coalescer;

pub use self::body::{Body, BodySender, BoxError, BrokenOff, Gone};
pub use self::body_budget::BodyOwner;
pub use self::body_error::BodyError;
pub use self::coding::{Coding, encode};
pub use self::deadline_timer::DeadlineTimer;
pub use self::drain::{Awaited, Drain};
pub use self::exchange::{Access, Exchange, RecordSource};
pub use self::limits::{Http2Limits, Limits};
pub use self::operator::{is_host_trusted, is_operator, presents};
pub use self::request_body::{RequestBody, read_body};
pub use self::server::{Drained, Server, prepare_stream};
pub use self::service::Service;
pub use self::wake_coalescer::WakeCoalescer;

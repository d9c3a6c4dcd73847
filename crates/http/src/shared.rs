//! What all connections of a listener share, and what a connection is made of.

use std::sync::Arc;
use std::time::Duration;

use overdraft_telemetry::{Clock, RequestIds};
use overdraft_tls::{ServerStream, ServerTls, Transport};
use tokio::net::TcpStream;

use crate::body_budget::BodyBudget;
use crate::idle_connections::IdleConnections;
use crate::limits::Limits;

/// How long a closed connection is kept to let the client read the last answer.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// What all connections of a listener share.
pub(crate) struct Shared<S> {
    pub(crate) service: Arc<S>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) ids: RequestIds,
    pub(crate) bodies: Arc<BodyBudget>,
    pub(crate) idle: Arc<IdleConnections>,
    /// What connections are encrypted by, if they are.
    pub(crate) tls: Option<Arc<ServerTls>>,
}

/// A client's connection, encrypted or not.
pub(crate) type ListenerStream = Transport<ServerStream<TcpStream>>;

//! Redis connections: single server, Sentinel or Cluster, with TLS.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisFuture, RedisResult, TlsCertificates,
    TlsMode, Value,
};

use crate::address::{Node, RedisPlace, Topology};
use crate::fault::{Fault, OpenError};
use crate::settings::{StoreSettings, TlsFiles};

/// Retries of a cluster command whose key has moved; the client's own default of sixteen waits for
/// minutes.
const CLUSTER_RETRIES: u32 = 1;

/// Longest wait between them, in milliseconds.
const CLUSTER_RETRY_WAIT_MS: u64 = 10;

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Dialer {
    place: RedisPlace,
    certificates: Option<TlsCertificates>,
    timeout: Duration,
    connect_timeout: Duration,
}

/// A connection.
#[derive(Clone)]
pub(crate) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Dialer {
    pub(crate) fn new(place: RedisPlace, settings: &StoreSettings) -> Result<Self, OpenError> {
        let certificates = if place.tls { Some(certificates(&settings.tls)?) } else { None };
        if place.tls {
            // A second install is refused, and the first is the same one.
            let _: Result<_, _> = rustls::crypto::ring::default_provider().install_default();
        }
        let StoreSettings { timeout, connect_timeout, .. } = *settings;
        let dialer = Self { place, certificates, timeout, connect_timeout };
        dialer.prove()?;
        Ok(dialer)
    }

    /// Refuses certificates that no connection can use.
    fn prove(&self) -> Result<(), OpenError> {
        let Some(certificates) = self.certificates.clone() else { return Ok(()) };
        let node = Node { host: "localhost".to_owned(), port: 1 };
        Client::build_with_tls(self.address(&node), certificates)
            .map(|_| ())
            .map_err(|error| OpenError::Tls { why: error.to_string() })
    }

    /// Makes a connection.
    pub(crate) async fn dial(&self) -> Result<Connection, Fault> {
        let dialed = tokio::time::timeout(self.connect_timeout, self.connect()).await;
        dialed.map_err(|_elapsed| Fault::Timeout)?.map_err(Fault::from)
    }

    async fn connect(&self) -> RedisResult<Connection> {
        match &self.place.topology {
            Topology::Single { node, database } => {
                let info = self.info(node, *database)?;
                let client = match self.certificates.clone() {
                    Some(certificates) => Client::build_with_tls(info, certificates)?,
                    None => Client::open(info)?,
                };
                self.finish(&client).await
            }
            Topology::Sentinel { nodes, service, database } => {
                let mut builder = SentinelClientBuilder::new(
                    nodes.iter().map(|node| self.address(node)),
                    service,
                    SentinelServerType::Master,
                )?
                .set_client_to_redis_db(i64::from(*database));
                if let Some(user) = &self.place.user {
                    builder = builder.set_client_to_redis_username(user);
                }
                if let Some(password) = &self.place.password {
                    builder = builder.set_client_to_redis_password(password);
                }
                if let Some(certificates) = self.certificates.clone() {
                    builder = builder
                        .set_client_to_redis_tls_mode(TlsMode::Secure)
                        .set_client_to_redis_certificates(certificates.clone())
                        .set_client_to_sentinel_certificates(certificates);
                }
                let client = builder.build()?.async_get_client().await?;
                self.finish(&client).await
            }
            Topology::Cluster { nodes } => {
                let connection = self.cluster(nodes)?.get_async_connection().await?;
                Ok(Connection::Cluster(connection))
            }
        }
    }

    async fn finish(&self, client: &Client) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Connection::Single(connection))
    }

    fn cluster(&self, nodes: &[Node]) -> RedisResult<ClusterClient> {
        let infos = nodes.iter().map(|node| self.info(node, 0)).collect::<RedisResult<Vec<_>>>()?;
        let mut builder = ClusterClientBuilder::new(infos)
            .retries(CLUSTER_RETRIES)
            .min_retry_wait(1)
            .max_retry_wait(CLUSTER_RETRY_WAIT_MS)
            .connection_timeout(self.connect_timeout)
            .response_timeout(self.timeout);
        if let Some(user) = &self.place.user {
            builder = builder.username(user);
        }
        if let Some(password) = &self.place.password {
            builder = builder.password(password);
        }
        if let Some(certificates) = self.certificates.clone() {
            builder = builder.certs(certificates);
        }
        builder.build()
    }

    fn address(&self, node: &Node) -> ConnectionAddr {
        let (host, port) = (node.host.clone(), node.port);
        if self.place.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        }
    }

    fn info(&self, node: &Node, database: u32) -> RedisResult<ConnectionInfo> {
        let mut who = RedisConnectionInfo::default().set_db(i64::from(database));
        if let Some(user) = &self.place.user {
            who = who.set_username(user);
        }
        if let Some(password) = &self.place.password {
            who = who.set_password(password);
        }
        Ok(self.address(node).into_connection_info()?.set_redis_settings(who))
    }
}

fn certificates(files: &TlsFiles) -> Result<TlsCertificates, OpenError> {
    let read = |path: &Path| {
        let fault = |error: std::io::Error| OpenError::TlsFile {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        fs::read(path).map_err(fault)
    };
    let client_tls = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        (None, None) => None,
        _ => return Err(OpenError::HalfOfTls),
    };
    let root_cert = files.ca.as_deref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "Single",
            Self::Cluster(_) => "Cluster",
        })
    }
}

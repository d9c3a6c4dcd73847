//! Redis connections: single server, Sentinel or Cluster, with TLS.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    Pipeline, RedisConnectionInfo, RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};

use crate::address::{Node, RedisPlace, Topology};
use crate::certificates::Certificates;
use crate::fault::{Fault, OpenError, wants_login};
use crate::settings::StoreSettings;

/// Retries of a cluster command whose key has moved; the client's own default of sixteen waits for
/// minutes.
const CLUSTER_RETRIES: u32 = 1;

/// Longest wait between them, in milliseconds.
const CLUSTER_RETRY_WAIT_MS: u64 = 10;

/// Whether sentinels are shown the user and the password of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    Kept,
    Shown,
}

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Dialer {
    place: RedisPlace,
    /// None where connections are not encrypted.
    certificates: Option<Certificates>,
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
        let certificates = if place.tls { Some(Certificates::new(&settings.tls)?) } else { None };
        let StoreSettings { timeout, connect_timeout, .. } = *settings;
        Ok(Self { place, certificates, timeout, connect_timeout })
    }

    /// Makes a connection.
    pub(crate) async fn dial(&self) -> Result<Connection, Fault> {
        let dialed = tokio::time::timeout(self.connect_timeout, self.connect()).await;
        dialed.map_err(|_elapsed| Fault::Timeout)?.map_err(Fault::from)
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let certificates = self.certificates.as_ref().map(Certificates::current);
        match &self.place.topology {
            Topology::Single { node, database } => {
                let info = self.info(node, *database)?;
                let client = match certificates {
                    Some(certificates) => Client::build_with_tls(info, certificates)?,
                    None => Client::open(info)?,
                };
                self.finish(&client).await
            }
            Topology::Sentinel { nodes, service, database } => {
                let ask = |certificates, login| {
                    self.primary(nodes, service, *database, certificates, login)
                };
                let client = match ask(certificates.clone(), Login::Kept).await {
                    // Charts give Redis and its sentinels one password. One that asks for none refuses any.
                    Err(error) if wants_login(&error) && self.place.password.is_some() => {
                        ask(certificates, Login::Shown).await?
                    }
                    found => found?,
                };
                self.finish(&client).await
            }
            Topology::Cluster { nodes } => {
                let client = self.cluster(nodes, certificates)?;
                let connection = client.get_async_connection().await?;
                Ok(Connection::Cluster(connection))
            }
        }
    }

    /// Whom the sentinels call the primary.
    async fn primary(
        &self,
        nodes: &[Node],
        service: &str,
        database: u32,
        certificates: Option<TlsCertificates>,
        login: Login,
    ) -> RedisResult<Client> {
        let mut builder = SentinelClientBuilder::new(
            nodes.iter().map(|node| self.address(node)),
            service,
            SentinelServerType::Master,
        )?
        .set_client_to_redis_db(i64::from(database));
        if let Some(user) = &self.place.user {
            builder = builder.set_client_to_redis_username(user);
            if login == Login::Shown {
                builder = builder.set_client_to_sentinel_username(user);
            }
        }
        if let Some(password) = &self.place.password {
            builder = builder.set_client_to_redis_password(password);
            if login == Login::Shown {
                builder = builder.set_client_to_sentinel_password(password);
            }
        }
        if let Some(certificates) = certificates {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
        builder.build()?.async_get_client().await
    }

    async fn finish(&self, client: &Client) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Connection::Single(connection))
    }

    fn cluster(
        &self,
        nodes: &[Node],
        certificates: Option<TlsCertificates>,
    ) -> RedisResult<ClusterClient> {
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
        if let Some(certificates) = certificates {
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

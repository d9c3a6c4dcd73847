//! Store address: `memory` or the URL of a Redis server, Sentinel or Cluster.
//!
//! `memory`, or an address of Redis: `redis://[[user]:password@]host[:port][/db]`, with `rediss`
//! for TLS; `redis+sentinel://host:port,…/service[/db]`; `redis+cluster://host:port,…`. The last
//! two have `rediss+…` forms as well. Passwords are percent-encoded, and never printed.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

/// Maximum nodes of one address.
const NODES_MAX: usize = 32;

/// The place of the state that gateways share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process: the gateway is alone.
    #[default]
    Memory,
    /// In Redis.
    Redis(RedisPlace),
    /// The address is invalid; opening it returns the error.
    Wrong(PlaceError),
}

/// Which Redis, and who we are there.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisPlace {
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Who we are, if not the default user.
    pub user: Option<String>,
    /// Our password.
    pub password: Option<String>,
    /// The servers and how they belong together.
    pub topology: Topology,
}

/// How Redis servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single {
        /// Where it listens.
        node: Node,
        /// The number of the database.
        database: u32,
    },
    /// Whoever the sentinels say is the primary.
    Sentinel {
        /// The sentinels.
        nodes: Vec<Node>,
        /// The name they know the primary by.
        service: String,
        /// The number of the database.
        database: u32,
    },
    /// A cluster.
    Cluster {
        /// Nodes to ask first.
        nodes: Vec<Node>,
    },
}

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Debug for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for RedisPlace {
    /// As configured, without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        match &self.topology {
            Topology::Single { node, database } => write!(f, "{scheme}://{node}/{database}"),
            Topology::Sentinel { nodes, service, database } => {
                write!(f, "{scheme}+sentinel://{}/{service}/{database}", listed(nodes))
            }
            Topology::Cluster { nodes } => write!(f, "{scheme}+cluster://{}", listed(nodes)),
        }
    }
}

fn listed(nodes: &[Node]) -> String {
    let nodes: Vec<String> = nodes.iter().map(Node::to_string).collect();
    nodes.join(",")
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Not an address of a store. Tells the address only as far as it holds no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{url}` is not a store's address: {why}; expected `memory`, `redis://host:port`, \
     `redis+sentinel://host:port,host:port/service` or `redis+cluster://host:port,host:port` \
     (`rediss` for TLS)"
)]
pub struct PlaceError {
    /// As configured, without user and password.
    pub url: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Place {
    /// Parses an address.
    ///
    /// # Errors
    /// [`PlaceError`] with what is wrong.
    pub fn parse(url: &str) -> Result<Self, PlaceError> {
        if url == "memory" {
            return Ok(Self::Memory);
        }
        redis(url).map(Self::Redis).map_err(|why| PlaceError { url: redacted(url), why })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(place) => place.fmt(f),
            Self::Wrong(error) => f.write_str(&error.url),
        }
    }
}

/// An address without what stands before its last `@` and without a query, in which clients of Redis look for a
/// password as well.
fn redacted(url: &str) -> String {
    let scheme = url.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
    let scheme = scheme.unwrap_or_default();
    let (login, place) = match url.rsplit_once('@') {
        // Where the `@` belongs to a query, what is behind it does too.
        Some((before, _)) if before.contains(['?', '#']) => return format!("{scheme}…"),
        Some((_, place)) => (format!("{scheme}…@"), place),
        None => (String::new(), url),
    };
    match place.split_once(['?', '#']) {
        Some((place, _)) => format!("{login}{place}?…"),
        None => format!("{login}{place}"),
    }
}

fn redis(url: &str) -> Result<RedisPlace, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
    let (tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
        ("redis", kind) => (false, kind),
        ("rediss", kind) => (true, kind),
        _ => return Err("its scheme is unknown"),
    };
    if rest.contains(['?', '#']) {
        return Err("it has a query");
    }
    let (who, rest) = rest.rsplit_once('@').map_or((None, rest), |(who, rest)| (Some(who), rest));
    let (user, password) = who.map_or(Ok((None, None)), credentials)?;
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let topology = match kind {
        "" => {
            let node = node(hosts, 6_379)?;
            Topology::Single { node, database: database(path)? }
        }
        "sentinel" => {
            let (service, number) = path.split_once('/').unwrap_or((path, ""));
            if service.is_empty() {
                return Err("it names no service");
            }
            let (nodes, service) = (nodes(hosts, 26_379)?, service.to_owned());
            Topology::Sentinel { nodes, service, database: database(number)? }
        }
        "cluster" if path.is_empty() => Topology::Cluster { nodes: nodes(hosts, 6_379)? },
        "cluster" => return Err("a cluster has no numbered databases"),
        _ => return Err("its scheme is unknown"),
    };
    Ok(RedisPlace { tls, user, password, topology })
}

type Credentials = (Option<String>, Option<String>);

fn credentials(who: &str) -> Result<Credentials, &'static str> {
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    let some = |text: &str| (!text.is_empty()).then(|| decoded(text)).transpose();
    Ok((some(user)?, some(password)?))
}

fn decoded(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "its user or password is not percent-encoded as it should be";
    let is_escape = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return Err(WRONG);
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| WRONG)
}

fn nodes(hosts: &str, port: u16) -> Result<Vec<Node>, &'static str> {
    let nodes: Vec<Node> =
        hosts.split(',').map(|host| node(host, port)).collect::<Result<_, _>>()?;
    if NODES_MAX < nodes.len() { Err("it names more than 32 servers") } else { Ok(nodes) }
}

fn node(host: &str, port: u16) -> Result<Node, &'static str> {
    const PORT: &str = "its port is no number from 1 to 65535";
    // An IPv6 address stands in brackets.
    let (host, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (host, port),
        Some(Some((host, rest))) => {
            let digits = rest.strip_prefix(':').ok_or(PORT)?;
            (host, digits.parse().map_err(|_| PORT)?)
        }
        Some(None) => return Err("its bracket is not closed"),
        None => match host.split_once(':') {
            Some((host, digits)) => (host, digits.parse().map_err(|_| PORT)?),
            None => (host, port),
        },
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    if port == 0 { Err(PORT) } else { Ok(Node { host: host.to_owned(), port }) }
}

fn database(path: &str) -> Result<u32, &'static str> {
    match path {
        "" => Ok(0),
        digits => digits.parse().map_err(|_| "its database is no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let seen = match Place::parse(url) {
            Ok(place) => place.to_string(),
            Err(error) => format!("{}: {}", error.url, error.why),
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn addresses_are_read_and_told_without_passwords() {
        check("memory", "memory");
        check("redis://localhost", "redis://localhost:6379/0");
        check("rediss://me:s3cret@[::1]:7000/2", "rediss://[::1]:7000/2");
        check("redis+sentinel://:p@a:1,b/main/3", "redis+sentinel://a:1,b:26379/main/3");
        check("redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2");
        let Place::Redis(place) = Place::parse("redis://me:p%40ss@h").unwrap() else { panic!() };
        assert_eq!((place.user.as_deref(), place.password.as_deref()), (Some("me"), Some("p@ss")));
        assert!(!format!("{place:?}").contains("ss@"));
    }

    #[test]
    fn what_is_no_address_is_told_without_its_password() {
        check("redis", "redis: it has no scheme");
        check("http://x", "http://x: its scheme is unknown");
        check("redis://me:s3cret@h:x", "redis://…@h:x: its port is no number from 1 to 65535");
        check("redis://", "redis://: it has no host");
        check("redis://h/x", "redis://h/x: its database is no number");
        check("redis://h/0?password=s3cret", "redis://h/0?…: it has a query");
        check("redis://me:p@h?s3cret", "redis://…@h?…: it has a query");
        check("redis://h?password=s3@cret", "redis://…: it has a query");
        check("redis+sentinel://a:1", "redis+sentinel://a:1: it names no service");
        check(
            "redis+cluster://a:1/2",
            "redis+cluster://a:1/2: a cluster has no numbered databases",
        );
        for wrong in ["%zz", "%+1", "a%", "%4", "%ff"] {
            check(
                &format!("redis://:{wrong}@h"),
                "redis://…@h: its user or password is not percent-encoded as it should be",
            );
        }
    }
}

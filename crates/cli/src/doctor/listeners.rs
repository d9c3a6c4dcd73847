//! Listener section: what answers at each configured address, or whether it is free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::StatusCode;
use overdraft_config::Config;
use overdraft_tls::{ClientSettings, ClientTls, Trust};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::section::Section;
use crate::ask::{self, Address, AskError, Want};

/// Bytes of a version.
const VERSION_BYTES_MAX: usize = 4 * 1024;

/// What `GET /version` answers.
#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    server: String,
}

/// Asks at every address that a gateway of this configuration listens on.
pub(super) async fn section(config: &Config) -> Section {
    let mut section = Section::new("listeners");
    let all = [
        ("clients", Some(config.listen), config.tls.is_some()),
        ("operators", config.admin.listen, false),
        ("scaler", config.scaling.listen, false),
    ];
    let mut asking = JoinSet::new();
    for (place, (name, address, is_encrypted)) in all.into_iter().enumerate() {
        if let Some(address) = address {
            asking.spawn(
                async move { (place, name, address, occupant(address, is_encrypted).await) },
            );
        }
    }
    let mut found = asking.join_all().await;
    found.sort_by_key(|(place, ..)| *place);
    for (_, name, address, occupant) in found {
        section.line(name, format!("{address}, {occupant}"));
        let mut view = Value::Null;
        view["address"] = address.to_string().into();
        view["found"] = occupant.into();
        section.set(name, view);
    }
    section
}

/// Where a listener is reached from this machine.
pub(super) fn here(listen: SocketAddr, is_encrypted: bool) -> Address {
    let host = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    // It is this machine, by an address that no certificate has to name.
    let anyone = ClientSettings { trust: Trust::Anyone, ..ClientSettings::default() };
    let tls = is_encrypted.then(|| ClientTls::new(anyone).ok().map(Arc::new)).flatten();
    Address { host: host.to_string(), port: listen.port(), tls }
}

/// Who has an address, in words.
async fn occupant(address: SocketAddr, is_encrypted: bool) -> String {
    if address.port() == 0 {
        return "takes a free port".to_owned();
    }
    match ask::get(&here(address, is_encrypted), "/version", Want::Body(VERSION_BYTES_MAX)).await {
        Ok((StatusCode::OK, body)) => match serde_json::from_slice(&body) {
            Ok(Version { version, server }) if server == "overdraft" => {
                format!("overdraft {version} answers")
            }
            _ => "something else than overdraft answers".to_owned(),
        },
        Ok((status, _)) => format!("something answers, `/version` with {status}"),
        Err(AskError::Unreachable(error)) => match bind(address) {
            Ok(()) => "nothing listens, the address is free".to_owned(),
            Err(fault) => format!("nothing answers ({error}) and it cannot be taken: {fault}"),
        },
        Err(error) => format!("something listens; as HTTP: {error}"),
    }
}

/// Takes the address for a moment, without listening, so that no client can come in between.
fn bind(address: SocketAddr) -> std::io::Result<()> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_over_the_loopback() {
        let of = |address: &str| here(address.parse().expect("an address"), false).host;
        assert_eq!(of("0.0.0.0:80"), "127.0.0.1");
        assert_eq!(of("[::]:80"), "::1");
        assert_eq!(of("10.0.0.1:80"), "10.0.0.1");
    }

    #[tokio::test]
    async fn an_address_is_free_or_taken_by_something() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let silent = occupant(address, false).await;
        assert!(silent.starts_with("something listens; as HTTP: no answer"), "{silent}");
        drop(listener);
        assert_eq!(occupant(address, false).await, "nothing listens, the address is free");
        let any = occupant("127.0.0.1:0".parse().expect("an address"), false).await;
        assert_eq!(any, "takes a free port");
    }
}

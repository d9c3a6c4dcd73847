//! Listener options of `overdraft serve`: where clients, operators and autoscalers connect.
//!
//! A socket that a service manager passes on counts most, then a flag, then the file.

use std::net::SocketAddr;
use std::path::PathBuf;

use overdraft_config::{Config, Tls};
use overdraft_gateway::Listeners;
use overdraft_tls::{Offers, ServerTls};
use tokio::net::TcpListener;

use crate::fault::Fault;
use crate::service_manager::Passed;
use crate::settings;

#[derive(clap::Args, Debug)]
pub(crate) struct ListenOptions {
    /// Where clients connect, port 0 takes a free one; by default as the file says, or
    /// 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", value_parser = socket)]
    listen: Option<SocketAddr>,
    /// The certificate in PEM that clients are shown; they then connect by `https` alone. By default as the file says
    #[arg(long, value_name = "FILE", requires = "ssl_keyfile")]
    ssl_certfile: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "ssl_certfile")]
    ssl_keyfile: Option<PathBuf>,
    /// The authorities in PEM whose clients are answered; without it, clients show no certificate
    #[arg(long, value_name = "FILE", requires = "ssl_certfile")]
    ssl_ca_certs: Option<PathBuf>,
    /// Where `/admin`, `/metrics` and probes are answered apart from clients; by default as the
    /// file says, or where clients connect
    #[arg(long, value_name = "ADDRESS", value_parser = socket)]
    admin_listen: Option<SocketAddr>,
    /// Where KEDA asks how many workers the pools want; by default as the file says, or nowhere
    #[arg(long, value_name = "ADDRESS", value_parser = socket)]
    scaler_listen: Option<SocketAddr>,
}

impl ListenOptions {
    /// What encrypts the connections of clients, if anything does. Its files are read, so that nobody is told of an
    /// address that cannot be served.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub(crate) fn tls(&self, config: &Config) -> Result<Option<Tls>, Fault> {
        let files = self.ssl_certfile.clone().zip(self.ssl_keyfile.clone());
        let flags = files.map(|(certificate_file, key_file)| Tls {
            certificate_file,
            key_file,
            client_ca_file: self.ssl_ca_certs.clone(),
        });
        let tls = flags.or_else(|| config.tls.clone());
        if let Some(tls) = &tls {
            ServerTls::new(settings::tls::listener(tls), Offers::Http2).map_err(|error| {
                Fault::input(format!("the listener: {error}"))
                    .hint("correct the files of `--ssl-certfile` and its like, or of `tls` in the configuration")
            })?;
        }
        Ok(tls)
    }

    /// The sockets of a gateway.
    pub(crate) async fn open(&self, config: &Config) -> Result<Listeners, Fault> {
        // The first socket of a unit is the clients', the second the operators'.
        let mut passed = Passed::on();
        let clients = match passed.listener(0)? {
            Some(listener) => listener,
            None => bind(self.listen.unwrap_or(config.listen), "--listen").await?,
        };
        let admin = self.admin_listen.or(config.admin.listen);
        let admin = match passed.listener(1)? {
            Some(listener) => Some(listener),
            None => bind_if_any(admin, "--admin-listen").await?,
        };
        let scaler = self.scaler_listen.or(config.scaling.listen);
        Ok(Listeners { clients, admin, scaler: bind_if_any(scaler, "--scaler-listen").await? })
    }
}

async fn bind_if_any(
    address: Option<SocketAddr>,
    flag: &str,
) -> Result<Option<TcpListener>, Fault> {
    match address {
        Some(address) => bind(address, flag).await.map(Some),
        None => Ok(None),
    }
}

/// An address to listen on, as a flag has it.
///
/// # Errors
/// Says what is expected: names are not resolved, since one may have several addresses.
pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, as in `127.0.0.1:8080` or `[::]:8080`".to_owned()
    })
}

/// Takes an address, or says which flag chooses another.
pub(crate) async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|error| {
        Fault::input(format!("`{address}` cannot be listened on: {error}"))
            .hint(format!("choose another with `{flag}`; port 0 takes a free one"))
    })
}

/// The address that a listener got.
pub(crate) fn address(listener: &TcpListener) -> Result<SocketAddr, Fault> {
    listener
        .local_addr()
        .map_err(|error| Fault::running(format!("the listener has no address: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_told_with_what_is_one() {
        assert!(socket("127.0.0.1:0").is_ok() && socket("[::]:8080").is_ok());
        for text in ["localhost:8080", "127.0.0.1", ":8080", ""] {
            let said = socket(text).expect_err("it is no address");
            assert!(said.contains("as in `127.0.0.1:8080`"), "{said}");
        }
    }
}

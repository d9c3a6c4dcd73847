//! Redis in its other forms: encrypted, with sentinels, as a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use overdraft_store::{Fault, OpenError, Store};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use redis::Value;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::server::Redis;
use crate::{OUT, WORKER, busy, in_time, open, say, settings};

/// Reports until that is taken in.
async fn until_told(store: &mut Store) {
    let told = async {
        while store.board_report(WORKER, OUT).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    in_time(told).await;
}

/// Ends TLS before a server that speaks none, for clients that somebody we know vouches for. Not every
/// build of Redis has TLS of its own.
async fn terminate(listener: TcpListener, config: ServerConfig, port: u16) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            // Whoever is not vouched for is hung up on.
            let Ok(mut inner) = acceptor.accept(stream).await else { return };
            let mut outer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let _ended = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
        });
    }
}

/// Makes an authority and what it vouches for: `ca.pem`, `client.pem` and `client.key` in a folder, and a server that
/// wants a certificate.
fn certify(folder: &Path) -> ServerConfig {
    let path = |name: &str| folder.join(name);
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority of a test");
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    std::fs::write(path("ca.pem"), authority_certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let sign = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        (certificate, key)
    };
    let (certificate, key) = sign("gateway");
    std::fs::write(path("client.pem"), certificate.pem()).unwrap();
    std::fs::write(path("client.key"), key.serialize_pem()).unwrap();
    let _: Result<_, _> = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(authority_certificate.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let (certificate, key) = sign("localhost");
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_with_certificates_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = certify(folder.path());
    let redis = Redis::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(terminate(listener, config, redis.port));
    let mut with = settings(&format!("rediss://localhost:{port}"));
    with.tls.ca = Some(path("ca.pem"));
    assert!(Store::open(&with).unwrap().ping().await.is_err(), "it wants a certificate");
    with.tls.certificate = Some(path("client.pem"));
    assert_eq!(Store::open(&with).unwrap_err(), OpenError::HalfOfTls);
    with.tls.key = Some(path("client.key"));
    let mut store = Store::open(&with).unwrap();
    until_told(&mut store).await;
    // A server whom nobody we know vouches for is not spoken to.
    let mut stranger = with.clone();
    stranger.tls.ca = Some(path("client.pem"));
    assert!(Store::open(&stranger).unwrap().ping().await.is_err());
    let mut plain = open(&redis.url());
    assert!(plain.board_read(&[WORKER]).await.unwrap()[0].is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_were_renewed_in_place_are_shown_by_the_next_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| Some(folder.path().join(name));
    let redis = Redis::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let before = tokio::spawn(terminate(listener, certify(folder.path()), redis.port));
    let mut with = settings(&format!("rediss://localhost:{}", place.port()));
    with.tls.ca = path("ca.pem");
    with.tls.certificate = path("client.pem");
    with.tls.key = path("client.key");
    let mut store = Store::open(&with).unwrap();
    until_told(&mut store).await;
    // Another authority, and other certificates on both sides.
    let config = certify(folder.path());
    before.abort();
    let _aborted = before.await;
    let listener = TcpListener::bind(place).await.unwrap();
    tokio::spawn(terminate(listener, config, redis.port));
    let cut = async {
        while store.board_report(WORKER, OUT).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    in_time(cut).await;
    until_told(&mut store).await;
}

// Faults: 60
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinels_is_followed() {
    let mut primary = Redis::start(&["--repl-diskless-sync-delay", "0"]);
    let primary_port = primary.port.to_string();
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &primary_port]);
    let linked = async {
        loop {
            let told = say(&replica, &["INFO", "replication"]).await;
            let up = format!("{told:?}").contains("master_link_status:up");
            if up {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(linked).await;
    let sentinel = Redis::sentinel(primary.port);
    let known = async {
        loop {
            let told = say(&sentinel, &["SENTINEL", "replicas", "main"]).await;
            if matches!(&told, Value::Array(replicas) if !replicas.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(known).await;
    let mut store = open(&format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port));
    until_told(&mut store).await;
    primary.kill();
    until_told(&mut store).await;
    let mut direct = open(&replica.url());
    assert!(direct.board_read(&[WORKER]).await.unwrap()[0].is_some(), "the replica is asked now");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_ask_for_the_password_are_shown_that_of_redis() {
    let primary = Redis::start(&[]);
    let sentinel = Redis::sentinel(primary.port);
    say(&sentinel, &["SENTINEL", "SET", "main", "auth-pass", "hush"]).await;
    say(&primary, &["CONFIG", "SET", "requirepass", "hush"]).await;
    let address = format!("redis+sentinel://:hush@127.0.0.1:{}/main", sentinel.port);
    // While the sentinel asks for none, it would refuse one.
    until_told(&mut open(&address)).await;
    say(&sentinel, &["ACL", "SETUSER", "default", ">hush"]).await;
    until_told(&mut open(&address)).await;
    let mut stranger = open(&format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port));
    assert_eq!(stranger.ping().await, Err(Fault::Password));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_holds_all_of_it_in_one_slot() {
    const SLOTS: u32 = 16_384;
    let clustered = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::start(&clustered)).collect();
    for (index, node) in (0u32..).zip(&nodes) {
        let slots = (SLOTS * index / 3)..(SLOTS * (index + 1) / 3);
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        let mut words = vec!["CLUSTER", "ADDSLOTS"];
        words.extend(slots.iter().map(String::as_str));
        say(node, &words).await;
        say(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await;
    }
    for node in &nodes[1..] {
        say(&nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]).await;
    }
    let formed = async {
        for node in &nodes {
            while !format!("{:?}", say(node, &["CLUSTER", "INFO"]).await)
                .contains("cluster_state:ok")
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    in_time(formed).await;
    let urls: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let (mut one, mut other) = (
        open(&format!("redis+cluster://{}", urls[0])),
        open(&format!("redis+cluster://{}", urls.join(","))),
    );
    until_told(&mut one).await;
    let read = async {
        loop {
            if let Ok(records) = other.board_read(&[WORKER, 1, 2]).await {
                return records;
            }
        }
    };
    let records = in_time(read).await;
    assert!(records[0].is_some() && records[1].is_none());
    assert!(other.board_version().await.is_ok());
    one.exchange_shares(&busy(&[])).await.unwrap();
    assert_eq!(other.exchange_shares(&busy(&[])).await.unwrap().gateways, 2);
}

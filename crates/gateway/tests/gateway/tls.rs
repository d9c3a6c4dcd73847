//! TLS on both sides: what a listener shows, whom a worker is believed, and certificates that are renewed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use overdraft_gateway::{
    FileSettings, GatewayError, GatewaySettings, ModelSettings, Source, WorkerSettings,
};
use overdraft_tls::{
    ClientSettings, ClientTls, Identity, Offers, ServerSettings, ServerTls, Trust,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::client::Client;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, SOON, chat, finish, in_time, token};
use crate::mock::Mock;
use crate::routing::{until, workers};

/// An authority, and the files of what it vouches for.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = authority.self_signed(&key).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(authority, key) }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for `host`, in the files `NAME.pem` and `NAME.key`.
    pub(crate) fn vouch(&self, name: &str, host: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let own = own.signed_by(&key, &self.issuer).unwrap();
        let (certificate, file) =
            (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        std::fs::write(&certificate, own.pem()).unwrap();
        std::fs::write(&file, key.serialize_pem()).unwrap();
        Identity { certificate, key: file }
    }

    fn trust(&self) -> Trust {
        Trust::Authorities(self.file("ca.pem"))
    }

    /// What a server with that certificate is made of.
    pub(crate) fn server(&self, own: Identity, asks: bool) -> ServerSettings {
        let Identity { certificate, key } = own;
        let client_authorities = asks.then(|| self.file("ca.pem"));
        ServerSettings { certificate, key, client_authorities }
    }
}

/// A port that speaks TLS and passes on what comes to `inside`.
pub(crate) async fn terminate(settings: ServerSettings, inside: SocketAddr) -> SocketAddr {
    let tls = Arc::new(ServerTls::new(settings, Offers::Http1).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = Arc::clone(&tls);
            tokio::spawn(async move {
                // Whoever does not trust us hangs up.
                let Ok(mut outer) = tls.accept(stream).await else { return };
                let mut inner = TcpStream::connect(inside).await.unwrap();
                let _ended = copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    address
}

/// A client whose bytes are encrypted on their way to `address`; `None` where no connection comes of it.
async fn encrypted(tls: &ClientTls, address: SocketAddr) -> Option<Client> {
    let outside = TcpStream::connect(address).await.unwrap();
    let mut outer = in_time(tls.connect("localhost", outside)).await.ok()?;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::connect(listener.local_addr().unwrap()).await;
    let (mut inner, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        let _ended = copy_bidirectional(&mut inner, &mut outer).await;
    });
    Some(client)
}

fn client_of(trust: Trust, identity: Option<Identity>) -> ClientTls {
    ClientTls::new(ClientSettings { trust, identity, server_name: None }).unwrap()
}

/// A gateway before one worker at `url`.
async fn before(url: String, adjust: impl FnOnce(&mut GatewaySettings)) -> Gateway {
    Gateway::start_unready(&[], |settings| {
        settings.workers = vec![WorkerSettings::new(url)];
        adjust(settings);
    })
    .await
}

#[tokio::test]
async fn a_worker_behind_tls_streams_and_is_shown_certificate_and_key() {
    let (mut mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let server = authority.server(authority.vouch("worker", "worker.example"), true);
    let place = terminate(server, mock.address).await;
    let gateway = before(format!("https://{place}"), |settings| {
        let traits = &mut settings.workers[0].traits;
        traits.tls = ClientSettings {
            trust: authority.trust(),
            identity: Some(authority.vouch("gateway", "gateway.example")),
            server_name: Some("worker.example".to_owned()),
        };
        traits.api_key = Some(overdraft_gateway::Token::new("sk-worker"));
        traits.api_key_header = Some("x-api-key".parse().unwrap());
    })
    .await;
    gateway.until_up(1).await;
    let mut client = gateway.stream().await;
    let mut call = in_time(mock.call()).await;
    assert_eq!(call.header("x-api-key"), Some("sk-worker"));
    assert_eq!(call.header("authorization"), None);
    call.stream().await;
    for piece in [token("a"), token("b"), finish("stop"), DONE.to_owned()] {
        call.chunk(&piece).await;
    }
    call.end().await;
    let body = client.rest_after_head().await;
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[tokio::test]
async fn a_worker_that_nobody_vouches_for_is_never_asked() {
    let (mut mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let other = Authority::new();
    let server = authority.server(authority.vouch("worker", "127.0.0.1"), false);
    let place = terminate(server, mock.address).await;
    let cases = [
        // An authority that did not sign it, and a name that is not in it.
        ClientSettings { trust: other.trust(), ..ClientSettings::default() },
        ClientSettings {
            trust: authority.trust(),
            server_name: Some("elsewhere.example".to_owned()),
            ..ClientSettings::default()
        },
    ];
    for tls in cases {
        let gateway = before(format!("https://{place}"), |settings| {
            settings.workers[0].traits.tls = tls;
            settings.probe.interval = SOON;
        })
        .await;
        gateway.until_down().await;
        tokio::time::sleep(SOON * 3).await;
        assert_eq!(gateway.chat("").await.head().await.status, 503, "no worker has said anything");
    }
    assert!(mock.call_now().is_none(), "a request reached a worker that is not trusted");
}

#[tokio::test]
async fn clients_speak_tls_and_plain_requests_are_told_so() {
    let (mut mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(authority.server(authority.vouch("own", "localhost"), false));
    })
    .await;
    let trusting = client_of(authority.trust(), None);
    let mut client = encrypted(&trusting, gateway.address).await.unwrap();
    let up = async { while !client.get("/healthz").await.1.contains("\"workers_up\":1,") {} };
    in_time(up).await;
    client.post(CHAT, &chat("")).await;
    in_time(mock.call()).await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let (head, body) = gateway.client().await.get("/healthz").await;
    assert_eq!(head.status, 400);
    assert!(body.contains("https://"), "{body}");
    let doubting = client_of(Authority::new().trust(), None);
    assert!(encrypted(&doubting, gateway.address).await.is_none());
}

#[tokio::test]
async fn with_authorities_for_clients_only_theirs_are_answered() {
    let (mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let stranger = Authority::new();
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(authority.server(authority.vouch("own", "localhost"), true));
    })
    .await;
    let known = client_of(authority.trust(), Some(authority.vouch("known", "known.example")));
    let mut client = encrypted(&known, gateway.address).await.unwrap();
    assert!(client.get("/livez").await.0.status == 200);
    let unknown = stranger.vouch("unknown", "unknown.example");
    for identity in [None, Some(unknown)] {
        let tls = client_of(authority.trust(), identity);
        // With TLS 1.3 the client learns of it with what it reads first.
        if let Some(mut client) = encrypted(&tls, gateway.address).await {
            client.send("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert!(in_time(client.is_closed()).await, "a stranger was answered");
        }
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_the_next_connection_and_a_broken_one_is_not() {
    let (mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let own = authority.vouch("own", "localhost");
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(authority.server(own.clone(), false));
    })
    .await;
    let tls = client_of(authority.trust(), None);
    assert!(encrypted(&tls, gateway.address).await.is_some());
    std::fs::write(&own.certificate, "no certificate at all").unwrap();
    assert!(encrypted(&tls, gateway.address).await.is_some(), "the one before stays in force");
    // Signed by another authority, so that only who trusts that one is content with it.
    let other = Authority::new();
    let renewed = other.vouch("own", "localhost");
    std::fs::copy(&renewed.key, &own.key).unwrap();
    std::fs::copy(&renewed.certificate, &own.certificate).unwrap();
    let trusting = client_of(other.trust(), None);
    assert!(encrypted(&trusting, gateway.address).await.is_some());
    assert!(encrypted(&tls, gateway.address).await.is_none());
}

#[tokio::test]
async fn who_connects_and_does_not_agree_on_keys_is_cut_off() {
    let (mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(authority.server(authority.vouch("own", "localhost"), false));
        settings.listen.head = SOON;
    })
    .await;
    // Nothing at all; the beginning of a handshake that never goes on; what is none.
    for bytes in [&b""[..], &[22, 3, 1, 2, 0, 1], &[22, 0xff, 0xff, 0xff, 0xff, 0xff]] {
        let mut client = gateway.client().await;
        client.send(bytes).await;
        in_time(client.until_closed()).await;
    }
    let trusting = client_of(authority.trust(), None);
    assert!(encrypted(&trusting, gateway.address).await.is_some(), "others are still served");
}

/// What a gateway with these settings says instead of starting.
async fn refusal(settings: GatewaySettings) -> GatewayError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let run = Box::pin(overdraft_gateway::run(listener, settings, std::future::pending()));
    in_time(run).await.unwrap_err()
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused_with_their_file() {
    let mut settings =
        GatewaySettings::new(vec![WorkerSettings::new("https://127.0.0.1:1".to_owned())]);
    settings.workers[0].traits.tls.trust = Trust::Authorities(PathBuf::from("/nowhere/ca.pem"));
    let refused = refusal(settings.clone()).await;
    let told = refused.to_string();
    assert!(matches!(refused, GatewayError::Tls { .. }), "{told}");
    assert!(told.contains("/nowhere/ca.pem") && told.contains("BEGIN CERTIFICATE"), "{told}");
    settings.workers[0].url = "http://127.0.0.1:1".to_owned();
    let told = refusal(settings).await.to_string();
    assert!(told.contains("expected `https://`"), "{told}");
    let mut file = FileSettings::new("/nowhere/workers");
    file.each.traits.tls.trust = Trust::Authorities(PathBuf::from("/nowhere/ca.pem"));
    let mut settings = GatewaySettings::new(Vec::new());
    settings.discovery = vec![Source::File(file)];
    let told = refusal(settings).await.to_string();
    assert!(told.starts_with("TLS of workers of file /nowhere/workers: "), "{told}");
    assert!(told.contains("/nowhere/ca.pem"), "{told}");
}

#[tokio::test]
async fn a_worker_that_is_found_before_its_authority_joins_once_that_is_there() {
    let (mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let server = authority.server(authority.vouch("worker", "worker.example"), false);
    let place = terminate(server, mock.address).await;
    let (list, next) = (authority.file("workers"), authority.file("next"));
    std::fs::write(&list, "ftp://nowhere\n").unwrap();
    let mut file = FileSettings::new(&list);
    file.interval = SOON;
    file.each.traits.tls.trust = authority.trust();
    file.each.traits.tls.server_name = Some("worker.example".to_owned());
    let gateway = Gateway::start_unready(&[], |settings| {
        settings.discovery = vec![Source::File(file)];
    })
    .await;
    until(&gateway, |list| !list["sources"][0]["error"].is_null()).await;
    // Its settings were good when they were checked.
    let (there, away) = (authority.file("ca.pem"), authority.file("away.pem"));
    std::fs::rename(&there, &away).unwrap();
    std::fs::write(&next, format!("https://{place}\n")).unwrap();
    std::fs::rename(&next, &list).unwrap();
    until(&gateway, |list| list["sources"][0]["error"].is_null()).await;
    tokio::time::sleep(SOON * 3).await;
    let listed = workers(&gateway).await;
    assert!(listed["workers"].as_array().unwrap().is_empty(), "{listed}");
    std::fs::rename(&away, &there).unwrap();
    gateway.until_up(1).await;
}

/// A provider that wants a key and lists models that nobody asked for stands in for a model whose worker is away.
#[tokio::test]
async fn a_provider_behind_tls_stands_in_with_its_own_key_and_one_of_its_models() {
    let mut provider = Mock::start(&["dear-one", "stand-in", "other"]).await;
    let (own, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let server = authority.server(authority.vouch("provider", "api.example"), false);
    let place = terminate(server, provider.address).await;
    let gateway = Gateway::start_unready(&[&own], |settings| {
        let mut external = WorkerSettings::new(format!("https://{place}"));
        external.traits.tls = ClientSettings {
            trust: authority.trust(),
            server_name: Some("api.example".to_owned()),
            ..ClientSettings::default()
        };
        external.traits.api_key = Some(overdraft_gateway::Token::new("sk-provider"));
        external.traits.serves = vec!["stand-in".to_owned()];
        settings.workers.push(external);
        let fallback = vec!["stand-in".to_owned()];
        let model = ModelSettings { fallback, ..ModelSettings::default() };
        settings.routing.models.insert(MODEL.to_owned(), model);
    })
    .await;
    gateway.until_up(2).await;
    let mut client = gateway.client().await;
    let (_, list) = client.get("/v1/models").await;
    assert!(list.contains("stand-in") && !list.contains("dear-one"), "{list}");
    own.stop().await;
    let mut client = gateway.chat("").await;
    let call = in_time(provider.call()).await;
    assert_eq!(call.header("authorization"), Some("Bearer sk-provider"));
    assert!(call.text().contains(r#""model":"stand-in""#), "{}", call.text());
    call.answer(200, ANSWER).await;
    let (head, _) = client.whole().await;
    assert_eq!((head.status, head.header("x-overdraft-served-by")), (200, Some("stand-in")));
    // What it lists beside that is nobody's to ask for.
    let mut client = gateway.client().await;
    client.post(CHAT, r#"{"model":"dear-one","messages":[{"role":"user","content":"hi"}]}"#).await;
    assert_eq!(client.whole().await.0.status, 404);
}

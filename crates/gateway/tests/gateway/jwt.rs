//! Tokens of an issuer whose keys are fetched: accepted, rotated, and what holds while the issuer is down.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use overdraft_gateway::{
    GatewaySettings, JwtAlgorithm, JwtSettings, KeyDigest, KeySetPlace, KeySetSettings,
    KeySettings, WebAddress,
};
use overdraft_telemetry::calendar_time;
use overdraft_tls::{ClientSettings, Trust};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::{ANSWER, CHAT, Gateway, MODEL, NEVER, SOON, chat, in_time};
use crate::keys::bearer;
use crate::mock::Mock;
use crate::tls::{Authority, terminate};

const KEY: &str = "od_acme_0123456789";

/// Somebody who issues tokens, and lists keys at an address.
struct Issuer {
    address: SocketAddr,
    /// Status and body of the next answers.
    said: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Issuer {
    async fn start(status: u16, keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let said = Arc::new(Mutex::new((status, listed(keys))));
        let asked = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::clone(&said), Arc::clone(&asked));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1_024];
                if stream.read(&mut head).await.is_ok_and(|length| length == 0) {
                    continue;
                }
                assert!(head.starts_with(b"GET /keys HTTP/1.1\r\n"));
                count.fetch_add(1, Ordering::SeqCst);
                let (status, body) = answer.lock().unwrap().clone();
                let length = body.len();
                let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
                let _hung_up = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { address, said, asked, tasks }
    }

    fn say(&self, status: u16, keys: &[&Signer]) {
        *self.said.lock().unwrap() = (status, listed(keys));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn until_asked(&self, times: usize) {
        let asked = async {
            while self.asked() < times {
                tokio::task::yield_now().await;
            }
        };
        in_time(asked).await;
    }

    fn place(&self) -> KeySetPlace {
        let url = format!("http://{}/keys", self.address);
        KeySetPlace::Web(WebAddress::parse_trusted(&url).unwrap())
    }
}

/// A key that signs tokens.
struct Signer {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let how = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        Self { id, pair: EcdsaKeyPair::from_pkcs8(how, pair.as_ref(), &random).unwrap() }
    }

    fn listed(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y})
    }

    /// A token that ends so many seconds from now.
    fn token(&self, seconds: i64) -> String {
        let end = calendar_time().as_second() + seconds;
        let header = json!({"alg": "ES256", "kid": self.id, "typ": "at+jwt"}).to_string();
        let claims = json!({"iss": "https://id.example", "aud": "llm", "exp": end, "org": "bolt"});
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", part(&header), part(&claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn header(&self) -> String {
        bearer(&self.token(300))
    }
}

fn listed(keys: &[&Signer]) -> String {
    let keys: Vec<Value> = keys.iter().map(|key| key.listed()).collect();
    json!({ "keys": keys }).to_string()
}

/// Believes tokens by keys at `place`, which are fetched once unless `adjust` says otherwise.
fn believe(
    settings: &mut GatewaySettings,
    place: KeySetPlace,
    adjust: impl FnOnce(&mut KeySetSettings),
) {
    let mut keys = KeySetSettings::new(place);
    (keys.refresh, keys.pause) = (NEVER, NEVER);
    adjust(&mut keys);
    settings.jwt = Some(JwtSettings {
        issuer: "https://id.example".to_owned(),
        audience: "llm".to_owned(),
        keys,
        algorithms: vec![JwtAlgorithm::Rs256, JwtAlgorithm::Es256],
        tenant_claim: "org".to_owned(),
        models_claim: None,
        leeway: Duration::from_mins(1),
        defaults: KeySettings::new(KeyDigest::of(""), ""),
    });
}

/// Status and body of a request with these header lines that no worker sees.
async fn asked(gateway: &Gateway, lines: &str) -> (u16, String) {
    let mut client = gateway.client().await;
    client.send(format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n")).await;
    let (head, body) = client.whole().await;
    (head.status, body)
}

async fn until_served(gateway: &Gateway, lines: &str) {
    let served = async {
        while asked(gateway, lines).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    in_time(served).await;
}

// Faults: 75
#[tokio::test]
async fn tokens_and_keys_are_served_side_by_side_and_no_worker_or_metric_sees_them() {
    let signer = Signer::new("a");
    let (mut mock, issuer) = (Mock::start(&[MODEL]).await, Issuer::start(200, &[&signer]).await);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.keys = vec![KeySettings::new(KeyDigest::of(KEY), "acme")];
        believe(settings, issuer.place(), |_| {});
    })
    .await;
    for lines in [signer.header(), format!("x-api-key: {}\r\n", signer.token(300)), bearer(KEY)] {
        let mut client = gateway.client().await;
        client.post_with(CHAT, &lines, &chat("")).await;
        let call = mock.call().await;
        assert!(!call.head.contains("eyJ") && !call.head.contains("od_"), "{}", call.head);
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    let expired = signer.token(-120);
    let twice = signer.header().repeat(2);
    for (lines, said) in [
        (bearer(&expired), "it expired at"),
        (bearer(&format!("{}A", signer.token(300))), "the token is refused"),
        (bearer("od_nobody"), "API key"),
        (twice, "API key"),
        (String::new(), "API key"),
    ] {
        let (status, body) = asked(&gateway, &lines).await;
        assert_eq!(status, 401, "{lines}");
        assert!(body.contains(said) && body.contains("invalid_api_key"), "{body}");
        assert!(!body.contains("eyJ") && !body.contains("bolt"), "{body}");
    }
    let metrics = gateway.metrics().await;
    let count = "overdraft_tenant_requests_total{tenant=\"bolt\",priority=\"default\"} 2";
    assert!(metrics.contains(count) && !metrics.contains("eyJ"), "{metrics}");
    assert_eq!(issuer.asked(), 1);
}

// Faults: 75
#[tokio::test]
async fn a_token_by_a_new_key_has_the_issuer_asked_and_is_served() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let (mock, issuer) = (Mock::start(&[MODEL]).await, Issuer::start(200, &[&old]).await);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        believe(settings, issuer.place(), |keys| keys.pause = SOON);
    })
    .await;
    assert_eq!(asked(&gateway, &old.header()).await.0, 200);
    issuer.say(200, &[&new]);
    until_served(&gateway, &new.header()).await;
    let (status, body) = asked(&gateway, &old.header()).await;
    assert_eq!(status, 401);
    assert!(body.contains("does not list"), "{body}");
}

#[tokio::test]
async fn tokens_by_unknown_keys_do_not_have_the_issuer_asked_again_and_again() {
    let (known, stranger) = (Signer::new("a"), Signer::new("b"));
    let (mock, issuer) = (Mock::start(&[MODEL]).await, Issuer::start(200, &[&known]).await);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        believe(settings, issuer.place(), |_| {});
    })
    .await;
    assert_eq!(asked(&gateway, &known.header()).await.0, 200);
    for _ in 0..50 {
        assert_eq!(asked(&gateway, &stranger.header()).await.0, 401);
    }
    assert_eq!((issuer.asked(), asked(&gateway, &known.header()).await.0), (1, 200));
}

// Faults: 75
#[tokio::test]
async fn while_the_issuer_is_down_the_last_good_keys_stay_in_force() {
    let signer = Signer::new("a");
    let (mock, mut issuer) = (Mock::start(&[MODEL]).await, Issuer::start(200, &[&signer]).await);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        believe(settings, issuer.place(), |keys| (keys.refresh, keys.pause) = (SOON, SOON));
    })
    .await;
    assert_eq!(asked(&gateway, &signer.header()).await.0, 200);
    issuer.say(500, &[]);
    // The third time comes after what the second brought was taken in.
    issuer.until_asked(issuer.asked() + 3).await;
    assert_eq!(asked(&gateway, &signer.header()).await.0, 200);
    issuer.say(200, &[]);
    issuer.until_asked(issuer.asked() + 3).await;
    assert_eq!(asked(&gateway, &signer.header()).await.0, 200, "a set without keys is none");
    issuer.tasks.shutdown().await;
    assert_eq!(asked(&gateway, &signer.header()).await.0, 200);
}

#[tokio::test]
async fn before_the_issuer_s_keys_are_known_a_token_is_told_to_come_back_and_a_key_is_served() {
    let signer = Signer::new("a");
    let (mock, issuer) = (Mock::start(&[MODEL]).await, Issuer::start(503, &[&signer]).await);
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.keys = vec![KeySettings::new(KeyDigest::of(KEY), "acme")];
        believe(settings, issuer.place(), |keys| keys.pause = SOON);
    })
    .await;
    let (status, body) = asked(&gateway, &signer.header()).await;
    assert_eq!(status, 503);
    assert!(body.contains("keys of its issuer are not known"), "{body}");
    assert_eq!(asked(&gateway, &bearer(KEY)).await.0, 200);
    issuer.say(200, &[&signer]);
    until_served(&gateway, &signer.header()).await;
}

#[tokio::test]
async fn a_file_of_keys_is_watched() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), listed(&[&old])).unwrap();
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let place = KeySetPlace::File(file.path().to_owned());
        believe(settings, place, |keys| (keys.refresh, keys.pause) = (SOON, SOON));
    })
    .await;
    assert_eq!(asked(&gateway, &old.header()).await.0, 200);
    std::fs::write(file.path(), listed(&[&old, &new])).unwrap();
    until_served(&gateway, &new.header()).await;
    assert_eq!(asked(&gateway, &old.header()).await.0, 200);
}

#[tokio::test]
async fn an_issuer_behind_tls_is_believed_by_its_authority_alone() {
    let (signer, authority) = (Signer::new("a"), Authority::new());
    let (mock, issuer) = (Mock::start(&[MODEL]).await, Issuer::start(200, &[&signer]).await);
    let server = authority.server(authority.vouch("issuer", "localhost"), false);
    let place = terminate(server, issuer.address).await;
    let other = Authority::new();
    for (authority, status) in [(&authority, 200), (&other, 503)] {
        let gateway = Gateway::start_with(&[&mock], |settings| {
            let url = format!("https://localhost:{}/keys", place.port());
            let place = KeySetPlace::Web(WebAddress::parse_trusted(&url).unwrap());
            believe(settings, place, |keys| {
                let trust = Trust::Authorities(authority.file("ca.pem"));
                keys.tls = ClientSettings { trust, ..ClientSettings::default() };
            });
        })
        .await;
        assert_eq!(asked(&gateway, &signer.header()).await.0, status);
    }
}

#[test]
fn keys_that_somebody_on_the_way_could_change_are_not_fetched() {
    for url in ["http://id.example/keys", "ftp://localhost/", "https://a@id.example/", "keys"] {
        assert!(WebAddress::parse_trusted(url).is_err(), "{url}");
    }
    for url in ["https://id.example/keys", "http://127.0.0.1:1/", "http://[::1]:1/keys"] {
        assert!(WebAddress::parse_trusted(url).is_ok(), "{url}");
    }
    assert!(WebAddress::parse("https://id.example/metrics").is_err());
}

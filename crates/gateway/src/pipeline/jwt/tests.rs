//! Tokens that are believed, and every confusion that must not be.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::json;
use tokio::time::Instant;

use super::compact::TOKEN_BYTES_MAX;
use super::key_cache::Held;
use super::key_set::{KEY_SET_BYTES_MAX, KEYS_MAX, KeySetError};
use super::*;
use crate::settings::{KeySetPlace, KeySetSettings};

/// Seconds since 1970 at which these tests take place.
const NOW: i64 = 1_800_000_000;

/// An RSA key of 2,048 bits that signs nothing but these tests: PKCS #8, in DER.
const RSA: &[u8] = include_bytes!("tests/rsa-2048.der");

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What signs, and its public side in a key set.
enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn all() -> [(&'static str, Self); 3] {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let p256 =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random);
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap();
        [
            ("RS256", Self::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap())),
            ("ES256", Self::P256(p256.unwrap())),
            ("EdDSA", Self::Ed25519(ed)),
        ]
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(pair) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
                let (n, e) = (base64(&public.n), base64(&public.e));
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": n, "e": e})
            }
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": base64(x), "y": base64(y)})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(pair.public_key().as_ref())})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Self::P256(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        self.signed(&header.to_string(), &claims.to_string())
    }

    fn signed(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", base64(header.as_bytes()), base64(claims.as_bytes()));
        let signature = base64(&self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

fn settings() -> JwtSettings {
    JwtSettings {
        issuer: "https://idp.example".to_owned(),
        audience: "overdraft".to_owned(),
        keys: KeySetSettings::new(KeySetPlace::File("unused".into())),
        algorithms: vec![JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa],
        tenant_claim: "tenant".to_owned(),
        models_claim: Some("models".to_owned()),
        leeway: Duration::from_mins(1),
        defaults: KeySettings::new(KeyDigest::of(""), ""),
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://idp.example",
        "aud": ["other", "overdraft"],
        "exp": NOW + 300,
        "nbf": NOW - 10,
        "tenant": "acme",
    })
}

fn key_set(keys: &[Value]) -> Result<KeySet, KeySetError> {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
}

/// One that has just looked, so that it does not wait for another look.
fn verifier(keys: &[Value]) -> JwtVerifier {
    let verifier = JwtVerifier::new(settings(), None);
    verifier.cache.note(Ok(key_set(keys).unwrap()), Instant::now());
    verifier
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// One key pair of each kind, the verifier that has them in its key set, and tokens by them.
struct World {
    signers: [(&'static str, Signer); 3],
    verifier: JwtVerifier,
}

impl World {
    fn new() -> Self {
        let signers = Signer::all();
        let keys = signers.each_ref().map(|(name, signer)| signer.jwk(name));
        Self { signers, verifier: verifier(&keys) }
    }

    /// A token by the signer at `index`, with other members in its header and other claims; null takes one away.
    fn token(&self, index: usize, header: &[(&str, Value)], more: &[(&str, Value)]) -> String {
        let (name, signer) = &self.signers[index];
        let mut head = json!({"alg": name, "kid": name, "typ": "JWT"});
        for (key, value) in header {
            head[*key] = value.clone();
        }
        let mut claims = claims();
        for (key, value) in more {
            claims[*key] = value.clone();
        }
        head.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        signer.token(&head, &claims)
    }

    #[track_caller]
    fn verify(&self, token: &str) -> Result<KeySettings, JwtRefused> {
        verify_by(&self.verifier, token)
    }

    #[track_caller]
    fn refuses(&self, token: &str, why: JwtRefused) {
        assert_eq!(self.verify(token).err(), Some(why), "{token}");
    }
}

#[track_caller]
fn verify_by(verifier: &JwtVerifier, token: &str) -> Result<KeySettings, JwtRefused> {
    let verifying = pin!(verifier.verify(token.as_bytes(), at(NOW)));
    match verifying.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verified) => verified,
        Poll::Pending => panic!("it waits for keys"),
    }
}

#[test]
fn a_good_token_of_each_algorithm_names_its_tenant_and_models() {
    let world = World::new();
    for index in 0..3 {
        let caller = world.verify(&world.token(index, &[], &[])).unwrap();
        assert_eq!((caller.tenant.as_str(), caller.models), ("acme", None));
    }
    let more = [("models", json!(["llama", "embed"])), ("aud", json!("overdraft"))];
    let caller = world.verify(&world.token(1, &[("typ", json!("at+JWT"))], &more)).unwrap();
    assert_eq!(caller.models.unwrap().into_iter().collect::<Vec<_>>(), ["embed", "llama"]);
    let other = world.verify(&world.token(1, &[], &[("tenant", json!("bolt"))])).unwrap();
    assert_ne!(other.digest, caller.digest, "budgets are kept apart");
    let words = world.verify(&world.token(1, &[], &[("models", json!("llama embed"))])).unwrap();
    assert_eq!(words.models.unwrap().len(), 2);
}

#[test]
fn none_is_no_algorithm() {
    let world = World::new();
    for name in ["none", "None", "NONE", ""] {
        let header = base64(json!({"alg": name, "kid": "RS256"}).to_string().as_bytes());
        let claims = base64(claims().to_string().as_bytes());
        for signature in ["", "AAAA"] {
            world.refuses(&format!("{header}.{claims}.{signature}"), JwtRefused::Algorithm);
        }
    }
}

#[test]
fn a_public_key_is_never_a_secret() {
    let world = World::new();
    let Signer::Rsa(pair) = &world.signers[0].1 else { panic!("the first is RSA") };
    let public = pair.public_key().as_ref();
    let listed = world.signers[0].1.jwk("RS256").to_string();
    for secret in [public, listed.as_bytes(), b""] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let header = base64(json!({"alg": "HS256", "kid": "RS256"}).to_string().as_bytes());
        let message = format!("{header}.{}", base64(claims().to_string().as_bytes()));
        let signature = base64(ring::hmac::sign(&key, message.as_bytes()).as_ref());
        world.refuses(&format!("{message}.{signature}"), JwtRefused::Algorithm);
    }
    // Nor is a secret that a key set lists a key.
    let secret = json!({"kty": "oct", "kid": "a", "alg": "HS256", "k": "c2VjcmV0"});
    assert_eq!(key_set(&[secret]).err(), Some(KeySetError::NoKey));
}

#[test]
fn a_key_verifies_by_its_own_kind_of_algorithm_only() {
    let world = World::new();
    for (index, other) in [(0, "ES256"), (1, "RS256"), (1, "EdDSA"), (2, "ES256")] {
        world.refuses(&world.token(index, &[("alg", json!(other))], &[]), JwtRefused::Algorithm);
    }
    // What the key could do is refused where the configuration does not name it.
    for other in ["RS512", "PS256", "XX256"] {
        world.refuses(&world.token(0, &[("alg", json!(other))], &[]), JwtRefused::Algorithm);
    }
    world.refuses(&world.token(0, &[("alg", Value::Null)], &[]), JwtRefused::Malformed);
    // A key that is listed for another algorithm is for that one alone.
    let mut key = world.signers[0].1.jwk("RS256");
    key["alg"] = json!("PS256");
    let verifier = verifier(&[key]);
    let refused = verify_by(&verifier, &world.token(0, &[], &[])).err();
    assert_eq!(refused, Some(JwtRefused::Algorithm));
}

#[test]
fn a_key_is_found_by_its_id_and_never_taken_from_the_token() {
    let world = World::new();
    world.refuses(&world.token(0, &[("kid", json!("nobody"))], &[]), JwtRefused::UnknownKey);
    // Without an id, the only key for the algorithm is meant.
    assert!(world.verify(&world.token(0, &[("kid", Value::Null)], &[])).is_ok());
    let [_, (_, first), (_, stranger)] = Signer::all();
    let two = verifier(&[first.jwk("a"), world.signers[1].1.jwk("b")]);
    let unnamed = world.token(1, &[("kid", Value::Null)], &[]);
    assert_eq!(verify_by(&two, &unnamed).err(), Some(JwtRefused::UnknownKey));
    // Signed by a stranger who brings his own key along.
    let own = stranger.jwk("EdDSA");
    let headers = [
        json!({"alg": "EdDSA", "kid": "EdDSA"}),
        json!({"alg": "EdDSA", "kid": "EdDSA", "jwk": own, "jku": "https://evil.example"}),
        json!({"alg": "EdDSA", "kid": "EdDSA", "x5u": "https://evil.example", "x5c": ["AA=="]}),
    ];
    for header in headers {
        world.refuses(&stranger.token(&header, &claims()), JwtRefused::Signature);
    }
}

#[test]
fn what_a_header_says_twice_or_as_critical_is_refused() {
    let world = World::new();
    for (name, value) in [
        ("crit", json!(["b64"])),
        ("crit", json!([])),
        ("cty", json!("JWT")),
        ("typ", json!("logout+jwt")),
        ("typ", json!("JWE")),
    ] {
        world.refuses(&world.token(0, &[(name, value)], &[]), JwtRefused::Kind);
    }
    let (_, signer) = &world.signers[1];
    for header in [
        r#"{"alg":"ES256","alg":"none","kid":"ES256"}"#,
        r#"{"alg":"none","alg":"ES256","kid":"ES256"}"#,
        r#"{"alg":"ES256","kid":"a","kid":"ES256"}"#,
    ] {
        let token = signer.signed(header, &claims().to_string());
        world.refuses(&token, JwtRefused::Malformed);
    }
    let twice = format!(r#"{{"exp":1,{}"#, &claims().to_string()[1..]);
    let header = json!({"alg": "ES256", "kid": "ES256"}).to_string();
    world.refuses(&signer.signed(&header, &twice), JwtRefused::Malformed);
}

#[test]
fn an_empty_or_changed_signature_does_not_hold() {
    let world = World::new();
    for index in 0..3 {
        let token = world.token(index, &[], &[]);
        let (message, signature) = token.rsplit_once('.').unwrap();
        world.refuses(&format!("{message}."), JwtRefused::Signature);
        let zeros = base64(&vec![0; URL_SAFE_NO_PAD.decode(signature).unwrap().len()]);
        world.refuses(&format!("{message}.{zeros}"), JwtRefused::Signature);
        let (header, _) = message.split_once('.').unwrap();
        let mut more = claims();
        more["tenant"] = json!("bolt");
        let changed = base64(more.to_string().as_bytes());
        world.refuses(&format!("{header}.{changed}.{signature}"), JwtRefused::Signature);
    }
}

#[test]
fn another_issuer_or_audience_is_refused_and_so_is_none() {
    let world = World::new();
    for (claim, value, why) in [
        ("iss", json!("https://idp.example/"), JwtRefused::Issuer),
        ("iss", Value::Null, JwtRefused::Missing("iss")),
        ("iss", json!(["https://idp.example", "https://evil.example"]), JwtRefused::Malformed),
        ("aud", json!("someone"), JwtRefused::Audience),
        ("aud", json!(["someone", "else"]), JwtRefused::Audience),
        ("aud", json!([]), JwtRefused::Audience),
        ("aud", Value::Null, JwtRefused::Missing("aud")),
        ("aud", json!({"overdraft": 1}), JwtRefused::Malformed),
    ] {
        world.refuses(&world.token(1, &[], &[(claim, value)]), why);
    }
}

#[test]
fn a_token_is_good_from_its_beginning_to_its_end_give_or_take_the_leeway() {
    let world = World::new();
    let verify =
        |claim: &str, second: Value| world.verify(&world.token(2, &[], &[(claim, second)]));
    assert!(verify("exp", json!(NOW - 59)).is_ok() && verify("nbf", json!(NOW + 60)).is_ok());
    let refused = verify("exp", json!(NOW - 60)).err();
    assert_eq!(refused, Some(JwtRefused::Expired(at(NOW - 60))));
    let refused = verify("nbf", json!(NOW + 61)).err();
    assert_eq!(refused, Some(JwtRefused::TooEarly(at(NOW + 61))));
    // Without an end it is none, and what is no time is none.
    assert_eq!(verify("exp", Value::Null).err(), Some(JwtRefused::Missing("exp")));
    for value in [json!("soon"), json!("1900000000"), json!(1e300), json!({}), json!(true)] {
        assert_eq!(verify("exp", value.clone()).err(), Some(JwtRefused::Malformed), "{value}");
        assert_eq!(verify("nbf", value.clone()).err(), Some(JwtRefused::Malformed), "{value}");
    }
}

#[test]
fn a_tenant_must_be_named_and_be_one() {
    let world = World::new();
    let long = "x".repeat(TENANT_CHARACTERS_MAX + 1);
    for value in [
        Value::Null,
        json!(""),
        json!(" "),
        json!(7),
        json!("é"),
        json!("a\nb"),
        json!(long),
        json!("anonymous"),
        json!("other"),
    ] {
        world.refuses(&world.token(1, &[], &[("tenant", value)]), JwtRefused::NoTenant);
    }
    world.refuses(&world.token(1, &[], &[("models", json!(7))]), JwtRefused::Malformed);
}

#[test]
fn what_is_no_token_is_malformed_however_long() {
    let world = World::new();
    let good = world.token(1, &[], &[]);
    let padded = format!("{good}=");
    for text in ["", ".", "..", "ey.ey.ey", "eyJhbGciOiJSUzI1NiJ9", "a.b.c.d", &padded] {
        world.refuses(text, JwtRefused::Malformed);
    }
    let long = world.token(1, &[], &[("more", json!("x".repeat(TOKEN_BYTES_MAX)))]);
    world.refuses(&long, JwtRefused::Malformed);
    assert!(is_token(good.as_bytes()) && !is_token(b"od_abc") && !is_token(b"sk-ey.a.b"));
}

#[test]
fn keys_that_are_gone_believe_nobody_and_new_ones_do() {
    let world = World::new();
    let token = world.token(0, &[], &[]);
    let [_, (_, newer), _] = Signer::all();
    let keys = [newer.jwk("new"), json!({"kty": "RSA", "use": "enc"}), json!("odd")];
    world.verifier.cache.note(Ok(key_set(&keys).unwrap()), Instant::now());
    world.refuses(&token, JwtRefused::UnknownKey);
    let header = json!({"alg": "ES256", "kid": "new"});
    assert!(world.verify(&newer.token(&header, &claims())).is_ok());
    // A look that fails leaves them in force.
    world.verifier.cache.note(Err(KeySetError::Form.into()), Instant::now());
    assert!(world.verify(&newer.token(&header, &claims())).is_ok());
}

#[test]
fn other_settings_go_by_the_same_keys_only_where_the_issuer_is_the_same() {
    let world = World::new();
    let mut next = settings();
    next.leeway = Duration::ZERO;
    let same = JwtVerifier::new(next.clone(), Some(&world.verifier));
    assert!(verify_by(&same, &world.token(0, &[], &[])).is_ok());
    next.issuer = "https://idp.other".to_owned();
    let other = JwtVerifier::new(next, Some(&world.verifier));
    assert_eq!(other.cache.keys().err(), Some(JwtRefused::NoKeys));
}

#[test]
fn the_issuer_is_asked_at_most_once_in_a_pause_and_believed_for_no_longer_than_said() {
    let settings = KeySetSettings {
        refresh: Duration::from_mins(5),
        pause: Duration::from_secs(10),
        age_max: Duration::from_secs(1_000),
        ..KeySetSettings::new(KeySetPlace::File("unused".into()))
    };
    let begun = Instant::now();
    let after = |seconds| begun + Duration::from_secs(seconds);
    let never = Held::default();
    assert!(never.due(&settings).is_none() && never.may_look(&settings, begun));
    assert!(!never.is_believed(&settings, begun));
    let good = Held { good: Some(begun), last: Some(begun), ..Held::default() };
    assert_eq!(good.due(&settings), Some(after(300)));
    assert!(!good.may_look(&settings, after(9)) && good.may_look(&settings, after(10)));
    let failed = Held { last: Some(after(300)), ..good.clone() };
    assert_eq!(failed.due(&settings), Some(after(310)));
    assert!(!failed.may_look(&settings, after(309)) && failed.may_look(&settings, after(310)));
    assert!(failed.is_believed(&settings, after(1_000)));
    assert!(!failed.is_believed(&settings, after(1_001)));
}

#[test]
fn a_key_set_has_a_form_and_bounds() {
    let parse = |text: &str| KeySet::parse(text.as_bytes()).err();
    assert_eq!(parse("{}"), Some(KeySetError::Form));
    assert_eq!(parse("[]"), Some(KeySetError::Form));
    assert_eq!(parse(r#"{"keys":[]}"#), Some(KeySetError::NoKey));
    assert_eq!(key_set(&vec![json!({}); KEYS_MAX + 1]).err(), Some(KeySetError::TooLarge));
    assert_eq!(parse(&" ".repeat(KEY_SET_BYTES_MAX + 1)), Some(KeySetError::TooLarge));
}

#[test]
fn keys_that_are_too_short_or_for_something_else_are_left_out() {
    let [(_, rsa), (_, point), _] = Signer::all();
    let with = |mut key: Value, name: &str, value: Value| {
        key[name] = value;
        key
    };
    let mut short = vec![0; 128];
    short.extend([0xff; 128]);
    for key in [
        with(rsa.jwk("a"), "n", json!(base64(&short))),
        with(rsa.jwk("a"), "n", json!(base64(&[0xff; 1_025]))),
        with(rsa.jwk("a"), "use", json!("enc")),
        with(rsa.jwk("a"), "key_ops", json!(["encrypt"])),
        with(rsa.jwk("a"), "kty", json!("EC")),
        with(point.jwk("a"), "crv", json!("P-521")),
        with(point.jwk("a"), "x", json!(base64(&[1; 31]))),
        with(point.jwk("a"), "kty", json!("RSA")),
    ] {
        assert_eq!(key_set(std::slice::from_ref(&key)).err(), Some(KeySetError::NoKey), "{key}");
    }
    let both = [with(rsa.jwk("a"), "key_ops", json!(["verify"])), point.jwk("a")];
    assert_eq!(key_set(&both).unwrap().len(), 2);
}

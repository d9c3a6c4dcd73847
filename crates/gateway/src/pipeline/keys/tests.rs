//! Who is known by which header, how urgent a request gets, and what a budget lets through.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use http::HeaderValue;
use overdraft_store::Revocation;
use overdraft_units::{Instant, Micros};
use overdraft_wire::RequestPeek;
use proptest::prelude::*;

use super::*;
use crate::settings::{ModelSettings, RoutingSettings};

const SECRET: &str = "sk-acme-0123456789";

/// When all of these tests take place.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Nothing is revoked.
fn none() -> Revocations {
    Revocations::default()
}

fn keyring() -> Keyring {
    let mut flex = KeySettings::new(KeyDigest::of("sk-flex"), "batch");
    (flex.priority, flex.priority_max) = (Priority::Flex, Priority::Default);
    Keyring::new(&[KeySettings::new(KeyDigest::of(SECRET), "acme"), flex], Door::default())
}

fn head(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut head = HeaderMap::new();
    for (name, value) in lines {
        head.append(*name, HeaderValue::from_str(value).unwrap());
    }
    head
}

/// The tenant's name, or `-` for a request that is not let in.
#[track_caller]
fn check(lines: &[(&'static str, &str)], tenant: &str) {
    let identified = keyring().identify(&head(lines), &none(), NOW);
    let label = identified.as_ref().map_or("-", Caller::label);
    assert_eq!(label, tenant, "{lines:?}");
    if let Err(refused) = identified {
        let error = ApiError::from(refused);
        assert_eq!((error.status(), error.kind.code()), (401, Some("invalid_api_key")));
        assert!(!error.message.contains("sk-"), "{error}");
    }
}

#[test]
fn a_key_is_known_by_every_header_that_may_present_it() {
    check(&[("authorization", "Bearer sk-acme-0123456789")], "acme");
    check(&[("authorization", "bearer  sk-acme-0123456789 ")], "acme");
    check(&[("x-api-key", SECRET)], "acme");
    check(&[("api-key", SECRET)], "acme");
    check(&[("authorization", "Bearer dummy"), ("api-key", SECRET)], "acme");
    check(&[("authorization", "Basic abc"), ("x-api-key", "sk-flex")], "batch");
}

#[test]
fn what_is_no_key_is_let_in_nowhere() {
    check(&[], "-");
    check(&[("authorization", "Bearer ")], "-");
    check(&[("authorization", SECRET)], "-");
    check(&[("authorization", "Bearer sk-acme-012345678")], "-");
    check(&[("authorization", "Bearer sk-acme-01234567890")], "-");
    check(&[("authorization", "Bearer SK-ACME-0123456789")], "-");
    // The hash of a key is no key.
    let mut hash = String::new();
    for byte in Sha256::digest(SECRET) {
        write!(hash, "{byte:02x}").unwrap();
    }
    check(&[("authorization", &format!("Bearer {hash}"))], "-");
    // Two of one header: nobody can say which counts.
    check(&[("x-api-key", SECRET), ("x-api-key", "sk-flex")], "-");
}

#[test]
fn a_key_is_refused_from_the_second_on_at_which_it_expires() {
    let end: Timestamp = "2027-01-31T00:00:00Z".parse().unwrap();
    let mut ending = KeySettings::new(KeyDigest::of(SECRET), "acme");
    ending.expires = Some(end);
    let new = KeySettings::new(KeyDigest::of("sk-new"), "acme");
    let keyring = Keyring::new(&[ending, new], Door::default());
    let asked = |lines: &[(&'static str, &str)], now| keyring.identify(&head(lines), &none(), now);
    let old = [("x-api-key", SECRET)];
    let second = jiff::SignedDuration::from_secs(1);
    assert!(asked(&old, end - second).is_ok());
    assert_eq!(asked(&old, end).err(), Some(KeyRefused::Expired(end)));
    assert_eq!(asked(&old, Timestamp::MAX).err(), Some(KeyRefused::Expired(end)));
    // Another one beside it is looked at as well, in whatever order they come.
    assert!(asked(&[("x-api-key", SECRET), ("api-key", "sk-new")], end).is_ok());
    assert!(asked(&[("authorization", "Bearer sk-new"), ("api-key", SECRET)], end).is_ok());
    let nobody = asked(&[("x-api-key", SECRET), ("api-key", "sk-nobody")], end);
    assert_eq!(nobody.err(), Some(KeyRefused::Expired(end)));
    let error = ApiError::from(KeyRefused::Expired(end));
    assert_eq!((error.status(), error.kind.code()), (401, Some("invalid_api_key")));
    assert_eq!(
        error.message,
        "the API key expired at `2027-01-31T00:00:00Z`; send one that is in force"
    );
}

#[test]
fn a_revoked_key_is_refused_and_another_beside_it_is_not() {
    let revocations = Revocations::default();
    let digest = *KeyDigest::of(SECRET).bytes();
    revocations.learn(&[Revocation { digest, until: 1 }], 0);
    let asked = |lines: &[(&'static str, &str)]| {
        keyring().identify(&head(lines), &revocations, NOW).map(|caller| caller.label().to_owned())
    };
    assert_eq!(asked(&[("x-api-key", SECRET)]).err(), Some(KeyRefused::Revoked));
    assert_eq!(asked(&[("x-api-key", SECRET), ("api-key", "sk-flex")]).as_deref(), Ok("batch"));
    let error = ApiError::from(KeyRefused::Revoked);
    assert_eq!((error.status(), error.kind.code()), (401, Some("invalid_api_key")));
}

#[test]
fn a_closed_door_stays_closed_when_the_last_key_is_gone() {
    let closed = Keyring::new(&[], Door::Closed);
    for lines in [&[][..], &[("authorization", "Bearer a")], &[("x-api-key", SECRET)]] {
        assert_eq!(closed.identify(&head(lines), &none(), NOW).err(), Some(KeyRefused::Unknown));
    }
}

#[test]
fn without_keys_equal_tokens_are_one_tenant() {
    let open = Keyring::new(&[], Door::default());
    let tenant =
        |lines: &[(&'static str, &str)]| open.identify(&head(lines), &none(), NOW).unwrap().tenant;
    let one = tenant(&[("authorization", "Bearer a")]);
    assert_eq!(one, tenant(&[("authorization", "Bearer a")]));
    assert_ne!(one, tenant(&[("authorization", "Bearer b")]));
    assert_eq!(tenant(&[]), Tenant::default());
}

#[test]
fn a_digest_reads_as_it_is_printed_and_shows_nothing() {
    let digest = KeyDigest::of("abc");
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(KeyDigest::from_hex(hex), Some(digest));
    assert_eq!(KeyDigest::from_hex(&hex.to_uppercase()), Some(digest));
    let signed = hex.replace("ba", "+a");
    for wrong in ["", "ba78", &hex[1..], &format!("{hex}0"), &hex.replace("ba", "xx"), &signed, "é"]
    {
        assert_eq!(KeyDigest::from_hex(wrong), None, "{wrong}");
    }
    let shown = format!("{:?}", KeySettings::new(digest, "acme"));
    assert!(!shown.contains("ba78") && shown.contains("acme"), "{shown}");
}

/// What a request gets that asks by header and by tier.
#[track_caller]
fn urgent(key: &str, header: Option<&str>, tier: Option<&str>) -> Result<Priority, String> {
    let mut lines = head(&[("x-api-key", key)]);
    if let Some(value) = header {
        lines.insert(URGENCY, HeaderValue::from_str(value).unwrap());
    }
    let tier = tier.map_or("null".to_owned(), |tier| format!("\"{tier}\""));
    let body = format!(r#"{{"model":"m","service_tier":{tier}}}"#);
    let caller = keyring().identify(&lines, &none(), NOW).unwrap();
    let peek = RequestPeek::parse(body.as_bytes()).unwrap();
    urgency(&caller, &lines, &peek).map_err(|error| {
        assert_eq!(error.status(), 400);
        error.message
    })
}

#[test]
fn the_header_comes_first_then_the_tier_then_the_key() {
    let (flex, default, priority) = (Priority::Flex, Priority::Default, Priority::Priority);
    assert_eq!(urgent(SECRET, None, None), Ok(default));
    assert_eq!(urgent(SECRET, None, Some("auto")), Ok(default));
    assert_eq!(urgent(SECRET, None, Some("flex")), Ok(flex));
    assert_eq!(urgent(SECRET, Some("priority"), Some("flex")), Ok(priority));
    assert_eq!(urgent("sk-flex", None, None), Ok(flex));
    assert_eq!(urgent("sk-flex", None, Some("auto")), Ok(flex));
    // Clamped, not refused.
    assert_eq!(urgent("sk-flex", None, Some("priority")), Ok(default));
    assert_eq!(urgent("sk-flex", Some("priority"), None), Ok(default));
}

#[test]
fn a_pattern_that_a_key_lists_stands_for_the_names_of_its_model() {
    let own = |aliases: [&str; 2]| ModelSettings {
        aliases: aliases.map(str::to_owned).into(),
        ..ModelSettings::default()
    };
    let models = [
        ("m".to_owned(), own(["claude-*", "gpt-4o"])),
        ("n".to_owned(), own(["claude-3-*", "chat"])),
    ];
    let settings = RoutingSettings { models: models.into(), ..RoutingSettings::default() };
    let routes = Routes::new(settings, &BTreeMap::new());
    let may_ask = |listed: &str, named: &str| {
        let mut key = KeySettings::new(KeyDigest::of(SECRET), "acme");
        key.models = Some(BTreeSet::from([listed.to_owned()]));
        let keyring = Keyring::new(&[key], Door::default());
        let caller = keyring.identify(&head(&[("x-api-key", SECRET)]), &none(), NOW).unwrap();
        caller.may_ask(&routes, named)
    };
    assert!(may_ask("claude-*", "claude-opus") && may_ask("claude-3-*", "claude-3-opus"));
    // The longer pattern means another model.
    assert!(!may_ask("claude-*", "claude-3-opus") && !may_ask("claude-3-*", "claude-opus"));
    for named in ["claude", "gpt-4o", "chat", "m", "n", "zzz"] {
        assert!(!may_ask("claude-*", named), "{named}");
    }
    // What is no alias stands for nothing.
    assert!(!may_ask("gpt-*", "gpt-4o") && !may_ask("*", "gpt-4o"));
}

#[test]
fn a_priority_that_does_not_exist_is_refused_by_name() {
    let tier = urgent(SECRET, None, Some("turbo")).unwrap_err();
    let expected = "`turbo` is not a `service_tier`; expected `auto`, `default`, `flex` or \
                    `priority`";
    assert_eq!(tier, expected);
    let header = urgent(SECRET, Some("High"), None).unwrap_err();
    let expected = "`High` is not a `x-overdraft-priority`; expected `flex`, `default` or \
                    `priority`";
    assert_eq!(header, expected);
    assert!(urgent(SECRET, Some(&"x".repeat(200)), None).unwrap_err().len() < 200);
}

fn budget(requests: u32, tokens: u32) -> Budget {
    Budget {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU32::new(tokens),
    }
}

fn at(seconds: u64) -> Instant {
    Instant::default() + Micros::new(seconds * 1_000_000)
}

#[test]
fn requests_beyond_a_minute_s_worth_wait_for_the_next() {
    let (budgets, budget) = (Budgets::default(), budget(3, 0));
    for _ in 0..3 {
        assert_eq!(budgets.try_spend(1, budget, need(9), at(100)), Ok(()));
    }
    let wait = RetryAfter::Requests(Micros::new(20_000_000));
    assert_eq!(budgets.try_spend(1, budget, need(9), at(100)), Err(wait));
    // Another key has its own.
    assert_eq!(budgets.try_spend(2, budget, need(9), at(100)), Ok(()));
    assert_eq!(budgets.try_spend(1, budget, need(9), at(120)), Ok(()));
    let standing = budgets.standing(1, budget, at(130)).requests.unwrap();
    let reset = Micros::new(50_000_000);
    assert_eq!(standing, Level { limit: 3, remaining: 0, reset });
}

fn need(tokens: u32) -> Need {
    Need { requests: 1, tokens, extent: Extent::Limited }
}

#[test]
fn tokens_are_settled_by_what_was_needed() {
    let (budgets, budget) = (Budgets::default(), budget(0, 600));
    assert_eq!(budgets.try_spend(1, budget, need(600), at(100)), Ok(()));
    let wait = RetryAfter::Tokens(Micros::new(1_000_000));
    assert_eq!(budgets.try_spend(1, budget, need(10), at(100)), Err(wait));
    budgets.settle(1, budget, need(600), 100, at(100));
    assert_eq!(budgets.standing(1, budget, at(100)).tokens.unwrap().remaining, 500);
    // It took more: the debt is paid off before anything else, in full.
    budgets.settle(1, budget, need(600), 3_100, at(100));
    let wait = RetryAfter::Tokens(Micros::new(201_000_000));
    assert_eq!(budgets.try_spend(1, budget, need(10), at(100)), Err(wait));
    assert_eq!(budgets.try_spend(1, budget, need(10), at(301)), Ok(()));
    // What no worker can have meant is bounded to an hour's worth.
    budgets.settle(1, budget, need(10), u64::MAX, at(301));
    let wait = RetryAfter::Tokens(Micros::new(59 * 60_000_000 + 1_000_000));
    assert_eq!(budgets.try_spend(1, budget, need(10), at(301)), Err(wait));
    let budgets = Budgets::default();
    assert_eq!(budgets.try_spend(1, budget, need(601), at(1_000)), Err(RetryAfter::Never));
}

#[test]
fn a_charge_takes_back_what_was_not_used() {
    let local: Arc<Budgets> = Arc::default();
    let key = (7, budget(9, 1_000));
    let left = |bill: Bill| {
        let charge = Charge::new(&local, key.0, key.1, 100, need(400), at(0)).unwrap();
        charge.settle(bill, at(0));
        let standing = local.standing(key.0, key.1, at(0));
        (standing.requests.unwrap().remaining, standing.tokens.unwrap().remaining)
    };
    assert_eq!(left(Bill::Nothing), (8, 1_000));
    assert_eq!(left(Bill::Counted(150)), (7, 850));
    assert_eq!(left(Bill::Streamed(20)), (6, 730));
    assert_eq!(left(Bill::AsExpected), (5, 330));
}

#[test]
fn without_keys_a_token_is_a_tenant_in_whatever_header_it_comes() {
    let keyring = Keyring::new(&[], Door::default());
    let realm = |name: &'static str, value: &'static str| {
        let mut head = HeaderMap::new();
        head.insert(name, HeaderValue::from_static(value));
        let caller = keyring.identify(&head, &none(), NOW).unwrap();
        assert!(!caller.is_nobody());
        caller.realm()
    };
    let a = realm("authorization", "Bearer a");
    assert_eq!(realm("x-api-key", "a"), a);
    assert_eq!(realm("api-key", "a"), a);
    assert_ne!(realm("x-api-key", "b"), a);
}

#[test]
fn bodies_are_a_tenant_s_by_its_key_and_else_their_address_s() {
    let owner = |keyring: &Keyring, lines: &[(&'static str, &str)], last: u8| {
        let caller = keyring.identify(&head(lines), &none(), NOW).unwrap();
        caller.body_owner(IpAddr::from([10, 0, 0, last]))
    };
    let keyring = keyring();
    let acme = BodyOwner::Tenant(realm_of_tenant("acme"));
    assert_eq!(owner(&keyring, &[("x-api-key", SECRET)], 1), acme);
    assert_eq!(owner(&keyring, &[("api-key", SECRET)], 2), acme);
    assert_ne!(owner(&keyring, &[("x-api-key", "sk-flex")], 1), acme);
    let open = Keyring::new(&[], Door::default());
    let address = BodyOwner::Peer(IpAddr::from([10, 0, 0, 1]));
    assert_eq!(owner(&open, &[("x-api-key", SECRET)], 1), address);
    assert_eq!(owner(&open, &[("x-api-key", "another")], 1), address);
    assert_ne!(owner(&open, &[], 2), address);
}

proptest! {
    /// Whatever is asked and settled when, nobody spends more than two minutes' worth in one.
    #[test]
    fn a_budget_is_never_overspent(
        limit in 1_u32..1_000,
        asks in proptest::collection::vec((0_u32..500, 0_u64..3_000_000), 1..200),
    ) {
        let (budgets, budget) = (Budgets::default(), budget(0, limit));
        let (mut spent, mut now) = (0_u64, Instant::default());
        let begun = now;
        for (tokens, pause) in asks {
            now = now + Micros::new(pause);
            match budgets.try_spend(1, budget, need(tokens), now) {
                Ok(()) => spent += u64::from(tokens),
                Err(RetryAfter::Tokens(wait)) => {
                    let patient = now + wait;
                    // What it says is true, to the microsecond.
                    let standing = budgets.standing(1, budget, patient).tokens.unwrap();
                    prop_assert!(tokens <= standing.remaining);
                }
                Err(other) => prop_assert!(limit < tokens, "{other:?}"),
            }
            let brought = u64::from(limit) * now.since(begun).get() / 60_000_000;
            prop_assert!(spent <= u64::from(limit) + brought + 1);
        }
    }
}

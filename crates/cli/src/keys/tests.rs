//! What keys look like, when they end, and which one is meant.

use jiff::Timestamp;
use overdraft_config::Key;

use super::{life, list, new, revoke, secret};

#[test]
fn a_key_has_256_bits_and_a_checksum_that_sees_every_slip() {
    let none = secret::text(&[0; 32]);
    // zlib.crc32(b"0" * 43) in base 62.
    assert_eq!(none, format!("od_{}2CZclj", "0".repeat(43)));
    let most = secret::text(&[255; 32]);
    assert_eq!(most, "od_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp13sRzl1");
    let (one, other) = (secret::draw().unwrap(), secret::draw().unwrap());
    assert!(one != other && secret::is_key(&one) && secret::is_key(&other), "{one} {other}");
    for at in 3..one.len() {
        let mut slip = one.clone().into_bytes();
        slip[at] = if slip[at] == b'x' { b'y' } else { b'x' };
        assert!(!secret::is_key(&String::from_utf8(slip).unwrap()), "digit {at}");
        assert!(!secret::is_key(&one[..at]), "the first {at}");
    }
    assert!(!secret::is_key("") && !secret::is_key("od_") && !secret::is_key("od_é"));
}

#[test]
fn an_end_is_a_span_from_now_or_a_point_in_time() {
    let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
    let end = |text: &str| life::end(text, now).map(|end| end.to_string());
    assert_eq!(end("90d").as_deref(), Ok("2027-02-24T12:00:00Z"));
    assert_eq!(end("12h").as_deref(), Ok("2026-11-27T00:00:00Z"));
    assert_eq!(end("2w").as_deref(), Ok("2026-12-10T12:00:00Z"));
    assert_eq!(end("2027-01-31T00:00:00+01:00").as_deref(), Ok("2027-01-30T23:00:00Z"));
    for (text, part) in [
        ("2026-11-26T12:00:00Z", "is over"),
        ("0d", "is over"),
        ("5000d", "too far"),
        ("2100-01-01T00:00:00Z", "too far"),
        ("90", "expected how long"),
        ("-1d", "expected how long"),
        ("soon", "expected how long"),
        ("2027-01-31", "expected how long"),
        ("99999999999d", "expected how long"),
    ] {
        let said = end(text).unwrap_err();
        assert!(said.contains(part) && said.contains(text), "{text}: {said}");
    }
}

#[test]
fn blanks_beside_the_commas_are_no_part_of_a_model() {
    assert_eq!(new::model(" embed").as_deref(), Ok("embed"));
    assert_eq!(new::model("a b ").as_deref(), Ok("a b"));
    assert!(new::model(" ").unwrap_err().contains("no model stands between the commas"));
}

fn keys() -> Vec<Key> {
    let key = |first: &str, tenant: &str, name: Option<&str>| {
        let mut key = Key::hashed(format!("{first:0<64}"), tenant);
        key.name = name.map(str::to_owned);
        key
    };
    vec![
        key("c0ffee12", "acme", Some("ci")),
        key("c0ffee34", "acme", None),
        key("beef", "bolt", Some("ci")),
        key("abba", "bolt", Some("beef")),
    ]
}

#[test]
fn a_key_is_named_by_name_by_hash_or_by_itself() {
    let mut keys = keys();
    let drawn = secret::draw().unwrap();
    keys.push(Key::hashed(overdraft_gateway::KeyDigest::of(&drawn).to_hex(), "acme"));
    let find = |which: &str| revoke::find(&keys, which).map_err(|fault| format!("{fault:?}"));
    assert_eq!(find("c0ffee1"), Ok(0));
    assert_eq!(find("C0FFEE3"), Ok(1));
    assert_eq!(find("abba"), Ok(3));
    assert_eq!(find(&drawn), Ok(4));
    let several = find("ci").unwrap_err();
    for part in ["means 2 keys", "c0ffee120000 of `acme` (ci)", "beef00000000 of `bolt` (ci)"] {
        assert!(several.contains(part), "`{part}` is not in: {several}");
    }
    assert!(find("c0ff").unwrap_err().contains("means 2 keys"));
    assert!(find("beef").unwrap_err().contains("means 2 keys"), "a name and a hash");
    for which in ["c0f", "", "acme", "c0ffee99"] {
        assert!(find(which).unwrap_err().contains("no key is"), "{which}");
    }
    let cut = find(&drawn[..40]).unwrap_err();
    assert!(cut.contains("no key is `that key`") && !cut.contains(&drawn[..10]), "{cut}");
}

#[test]
fn a_list_has_no_key_and_says_what_is_over() {
    let mut keys = keys();
    keys[0].expires = Some("2026-01-01T00:00:00Z".parse().unwrap());
    keys[2].models = Some(vec!["llama".to_owned(), "embed".to_owned()]);
    keys.truncate(3);
    let table = list::table(&keys, "2026-06-01T00:00:00Z".parse().unwrap());
    let expected = "\
HASH          TENANT  NAME  EXPIRES                         MODELS
c0ffee120000  acme    ci    2026-01-01T00:00:00Z (expired)  all
c0ffee340000  acme    -     never                           all
beef00000000  bolt    ci    never                           llama,embed
";
    assert_eq!(table, expected);
}

//! The scanner agrees with a JSON parser on any text; a patch keeps every other byte.

use overdraft_wire::{Object, Patch, RequestPeek};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// JSON-like text: mostly valid, sometimes with a piece missing, doubled or foreign.
fn nearly_json() -> impl Strategy<Value = String> {
    (object(), any::<prop::sample::Index>(), 0..8_u8, "[\\[\\]{},:\"\\\\a0. \n-]").prop_map(
        |(text, index, edit, foreign)| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = index.index(chars.len());
            match edit {
                0 => drop(chars.remove(at)),
                1 => chars.insert(at, chars[at]),
                2 => chars.insert(at, foreign.chars().next().expect("one character")),
                _ => {}
            }
            chars.into_iter().collect()
        },
    )
}

/// The text of an object in a free layout.
fn object() -> impl Strategy<Value = String> {
    members().prop_map(|members| format!("{{{}}}", members.join(",")))
}

fn members() -> impl Strategy<Value = Vec<String>> {
    let member = (space(), string(), space(), value(), space())
        .prop_map(|(a, key, b, value, c)| format!("{a}{key}{b}:{value}{c}"));
    prop::collection::vec(member, 0..6)
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n\t", "\r\n "])
}

/// Keys repeat often, escaped and not.
fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![r#""model""#, r#""mod\u0065l""#, r#""x""#, r#""stream""#])
            .prop_map(str::to_owned),
        "\\PC{0,70}".prop_map(|text| serde_json::to_string(&text).expect("a string")),
        r#"(\\n|\\"|\\\\|\\/|\\u00e9|[a-zé😀]){0,40}"#.prop_map(|text| format!("\"{text}\"")),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        string(),
        prop::sample::select(vec!["null", "true", "false", "0", "-1.50", "1E+2", "12345678901234"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec((space(), inner.clone()), 0..5).prop_map(|items| {
                let items: Vec<_> = items.into_iter().map(|(s, v)| format!("{s}{v}{s}")).collect();
                format!("[{}]", items.join(","))
            }),
            prop::collection::vec((string(), space(), inner), 0..5).prop_map(|items| {
                let items: Vec<_> =
                    items.into_iter().map(|(k, s, v)| format!("{s}{k}{s}:{s}{v}")).collect();
                format!("{{{}}}", items.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn the_scanner_accepts_what_the_parser_accepts(text in nearly_json()) {
        let oracle = text.trim_start().starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(Object::parse(text.as_bytes()).is_ok(), oracle, "{}", text);
    }

    #[test]
    fn a_line_end_anywhere_changes_how_text_is_scanned_and_not_what_is_found(text in object()) {
        let locate = |text: &str| -> Vec<(String, String)> {
            let object = Object::parse(text.as_bytes()).expect("it is an object");
            let members = object.members().iter();
            members.map(|one| (one.key().into_owned(), one.value().to_owned())).collect()
        };
        prop_assert_eq!(locate(&text), locate(&format!("{text}\n")));
    }

    #[test]
    fn any_bytes_are_scanned_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Object::parse(&bytes);
        let _ = RequestPeek::parse(&bytes);
    }

    #[test]
    fn the_scanner_finds_what_the_parser_finds(text in object()) {
        let object = Object::parse(text.as_bytes()).expect("it is an object");
        let tree: std::collections::BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(&text).expect("it is an object");
        for (key, raw) in &tree {
            prop_assert_eq!(object.raw(key), Some(raw.get()));
        }
        prop_assert!(object.members().iter().all(|member| tree.contains_key(&*member.key())));
    }

    #[test]
    fn a_set_is_read_back_and_all_else_survives(text in object(), model in "\\PC{0,20}") {
        let before = Object::parse(text.as_bytes()).expect("it is an object");
        let patched = Patch::new().set("model", &model).remove("stream").apply(&before);
        let after = Object::parse(&patched).expect("a patched object is one");
        let read: String = serde_json::from_str(after.raw("model").expect("set")).expect("text");
        prop_assert_eq!(read, model);
        prop_assert_eq!(after.raw("stream"), None);
        let others = |object: &Object<'_>| -> Vec<(String, String)> {
            let members = object.members().iter();
            members
                .map(|member| (member.key().into_owned(), member.value().to_owned()))
                .filter(|(key, _)| key != "model" && key != "stream")
                .collect()
        };
        prop_assert_eq!(others(&before), others(&after));
    }

    #[test]
    fn setting_a_member_to_itself_changes_no_byte(text in object()) {
        let object = Object::parse(text.as_bytes()).expect("it is an object");
        let mut patch = Patch::new();
        for member in object.members() {
            let unique = object.members().iter().filter(|m| m.key() == member.key()).count() == 1;
            if unique {
                patch = patch.set_raw(&member.key(), member.value());
            }
        }
        let patched = patch.apply(&object);
        prop_assert_eq!(std::str::from_utf8(&patched).expect("text"), text.as_str());
    }
}

//! Any form is divided as it was put together, whatever is in its files; half of one is never taken for a whole one.

use overdraft_wire::form::{Boundary, Form};
use overdraft_wire::request::file_tokens;
use proptest::prelude::*;

const BOUNDARY: &str = "----Form'7MA+4YWx_k";

/// A part as it is drawn.
#[derive(Clone, Debug)]
struct Drawn {
    name: String,
    /// What stands behind the name in its head.
    file: Option<String>,
    value: Vec<u8>,
}

fn boundary() -> Boundary {
    let content_type = format!("multipart/form-data; boundary=\"{BOUNDARY}\"");
    Boundary::of(content_type.as_bytes()).expect("it is one").expect("of a form")
}

/// Bytes with what looks like a boundary or a head, and seldom is one.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let dashed = format!("--{BOUNDARY}");
    let pieces = vec![
        b"\r\n".to_vec(),
        b"\r".to_vec(),
        b"\n".to_vec(),
        b"--".to_vec(),
        dashed.clone().into_bytes(),
        format!("\n{dashed}--").into_bytes(),
        format!("\r{dashed}\r\n").into_bytes(),
        format!("\r\n{}", &dashed[..dashed.len() - 1]).into_bytes(),
        format!("\r\n{}", dashed.to_ascii_lowercase()).into_bytes(),
        b"\r\n\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nother".to_vec(),
    ];
    let piece = prop_oneof![
        prop::sample::select(pieces),
        prop::collection::vec(any::<u8>(), 0..40),
        "[a-z ]{0,12}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn part() -> impl Strategy<Value = Drawn> {
    let file = prop_oneof![
        Just("; filename=\"a.wav\"\r\nContent-Type: audio/wav".to_owned()),
        Just("; filename=\"a\\\"; name=\\\"model\"".to_owned()),
        Just("; FileName*=UTF-8''%e2%82%ac.png".to_owned()),
        "[^\\p{Cc}\"\\\\]{0,20}".prop_map(|name| format!("; filename=\"{name}\"")),
    ];
    let name = prop_oneof![
        Just("model".to_owned()),
        Just("timestamp_granularities[]".to_owned()),
        "[^\\p{Cc}\"\\\\]{1,12}",
    ];
    (name, prop::option::of(file), value()).prop_map(|(name, file, value)| Drawn {
        name,
        file,
        value,
    })
}

fn encoded(parts: &[Drawn]) -> Vec<u8> {
    let mut body = Vec::new();
    for Drawn { name, file, value } in parts {
        let file = file.as_deref().unwrap_or_default();
        let head = format!("Content-Disposition: form-data; name=\"{name}\"{file}");
        body.extend_from_slice(format!("--{BOUNDARY}\r\n{head}\r\n\r\n").as_bytes());
        body.extend_from_slice(value);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// Whether the encoder may choose the boundary for this value, by RFC 2046.
fn may_hold(value: &[u8]) -> bool {
    let lined = [b"\r\n", value, b"\r\n"].concat();
    let delimiter = format!("\r\n--{BOUNDARY}").into_bytes();
    !lined.windows(delimiter.len()).any(|window| window == delimiter)
}

fn read<'a>(form: &Form<'a>) -> Vec<(&'a str, bool, &'a [u8])> {
    form.parts().iter().map(|part| (part.name, part.is_file, form.value(part))).collect()
}

proptest! {
    #[test]
    fn a_form_is_divided_as_it_was_put_together(parts in prop::collection::vec(part(), 0..6)) {
        let (body, boundary) = (encoded(&parts), boundary());
        let form = Form::parse(&body, &boundary);
        if parts.iter().all(|part| may_hold(&part.value)) {
            let expected: Vec<_> = parts
                .iter()
                .map(|part| (&*part.name, part.file.is_some(), &*part.value))
                .collect();
            prop_assert_eq!(read(&form.unwrap()), expected);
        } else if let Ok(form) = form {
            // A boundary within a part divides it, for everybody.
            prop_assert!(parts.len() < form.parts().len());
        }
    }

    #[test]
    fn half_a_form_is_no_form(
        parts in prop::collection::vec(part(), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        prop_assume!(parts.iter().all(|part| may_hold(&part.value)));
        let (body, boundary) = (encoded(&parts), boundary());
        // Its last line end may be missing.
        let cut = cut.index(body.len() - 2);
        prop_assert!(Form::parse(&body[..cut], &boundary).is_err());
        prop_assert!(Form::parse(&body[..body.len() - 2], &boundary).is_ok());
    }

    #[test]
    fn what_is_changed_in_a_form_leaves_every_other_byte(
        parts in prop::collection::vec(part(), 0..6),
        renames in any::<bool>(),
    ) {
        prop_assume!(parts.iter().all(|part| may_hold(&part.value)));
        let (body, boundary) = (bytes::Bytes::from(encoded(&parts)), boundary());
        let form = Form::parse(&body, &boundary).unwrap();
        let is_dropped = |name: &str| name.len().is_multiple_of(3) && name != "model";
        let pieces = form.edited(&body, renames.then_some("other"), is_dropped);
        let edited = if pieces.is_empty() { body.to_vec() } else { pieces.concat() };
        let mut expected: Vec<Drawn> =
            parts.iter().filter(|part| !is_dropped(&part.name)).cloned().collect();
        for part in expected.iter_mut().filter(|part| renames && part.name == "model") {
            part.value = b"other".to_vec();
        }
        let is_added = renames && parts.iter().all(|part| part.name != "model");
        if is_added {
            let model = Form::parse(&edited, &boundary).unwrap();
            prop_assert_eq!(read(&model)[0], ("model", false, &b"other"[..]));
            prop_assert!(edited.ends_with(&encoded(&expected)));
        } else {
            prop_assert_eq!(edited, encoded(&expected));
        }
    }

    #[test]
    fn a_form_with_a_byte_changed_never_panics(
        parts in prop::collection::vec(part(), 0..4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (mut body, boundary) = (encoded(&parts), boundary());
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(form) = Form::parse(&body, &boundary) {
            let _whatever_it_says = form.members();
            prop_assert!(form.parts().iter().all(|part| part.value.end <= body.len()));
        }
    }
}

#[test]
fn a_file_counts_as_what_it_is() {
    let png =
        [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &[0, 0, 4, 0, 0, 0, 2, 0], &[7; 9_000]].concat();
    assert_eq!(file_tokens(&png), 1_024 * 512 / (28 * 28));
    let wave = [&b"RIFF\0\0\0\0WAVEfmt "[..], &vec![0; 128_000 - 16]].concat();
    assert_eq!(file_tokens(&wave), 100);
    assert_eq!(file_tokens(&[b"ID3".as_slice(), &vec![0; 31_997]].concat()), 100);
    assert_eq!((file_tokens(b""), file_tokens(b"RIFF")), (25, 25));
    assert_eq!(file_tokens(&vec![0; 100 << 20]), 65_536, "bounded");
}

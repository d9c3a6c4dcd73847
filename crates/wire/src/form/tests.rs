//! Forms that are read, and those that are refused.

use bytes::Bytes;

use super::*;

fn boundary(content_type: &str) -> Result<Option<Boundary>, FormFault> {
    Boundary::of(content_type.as_bytes())
}

/// The boundary `b`.
fn b() -> Boundary {
    boundary("multipart/form-data; boundary=b").unwrap().unwrap()
}

/// A part with this head and value.
fn part(head: &str, value: &str) -> String {
    format!("--b\r\n{head}\r\n\r\n{value}\r\n")
}

/// A field with this name and value.
fn field(name: &str, value: &str) -> String {
    part(&format!("Content-Disposition: form-data; name=\"{name}\""), value)
}

#[track_caller]
fn refused(body: &str, expected: FormFault) {
    let boundary = b();
    let fault = Form::parse(body.as_bytes(), &boundary).map(|form| form.parts).unwrap_err();
    assert_eq!(fault, expected, "{body:?}");
}

#[test]
fn a_boundary_is_read_from_the_content_type() {
    for content_type in [
        "multipart/form-data; boundary=b",
        "Multipart/Form-Data;Boundary=\"b\"",
        "multipart/form-data; charset=UTF-8; boundary=b;",
    ] {
        assert_eq!(boundary(content_type), Ok(Some(b())), "{content_type}");
    }
    assert_eq!(boundary("application/json; boundary=b"), Ok(None));
    assert_eq!(boundary(""), Ok(None));
    let longest = "x".repeat(70);
    assert!(boundary(&format!("multipart/form-data; boundary={longest}")).is_ok());
    for (content_type, expected) in [
        ("multipart/form-data", FormFault::NoBoundary),
        ("multipart/form-data; boundary=", FormFault::BoundaryLength(0)),
        (&*format!("multipart/form-data; boundary={longest}x"), FormFault::BoundaryLength(71)),
        ("multipart/form-data; boundary=\"a b \"", FormFault::BoundaryText),
        ("multipart/form-data; boundary=\"a\\\"b\"", FormFault::BoundaryText),
        ("multipart/form-data; boundary=a; boundary=b", FormFault::ContentType),
        ("multipart/form-data; boundary=\"a", FormFault::ContentType),
        ("multipart/form-data; boundary=b; charset=utf-16", FormFault::Charset),
    ] {
        assert_eq!(boundary(content_type), Err(expected), "{content_type}");
    }
}

#[test]
fn parts_are_found_with_their_names_and_values() {
    let boundary = b();
    let file = "form-data; name=\"file\"; filename=\"a\\\"; name=\\\"model.wav\"";
    let body = field("model", "whisper")
        + &part(
            &format!("content-type: audio/wav\r\nContent-Disposition: {file}"),
            "\r\n--\r\n\r\n-b",
        )
        + &part("content-disposition: FORM-DATA; filename*=UTF-8''%e2; name=other", "")
        + "--b--\r\n";
    let form = Form::parse(body.as_bytes(), &boundary).unwrap();
    let parts: Vec<_> =
        form.parts().iter().map(|part| (part.name, part.is_file, form.value(part))).collect();
    let expected: [(&str, bool, &[u8]); 3] =
        [("model", false, b"whisper"), ("file", true, b"\r\n--\r\n\r\n-b"), ("other", true, b"")];
    assert_eq!(parts, expected);
    let none = Form::parse(b"--b--", &boundary).unwrap();
    assert!(none.parts().is_empty());
}

#[test]
fn a_form_that_servers_could_read_in_two_ways_is_refused() {
    let whole = field("model", "m");
    refused("", FormFault::Truncated);
    refused(&whole, FormFault::Truncated);
    refused(&format!("{whole}--b"), FormFault::Truncated);
    refused(&format!("{whole}--b-"), FormFault::Truncated);
    refused(&format!("hello\r\n{whole}--b--"), FormFault::Beginning);
    refused(&format!("{whole}--b--\r\nmore"), FormFault::Epilogue);
    refused(&format!("{whole}--bc\r\n"), FormFault::LookAlike);
    refused(&format!("{whole}--b \r\n"), FormFault::LookAlike);
    refused("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n--b--", FormFault::LookAlike);
    refused(&part("content-type: text/plain", "m"), FormFault::Unnamed);
    refused(&part("content-disposition: attachment; name=\"model\"", "m"), FormFault::Unnamed);
    refused(&part("content-disposition: form-data", "m"), FormFault::Unnamed);
    let named = "content-disposition: form-data; name=\"model\"";
    for head in [
        format!("{named}\r\n{named}"),
        format!("{named}\r\n folded: yes"),
        format!("{named}\nx: y"),
        format!("{named}; other"),
        "content-disposition : form-data; name=\"model\"".to_owned(),
    ] {
        refused(&part(&head, "m"), FormFault::Head);
    }
    for more in ["; name=\"other\"", "; NAME=x", "; name*=utf-8''model", "; Name*0=mo"] {
        refused(&part(&format!("{named}{more}"), "m"), FormFault::Name);
    }
    refused(&part("content-disposition: form-data; name=\"mo\\del\"", "m"), FormFault::Name);
    refused(
        &part(&format!("{named}\r\nContent-Transfer-Encoding: base64"), "m"),
        FormFault::Encoded,
    );
}

#[test]
fn heads_and_parts_are_bounded() {
    let name = "x".repeat(HEAD_BYTES_MAX);
    refused(&field(&name, "m"), FormFault::HeadLength);
    let many = field("f", "").repeat(PARTS_MAX);
    let boundary = b();
    assert!(Form::parse(format!("{many}--b--").as_bytes(), &boundary).is_ok());
    refused(&format!("{many}{}--b--", field("f", "")), FormFault::TooMany);
}

#[test]
fn the_fields_that_are_read_come_once_as_short_texts() {
    let boundary = b();
    let members = |fields: &str| {
        let body = format!("{fields}--b--");
        Form::parse(body.as_bytes(), &boundary).unwrap().members()
    };
    assert_eq!(members("").unwrap(), "{}");
    let stream = |word: &str| members(&field("stream", word)).unwrap();
    for yes in ["true", "True", "1", "on", "yes"] {
        assert_eq!(stream(yes), r#"{"stream":true}"#, "{yes}");
    }
    assert_eq!(stream("false"), "{}");
    let all = field("user", "u\"") + &field("model", "m") + &field("language", "en");
    assert_eq!(members(&all).unwrap(), r#"{"model":"m","user":"u\""}"#);
    for fields in [
        field("model", "a") + &field("model", "a"),
        part("content-disposition: form-data; name=\"model\"; filename=\"m\"", "a"),
        field("model", &"a".repeat(FIELD_BYTES_MAX + 1)),
    ] {
        let error = members(&fields).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("model")), "{fields}");
    }
    let body = b"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n\xff\r\n--b--";
    assert_eq!(Form::parse(body, &boundary).unwrap().members().unwrap_err().status(), 400);
}

#[test]
fn a_form_is_edited_in_pieces() {
    let boundary = b();
    let edited = |text: &str, model: Option<&str>| {
        let body = Bytes::from(text.to_owned());
        let pieces =
            Form::parse(&body, &boundary).unwrap().edited(&body, model, |name| name == "p");
        (!pieces.is_empty()).then(|| String::from_utf8(pieces.concat()).unwrap())
    };
    let (file, end) = (field("file", "bytes"), "--b--\r\n");
    let form = |model: &str| format!("{file}{}{end}", field("model", model));
    assert_eq!(edited(&form("alias"), None), None);
    assert_eq!(edited(&form("alias"), Some("m")), Some(form("m")));
    assert_eq!(edited(&form(""), Some("m")), Some(form("m")));
    let ranked = [field("p", "1"), form("a").replace(end, ""), field("p", "2"), end.to_owned()];
    assert_eq!(edited(&ranked.concat(), None), Some(form("a")));
    let added = field("model", "m").replace('C', "c").replace('D', "d");
    assert_eq!(edited(&format!("{file}{end}"), Some("m")), Some(format!("{added}{file}{end}")));
}

//! Events of awkward streams.

use super::*;

/// Cuts `stream` as one chunk; lists names and data.
fn events(stream: &[u8]) -> Vec<String> {
    let mut splitter = Splitter::new(1_000);
    splitter.push(stream);
    let mut shown = Vec::new();
    while let Some(event) = splitter.next_event().unwrap() {
        shown.push(show(&event));
    }
    match splitter.finish() {
        Ending::Clean => {}
        Ending::Event(event) => shown.push(show(&event)),
        Ending::Cut { bytes } => shown.push(format!("cut {bytes}")),
    }
    shown
}

fn show(event: &Event) -> String {
    let data = event.data().map(|data| String::from_utf8_lossy(&data).into_owned());
    match event.name() {
        Some(name) => format!("{}: {data:?}", String::from_utf8_lossy(name)),
        None => format!("{data:?}"),
    }
}

// Faults: 35
#[test]
fn all_line_ends_and_fields_are_read() {
    assert_eq!(
        events(b"data: a\n\ndata:b\r\n\r\ndata: c\r\r"),
        [r#"Some("a")"#, r#"Some("b")"#, r#"Some("c")"#]
    );
    assert_eq!(
        events(b"event: error\ndata: a\ndata: b\nid: 7\ndata: c\n\n"),
        [r#"error: Some("a\nb\nc")"#]
    );
    assert_eq!(events(b": ping\n\ndata\n\ndata:  x\n\n"), ["None", r#"Some("")"#, r#"Some(" x")"#]);
    assert_eq!(events(b"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n"), [r#"Some("a")"#, "None"]);
    assert_eq!(events(b"\xEF\xBB\xBF\n\n"), ["None", "None"]);
    assert_eq!(events(b"data: a\n"), ["cut 8"]);
    assert_eq!(events(b""), [""; 0]);
}

// Faults: 36
#[test]
fn an_event_beyond_the_limit_ends_the_stream() {
    let mut splitter = Splitter::new(10);
    splitter.push(b"data: 12\n\ndata: 123\n\ndata: 1\n\n");
    assert_eq!(splitter.next_event().unwrap().unwrap().raw().len(), 10);
    assert_eq!(splitter.next_event(), Err(EventTooLarge { limit: 10 }));
    assert_eq!(splitter.next_event(), Err(EventTooLarge { limit: 10 }));
    let mut endless = Splitter::new(10);
    endless.push(b"data: 12345");
    assert!(endless.next_event().is_err());
}

#[test]
fn written_events_read_back() {
    let error = ApiError::server_error("a\nb");
    let stream = [data(&"x\ny"), comment("ping"), error_event(&error), DONE.to_vec()].concat();
    assert_eq!(
        events(&stream),
        [
            r#"Some("\"x\\ny\"")"#.to_owned(),
            "None".to_owned(),
            format!("{:?}", Some(String::from_utf8(error.to_json()).unwrap())),
            r#"Some("[DONE]")"#.to_owned(),
        ]
    );
    let mut splitter = Splitter::new(100);
    splitter.push(DONE);
    assert!(splitter.next_event().unwrap().unwrap().is_done());
}

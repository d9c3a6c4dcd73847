//! What the reader of `ZeroMQ` connections promises, one sentence per test.

use super::*;

/// All messages of a connection whose bytes come `step` at a time.
fn read(kind: SocketKind, bytes: &[u8], step: usize) -> Result<Vec<Vec<Vec<u8>>>, ZmtpError> {
    let mut reader = Reader::new(kind);
    let mut all = Vec::new();
    for part in bytes.chunks(step) {
        reader.buffer().extend_from_slice(part);
        while let Some(message) = reader.next_message()? {
            all.push(message.iter().map(|frame| frame.to_vec()).collect());
        }
    }
    Ok(all)
}

fn connection(messages: &[&[&[u8]]]) -> Vec<u8> {
    let mut bytes = opening(SocketKind::Publisher);
    for message in messages {
        write_message(&mut bytes, message);
    }
    bytes
}

#[test]
fn messages_come_whole_however_their_bytes_are_cut() {
    let long = vec![7; 70_000];
    let bytes = connection(&[&[b"topic", b"", &long], &[b"last"]]);
    let expected = vec![vec![b"topic".to_vec(), Vec::new(), long], vec![b"last".to_vec()]];
    for step in [1, 3, 64, 65, 1_000, bytes.len()] {
        assert_eq!(read(SocketKind::Subscriber, &bytes, step).unwrap(), expected, "{step}");
    }
}

#[test]
fn a_subscription_is_a_message_of_its_topic() {
    let bytes = [opening(SocketKind::Subscriber), subscription("kv")].concat();
    assert_eq!(read(SocketKind::Publisher, &bytes, 9).unwrap(), [[b"\x01kv".to_vec()]]);
}

#[test]
fn other_commands_are_passed_over() {
    let mut bytes = opening(SocketKind::Publisher);
    frame(&mut bytes, COMMAND, b"\x04PING\0\0");
    frame(&mut bytes, 0, b"here");
    assert_eq!(read(SocketKind::Subscriber, &bytes, 5).unwrap(), [[b"here".to_vec()]]);
}

#[test]
fn peers_that_do_not_fit_are_refused() {
    let refusal = |bytes: &[u8]| read(SocketKind::Subscriber, bytes, 7).unwrap_err();
    assert_eq!(refusal(b"HTTP/1.1 400 Bad Request\r\n"), ZmtpError::Greeting);
    let expected = SocketKind::Subscriber.peers();
    let found = "ROUTER".to_owned();
    assert_eq!(refusal(&opening(SocketKind::Router)), ZmtpError::Kind { found, expected });
    let mut curve = opening(SocketKind::Publisher);
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(refusal(&curve), ZmtpError::Mechanism("CURVE".to_owned()));
    let mut old = opening(SocketKind::Publisher);
    old[10] = 1;
    assert_eq!(refusal(&old), ZmtpError::Greeting);
    let mut early = opening(SocketKind::Publisher)[..GREETING].to_vec();
    let mut refused = early.clone();
    frame(&mut refused, COMMAND, b"\x05ERROR\x02no");
    assert_eq!(refusal(&refused), ZmtpError::Refused("no".to_owned()));
    let mut broken = early.clone();
    frame(&mut broken, COMMAND, b"\x05READY\x0bSocket-Type\xff\xff\xff\xff");
    assert_eq!(refusal(&broken), ZmtpError::Command);
    frame(&mut early, 0, b"a message before READY");
    assert_eq!(refusal(&early), ZmtpError::Command);
}

#[test]
fn what_a_peer_claims_is_not_reserved() {
    let mut bytes = opening(SocketKind::Publisher);
    bytes.push(LONG);
    bytes.extend((1_u64 << 60).to_be_bytes());
    let refusal = read(SocketKind::Subscriber, &bytes, 11).unwrap_err();
    assert_eq!(refusal, ZmtpError::TooLarge { bytes: 1 << 60 });

    let mut reader = Reader::new(SocketKind::Subscriber);
    reader.buffer().extend_from_slice(&opening(SocketKind::Publisher));
    reader.buffer().extend_from_slice(&[LONG]);
    reader.buffer().extend_from_slice(&(MESSAGE_BYTES_MAX as u64).to_be_bytes());
    assert_eq!(reader.next_message(), Ok(None));
    assert!(reader.buffer().capacity() < 4_096, "only what has come is held");

    let mut parts = opening(SocketKind::Publisher);
    for _ in 0..=FRAMES_MAX {
        frame(&mut parts, MORE, b"part");
    }
    let refusal = read(SocketKind::Subscriber, &parts, 4).unwrap_err();
    assert_eq!(refusal, ZmtpError::TooManyFrames);
}

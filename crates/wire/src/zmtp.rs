//! `ZeroMQ` protocol (ZMTP 3.0): encodes and decodes greetings, commands and messages.
//!
//! It implements `ZeroMQ` RFC 23 with the NULL mechanism, which engines use for their events: a
//! greeting of 64 bytes, a READY command with the socket type, then messages of one or more frames.
//! It handles only bytes; the shell does the I/O. It is our own reader rather than a library's,
//! because the peer chooses the length of a frame: a library that reserves that length lets a
//! broken peer exhaust memory.
//!
//! **Invariant:** a reader never holds more than [`MESSAGE_BYTES_MAX`] and [`FRAMES_MAX`] allow,
//! whatever the peer claims.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::kv_events::BATCH_BYTES_MAX;

/// Maximum size of a message: a batch of events with its topic and number.
pub const MESSAGE_BYTES_MAX: usize = BATCH_BYTES_MAX + 64 * 1024;

/// Most frames of a message taken; a replayed batch has five.
pub const FRAMES_MAX: usize = 16;

/// Bytes of a greeting.
const GREETING: usize = 64;

/// Set in the flags of a frame that is not the last.
const MORE: u8 = 1;
/// Set in the flags of a frame whose length has eight bytes.
const LONG: u8 = 2;
/// Set in the flags of a command.
const COMMAND: u8 = 4;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Tells all who subscribed.
    Publisher,
    /// Is told what it subscribed to.
    Subscriber,
    /// Answers whom it was asked by.
    Router,
    /// Asks.
    Dealer,
}

impl SocketKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Publisher => "PUB",
            Self::Subscriber => "SUB",
            Self::Router => "ROUTER",
            Self::Dealer => "DEALER",
        }
    }

    /// The kinds that it may talk to.
    const fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Publisher => &["SUB", "XSUB"],
            Self::Subscriber => &["PUB", "XPUB"],
            Self::Router => &["DEALER", "REQ", "ROUTER"],
            Self::Dealer => &["ROUTER", "REP", "DEALER"],
        }
    }
}

/// A peer that cannot be understood; the connection is of no more use.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZmtpError {
    /// It does not begin as `ZeroMQ` does.
    #[error("the peer does not speak ZMTP 3; is this the port of a ZeroMQ socket?")]
    Greeting,
    /// It asks for more than we offer.
    #[error("the peer wants the security mechanism `{0}`; expected `NULL`")]
    Mechanism(String),
    /// The two kinds of socket do not fit.
    #[error("the peer is a socket of kind `{found}`; expected one of {expected:?}")]
    Kind {
        /// What it said.
        found: String,
        /// What fits.
        expected: &'static [&'static str],
    },
    /// It refused us.
    #[error("the peer refused the connection: `{0}`")]
    Refused(String),
    /// A command that cannot be read.
    #[error("the peer sent a malformed command")]
    Command,
    /// Larger than anything we expect.
    #[error("a message of `{bytes}` bytes is too large; expected at most {MESSAGE_BYTES_MAX}")]
    TooLarge {
        /// How large it would be.
        bytes: u64,
    },
    /// More frames than anything we expect.
    #[error("a message has too many frames; expected at most {FRAMES_MAX}")]
    TooManyFrames,
}

/// What one side sends first: the greeting and its kind.
pub fn opening(kind: SocketKind) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f]);
    // Version 3.0: what 3.1 adds we do not need, and its peers then do without it.
    out.extend([3, 0]);
    out.extend(b"NULL");
    out.resize(GREETING, 0);
    let mut ready = Vec::new();
    ready.extend(b"\x05READY");
    property(&mut ready, "Socket-Type", kind.name().as_bytes());
    property(&mut ready, "Identity", b"");
    frame(&mut out, COMMAND, &ready);
    out
}

fn property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(u8::try_from(name.len()).expect("our names are short"));
    out.extend(name.as_bytes());
    out.put_u32(u32::try_from(value.len()).expect("our values are short"));
    out.extend(value);
}

/// Appends a message.
pub fn write_message(out: &mut Vec<u8>, frames: &[&[u8]]) {
    for (place, body) in frames.iter().enumerate() {
        let more = if place + 1 == frames.len() { 0 } else { MORE };
        frame(out, more, body);
    }
}

/// What a subscriber says to get all whose first frame begins with `topic`.
pub fn subscription(topic: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(&mut out, &[&[&[1], topic.as_bytes()].concat()]);
    out
}

/// What a subscriber says to get no more of what it has subscribed to by `topic` alone.
pub fn cancellation(topic: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(&mut out, &[&[&[0], topic.as_bytes()].concat()]);
    out
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    if let Ok(length) = u8::try_from(body.len()) {
        out.extend([flags, length]);
    } else {
        out.push(flags | LONG);
        out.put_u64(body.len() as u64);
    }
    out.extend_from_slice(body);
}

/// Makes messages of the bytes of one connection.
#[derive(Debug)]
pub struct Reader {
    kind: SocketKind,
    stage: Stage,
    bytes: BytesMut,
    frames: Vec<Bytes>,
    /// Bytes in `frames`.
    held: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Ready,
    Messages,
}

/// What a frame says of itself.
struct Head {
    flags: u8,
    /// Bytes of the head.
    size: usize,
    /// Bytes that follow it.
    length: usize,
}

impl Reader {
    /// A reader for a connection of ours as `kind`.
    pub fn new(kind: SocketKind) -> Self {
        Self { kind, stage: Stage::Greeting, bytes: BytesMut::new(), frames: Vec::new(), held: 0 }
    }

    /// Where the next bytes go; whoever read some calls [`Self::next_message`] until it is empty.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Whether the peer has said what it is.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Messages
    }

    /// The next message that has come in full.
    ///
    /// # Errors
    /// [`ZmtpError`]; the connection is of no more use.
    pub fn next_message(&mut self) -> Result<Option<Vec<Bytes>>, ZmtpError> {
        if self.stage == Stage::Greeting && !self.greet()? {
            return Ok(None);
        }
        while let Some(head) = self.head()? {
            if self.bytes.len() < head.size + head.length {
                // Grows by what has come, not by what was promised.
                return Ok(None);
            }
            self.bytes.advance(head.size);
            let body = self.bytes.split_to(head.length).freeze();
            if head.flags & COMMAND != 0 {
                self.command(&body)?;
                continue;
            }
            if self.stage != Stage::Messages {
                return Err(ZmtpError::Command);
            }
            if self.frames.len() == FRAMES_MAX {
                return Err(ZmtpError::TooManyFrames);
            }
            self.held += body.len();
            self.frames.push(body);
            if head.flags & MORE == 0 {
                self.held = 0;
                return Ok(Some(core::mem::take(&mut self.frames)));
            }
        }
        Ok(None)
    }

    /// Reads the greeting; whether it is there.
    fn greet(&mut self) -> Result<bool, ZmtpError> {
        let known = |place: usize, byte: u8| match place {
            0 => byte == 0xff,
            9 => byte & 1 == 1,
            10 => byte >= 3,
            _ => true,
        };
        let looks = self.bytes.iter().take(11).enumerate();
        if !looks.into_iter().all(|(place, &byte)| known(place, byte)) {
            return Err(ZmtpError::Greeting);
        }
        if self.bytes.len() < GREETING {
            return Ok(false);
        }
        let greeting = self.bytes.split_to(GREETING);
        let mechanism = greeting[12..32].split(|&byte| byte == 0).next().unwrap_or_default();
        if mechanism != b"NULL" {
            return Err(ZmtpError::Mechanism(text(mechanism)));
        }
        self.stage = Stage::Ready;
        Ok(true)
    }

    /// The head of the next frame, as soon as it is there.
    fn head(&self) -> Result<Option<Head>, ZmtpError> {
        let Some(&flags) = self.bytes.first() else { return Ok(None) };
        let (size, length) = if flags & LONG == 0 {
            let Some(&length) = self.bytes.get(1) else { return Ok(None) };
            (2, u64::from(length))
        } else {
            let Some(mut length) = self.bytes.get(1..9) else { return Ok(None) };
            (9, length.get_u64())
        };
        let bytes = length.saturating_add(self.held as u64);
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= MESSAGE_BYTES_MAX => {
                Ok(Some(Head { flags, size, length: bytes - self.held }))
            }
            _ => Err(ZmtpError::TooLarge { bytes }),
        }
    }

    fn command(&mut self, body: &[u8]) -> Result<(), ZmtpError> {
        let (name, rest) = split(body, 1).ok_or(ZmtpError::Command)?;
        match name {
            b"READY" => {
                let kind = socket_kind(rest).ok_or(ZmtpError::Command)?;
                let expected = self.kind.peers();
                if !expected.iter().any(|peer| peer.as_bytes() == kind) {
                    return Err(ZmtpError::Kind { found: text(kind), expected });
                }
                self.stage = Stage::Messages;
                Ok(())
            }
            b"ERROR" => Err(ZmtpError::Refused(
                split(rest, 1).map_or_else(String::new, |(why, _)| text(why)),
            )),
            // Heartbeats and the like are for those who announce 3.1.
            _ => Ok(()),
        }
    }
}

/// The value of `Socket-Type` among the properties of a READY.
fn socket_kind(mut properties: &[u8]) -> Option<&[u8]> {
    while !properties.is_empty() {
        let (name, rest) = split(properties, 1)?;
        let (value, rest) = split(rest, 4)?;
        if name.eq_ignore_ascii_case(b"socket-type") {
            return Some(value);
        }
        properties = rest;
    }
    None
}

/// Splits off what a length of `size` bytes, big end first, announces.
fn split(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(size)?;
    let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    rest.split_at_checked(length)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;

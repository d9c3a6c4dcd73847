//! Frame scanner: finds the heads of HTTP/2 frames in the bytes of one direction (RFC 9113, section 4.1).
//!
//! It keeps no payload and believes nothing that it says: the `h2` crate reads the frames themselves.

/// What a client sends before its first frame (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// Marks the last frame of a stream: on DATA and HEADERS.
const END_STREAM: u8 = 0x1;

/// Marks the last frame of a head: on HEADERS and CONTINUATION.
const END_HEADERS: u8 = 0x4;

/// What a frame is about (RFC 9113, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Bytes of a body.
    Data,
    /// The beginning of a head, or trailers.
    Headers,
    /// More of a head.
    Continuation,
    /// Room for more bytes of bodies.
    WindowUpdate,
    /// All others: about the connection, or the end of a stream.
    Control,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) kind: FrameKind,
    /// Bytes of its payload.
    pub(crate) bytes: usize,
    flags: u8,
}

impl FrameHead {
    fn of(head: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, ..] = head;
        let kind = match kind {
            0x0 => FrameKind::Data,
            0x1 => FrameKind::Headers,
            0x8 => FrameKind::WindowUpdate,
            0x9 => FrameKind::Continuation,
            _ => FrameKind::Control,
        };
        let bytes = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Self { kind, bytes, flags }
    }

    /// Whether it is the last of its stream; of DATA and HEADERS only.
    pub(crate) const fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Whether the head is whole after it; of HEADERS and CONTINUATION only.
    pub(crate) const fn ends_head(&self) -> bool {
        self.flags & END_HEADERS != 0
    }
}

/// Where in a frame the bytes of one direction are.
#[derive(Debug, Default)]
pub(crate) struct FrameScanner {
    /// Bytes of the preface that are still to come.
    preface: usize,
    head: [u8; HEAD_BYTES],
    /// How many bytes of `head` have come.
    known: usize,
    /// The frame whose payload is not whole yet.
    current: Option<FrameKind>,
    /// Bytes of that payload that are still to come.
    left: usize,
}

impl FrameScanner {
    /// A scanner of what a client sends, preface and all.
    pub(crate) fn of_client() -> Self {
        Self { preface: PREFACE.len(), ..Self::default() }
    }

    /// Goes over the next bytes; tells of each frame once its head is whole.
    pub(crate) fn scan(&mut self, mut bytes: &[u8], mut tell: impl FnMut(FrameHead)) {
        skip(&mut self.preface, &mut bytes);
        while !bytes.is_empty() {
            if self.left > 0 {
                skip(&mut self.left, &mut bytes);
                continue;
            }
            let taken = bytes.len().min(HEAD_BYTES - self.known);
            let (own, rest) = bytes.split_at(taken);
            self.head[self.known..self.known + taken].copy_from_slice(own);
            self.known += taken;
            bytes = rest;
            if self.known == HEAD_BYTES {
                let head = FrameHead::of(self.head);
                (self.known, self.left, self.current) = (0, head.bytes, Some(head.kind));
                tell(head);
            }
        }
    }

    /// Whether it stands within something other than bytes of a body.
    pub(crate) fn is_inside(&self) -> bool {
        let payload = self.left > 0 && self.current != Some(FrameKind::Data);
        self.preface > 0 || self.known > 0 || payload
    }
}

/// Leaves out as many bytes as are left, or all.
fn skip(left: &mut usize, bytes: &mut &[u8]) {
    let skipped = bytes.len().min(*left);
    *left -= skipped;
    *bytes = &bytes[skipped..];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as bytes.
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let bytes = [
            PREFACE,
            &frame(0x4, 0, &[0; 6]),
            &frame(0x1, 0, &[0; 300]),
            &frame(0x9, END_HEADERS, &[]),
            &frame(0x0, END_STREAM, &[7; 20]),
            &frame(0x6, 0, &[0; 8]),
        ]
        .concat();
        for size in [1, 2, 7, 9, 24, 25, 100, bytes.len()] {
            let (mut scanner, mut heads) = (FrameScanner::of_client(), Vec::new());
            for part in bytes.chunks(size) {
                scanner.scan(part, |head| heads.push(head));
            }
            let kinds: Vec<_> = heads.iter().map(|head| (head.kind, head.bytes)).collect();
            let expected = [
                (FrameKind::Control, 6),
                (FrameKind::Headers, 300),
                (FrameKind::Continuation, 0),
                (FrameKind::Data, 20),
                (FrameKind::Control, 8),
            ];
            assert_eq!(kinds, expected, "in parts of {size}");
            assert!(!heads[1].ends_head() && heads[2].ends_head() && heads[3].ends_stream());
            assert!(!scanner.is_inside());
        }
    }

    #[test]
    fn a_frame_that_is_not_whole_is_one_to_wait_for_unless_it_is_a_body() {
        let mut scanner = FrameScanner::of_client();
        assert!(scanner.is_inside(), "the preface is still to come");
        scanner.scan(PREFACE, |_| {});
        assert!(!scanner.is_inside());
        scanner.scan(&frame(0x0, 0, &[7; 20])[..15], |_| {});
        assert!(!scanner.is_inside(), "a body has a deadline of its own");
        scanner.scan(&[7; 14], |_| {});
        scanner.scan(&frame(0x1, 0, &[7; 20])[..4], |_| {});
        assert!(scanner.is_inside());
    }
}

//! Flood meter: how much of what a client sends over HTTP/2 asks for nothing.
//!
//! A frame may cost the sender nine bytes and the receiver a turn of its state machine. Those that carry neither a
//! request nor its body are drawn from a token bucket; who empties it is cut off. That bounds floods of PING and
//! SETTINGS (CVE-2019-9512, CVE-2019-9515), of resets (CVE-2023-44487), of priorities and of empty frames
//! (CVE-2019-9518). The `h2` crate (0.4.20) bounds besides: streams that were reset before they were accepted,
//! streams that it refused or reset itself, the frames and bytes of a head (CVE-2024-27316), and the frames of a
//! body that are small.

use tokio::time::Instant;

use super::frame_scanner::{FrameHead, FrameKind, FrameScanner};

/// Frames that ask for nothing which may come at once. A client that opens and cancels all its streams ten times
/// over stays below.
const FREE_FRAMES_MAX: f64 = 1_000.0;

/// Those that may come a second after that. A client that cancels a request every ten milliseconds and sends a
/// ping with each stays below.
const FREE_FRAMES_PER_SECOND: f64 = 200.0;

/// Window updates that are free for each request and for each frame of an answer: clients send one or two.
const UPDATES_PER_FRAME: u64 = 4;

/// Window updates that may be put by.
const UPDATES_FREE_MAX: u64 = 10_000;

/// Counts the frames that one client sends.
#[derive(Debug)]
pub(crate) struct FloodMeter {
    scanner: FrameScanner,
    /// Whether a head has begun and not ended.
    in_head: bool,
    free: f64,
    counted: Instant,
    updates_free: u64,
}

/// The client sends more than any use of HTTP/2 needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client floods the connection with frames that ask for nothing")]
pub(crate) struct Flood;

impl FloodMeter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            scanner: FrameScanner::of_client(),
            in_head: false,
            free: FREE_FRAMES_MAX,
            counted: now,
            updates_free: UPDATES_PER_FRAME,
        }
    }

    /// So many frames of answers were written, which the client may acknowledge.
    pub(crate) fn note_answered(&mut self, frames: u64) {
        let more = frames.saturating_mul(UPDATES_PER_FRAME);
        self.updates_free = self.updates_free.saturating_add(more).min(UPDATES_FREE_MAX);
    }

    /// Counts what has come.
    ///
    /// # Errors
    /// Where it is too much.
    pub(crate) fn count(&mut self, bytes: &[u8], now: Instant) -> Result<(), Flood> {
        let Self { scanner, in_head, updates_free, .. } = self;
        let mut idle_frames = 0_u32;
        scanner.scan(bytes, |head| {
            *in_head = is_head_open(&head, *in_head);
            idle_frames += u32::from(asks_nothing(&head, updates_free));
        });
        if idle_frames == 0 {
            return Ok(());
        }
        let earned = now.duration_since(self.counted).as_secs_f64() * FREE_FRAMES_PER_SECOND;
        self.counted = now;
        self.free = (self.free + earned).min(FREE_FRAMES_MAX) - f64::from(idle_frames);
        if self.free < 0.0 { Err(Flood) } else { Ok(()) }
    }

    /// Whether something has begun that the client has yet to end, other than the body of a request.
    pub(crate) fn is_waiting(&self) -> bool {
        self.in_head || self.scanner.is_inside()
    }
}

fn is_head_open(head: &FrameHead, before: bool) -> bool {
    match head.kind {
        FrameKind::Headers | FrameKind::Continuation => !head.ends_head(),
        _ => before,
    }
}

/// Whether a frame carries neither a request nor a body, nor room that an answer needs.
fn asks_nothing(head: &FrameHead, updates_free: &mut u64) -> bool {
    match head.kind {
        FrameKind::Headers => {
            *updates_free = updates_free.saturating_add(UPDATES_PER_FRAME).min(UPDATES_FREE_MAX);
            false
        }
        FrameKind::Data => head.bytes == 0 && !head.ends_stream(),
        FrameKind::WindowUpdate if *updates_free > 0 => {
            *updates_free -= 1;
            false
        }
        FrameKind::WindowUpdate | FrameKind::Continuation | FrameKind::Control => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::frame_scanner::PREFACE;
    use super::*;

    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, bytes: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, bytes, kind, flags, 0, 0, 0, 1];
        frame.resize(9 + usize::from(bytes), 0);
        frame
    }

    fn meter(now: Instant) -> FloodMeter {
        let mut meter = FloodMeter::new(now);
        meter.count(PREFACE, now).expect("a preface is no flood");
        meter
    }

    /// How many frames are taken at once, of `offered`.
    fn taken(meter: &mut FloodMeter, frame: &[u8], offered: usize, now: Instant) -> usize {
        (0..offered).take_while(|_| meter.count(frame, now).is_ok()).count()
    }

    #[test]
    fn pings_are_bounded_at_once_and_by_the_second() {
        let now = Instant::now();
        let mut meter = meter(now);
        let ping = frame(PING, 0, 8);
        assert_eq!(taken(&mut meter, &ping, 5_000, now), 1_000);
        let mut meter = self::meter(now);
        for second in 0..60 {
            let now = now + Duration::from_secs(second);
            assert_eq!(taken(&mut meter, &ping, 200, now), 200, "in second {second}");
        }
    }

    #[test]
    fn requests_and_bodies_are_no_flood_and_empty_frames_are() {
        let now = Instant::now();
        let mut meter = meter(now);
        assert_eq!(taken(&mut meter, &frame(HEADERS, 0x5, 20), 5_000, now), 5_000);
        assert_eq!(taken(&mut meter, &frame(DATA, 0, 1), 5_000, now), 5_000);
        assert_eq!(taken(&mut meter, &frame(DATA, 1, 0), 5_000, now), 5_000, "the end of a body");
        assert_eq!(taken(&mut meter, &frame(DATA, 0, 0), 5_000, now), 1_000);
    }

    #[test]
    fn room_for_answers_is_free_and_room_for_nothing_is_not() {
        let now = Instant::now();
        let mut meter = meter(now);
        let update = frame(WINDOW_UPDATE, 0, 4);
        let free = usize::try_from(UPDATES_PER_FRAME).expect("a few");
        assert_eq!(taken(&mut meter, &update, 5_000, now), 1_000 + free);
        let mut meter = self::meter(now);
        for _ in 0..5_000 {
            meter.note_answered(1);
            assert_eq!(taken(&mut meter, &update, 2, now), 2);
        }
    }

    #[test]
    fn a_head_is_waited_for_until_its_last_frame() {
        let now = Instant::now();
        let mut meter = meter(now);
        assert!(!meter.is_waiting());
        meter.count(&frame(HEADERS, 0, 20), now).expect("no flood");
        assert!(meter.is_waiting(), "CONTINUATION is still to come");
        meter.count(&frame(9, 0x4, 20), now).expect("no flood");
        assert!(!meter.is_waiting());
    }
}

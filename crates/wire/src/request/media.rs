//! Media parts: pictures, sounds and films in a prompt, found without parsing it.
//!
//! Their bytes are base64 and say nothing of their tokens, so they are told apart from the text, with a guess at
//! what they come to: a picture by its size, a sound by its length. Each model has a rule of its own; the guess is
//! the most common one, and what is learnt from usage corrects it.
//!
//! Invariant: parts are in the order of the text, and none overlaps another.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::GeneralPurposeConfig;
use base64::engine::general_purpose::GeneralPurpose;
use memchr::memmem;

/// Media parts of one prompt that are looked at.
const PARTS_MAX: usize = 256;

/// Letters of base64 in which a picture's size must stand.
const HEADER_LETTERS: usize = 64 * 1024;

/// Pixels to a token along both sides: patches of 14 pixels, four of which make a token (Qwen2-VL and kin).
const PIXELS_PER_TOKEN: u64 = 28 * 28;

/// Tokens of a picture whose size is not known, of one at least, and of one at most.
const PICTURE_TOKENS: u64 = 1_024;
const PICTURE_TOKENS_MIN: u64 = 64;
const PICTURE_TOKENS_MAX: u64 = 16_384;

/// Letters of base64 to a token of a sound: 25 tokens a second (Whisper's encoder) of 32 kB.
const SOUND_LETTERS_PER_TOKEN: u64 = 1_700;

/// Bytes of a file to a token of a sound: 25 tokens a second of 32 kB where it is a WAVE file, else of 8 kB.
const WAVE_BYTES_PER_TOKEN: usize = 1_280;
const SOUND_BYTES_PER_TOKEN: usize = 320;

/// Tokens of a sound at least: those of a second.
const SOUND_TOKENS_MIN: u64 = 25;

/// Tokens of a sound or a film whose length is not known.
const SOUND_TOKENS: u64 = 750;
const FILM_TOKENS: u64 = 4_096;

/// Tokens of any part at most.
const PART_TOKENS_MAX: u64 = 65_536;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Where its payload stands in the text.
    pub payload: Range<usize>,
    /// Tokens that it is likely to come to.
    pub tokens: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Picture,
    Sound,
    Film,
}

/// The media parts in the JSON text of messages.
///
/// ```
/// use overdraft_wire::request::media;
///
/// let text = r#"[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]"#;
/// assert_eq!(media(text).len(), 1);
/// assert!(media(r#"[{"role":"user","content":"hi"}]"#).is_empty());
/// ```
pub fn media(text: &str) -> Vec<Media> {
    let mut found = Vec::new();
    // A value that begins so is a part; what stands in a text has a backslash before its quote.
    for (mark, kind) in MARKS {
        for at in memmem::find_iter(text.as_bytes(), mark) {
            if let Some(media) = part(text, at + mark.len(), kind) {
                found.push(media);
            }
        }
    }
    found.sort_by_key(|media| media.payload.start);
    found.dedup_by(|next, before| next.payload.start < before.payload.end);
    found.truncate(PARTS_MAX);
    found
}

/// Tokens that a file is likely to come to: a picture by its size, any other by its length as a sound.
///
/// ```
/// use overdraft_wire::request::file_tokens;
///
/// assert_eq!(file_tokens(&[0; 32_000]), 100);
/// ```
pub fn file_tokens(file: &[u8]) -> u32 {
    let header = &file[..file.len().min(HEADER_LETTERS)];
    let tokens = if let Some((width, height)) = size_in(header) {
        picture_tokens(width, height)
    } else {
        let is_wave = header.starts_with(b"RIFF") && header.get(8..12) == Some(b"WAVE");
        let each = if is_wave { WAVE_BYTES_PER_TOKEN } else { SOUND_BYTES_PER_TOKEN };
        u64::try_from(file.len() / each).unwrap_or(u64::MAX).max(SOUND_TOKENS_MIN)
    };
    u32::try_from(tokens.min(PART_TOKENS_MAX)).unwrap_or(u32::MAX)
}

fn picture_tokens(width: u32, height: u32) -> u64 {
    let pixels = u64::from(width) * u64::from(height);
    (pixels / PIXELS_PER_TOKEN).clamp(PICTURE_TOKENS_MIN, PICTURE_TOKENS_MAX)
}

/// What parts begin with: the name of a part of OpenAI's, or the source of one of Anthropic's.
const MARKS: [(&[u8], Kind); 6] = [
    (b"\"image_url\"", Kind::Picture),
    (b"\"input_image\"", Kind::Picture),
    (b"\"audio_url\"", Kind::Sound),
    (b"\"input_audio\"", Kind::Sound),
    (b"\"video_url\"", Kind::Film),
    (b"\"base64\"", Kind::Picture),
];

/// The members whose text is a part's payload.
const PAYLOADS: [&str; 3] = ["\"url\"", "\"data\"", "\"image_url\""];

/// Letters after a part's name within which its payload begins.
const PAYLOAD_WITHIN: usize = 256;

/// The part whose name ends at `at`, if it has a payload.
fn part(text: &str, at: usize, kind: Kind) -> Option<Media> {
    let rest = text.get(at..)?;
    let near = &rest.as_bytes()[..rest.len().min(PAYLOAD_WITHIN)];
    // The name may be a type's value, with the member of that name behind it.
    let direct = value_of(rest).filter(|value| !value.is_empty());
    let nested = || {
        let begun = PAYLOADS.iter().filter_map(|name| {
            let begun = memmem::find(near, name.as_bytes())? + name.len();
            Some(begun + value_of(rest.get(begun..)?)?.start..begun)
        });
        let begun = begun.min_by_key(|range| range.start)?;
        let inner = value_of(rest.get(begun.end..)?)?;
        Some(begun.end + inner.start..begun.end + inner.end)
    };
    let payload = direct.or_else(nested)?;
    let payload = at + payload.start..at + payload.end;
    let tokens = tokens(text.get(payload.clone())?, kind).min(PART_TOKENS_MAX);
    Some(Media { payload, tokens: u32::try_from(tokens).unwrap_or(u32::MAX) })
}

/// Where the text lies that is the value of a member whose name ended before `rest`.
fn value_of(rest: &str) -> Option<Range<usize>> {
    let colon = rest.find(|letter: char| !letter.is_ascii_whitespace())?;
    let after = rest[colon..].strip_prefix(':')?;
    let space = after.find(|letter: char| !letter.is_ascii_whitespace())?;
    let start = colon + 1 + space;
    rest[start..].strip_prefix('"')?;
    let length = memchr::memchr(b'"', &rest.as_bytes()[start + 1..])?;
    Some(start + 1..start + 1 + length)
}

fn tokens(payload: &str, kind: Kind) -> u64 {
    let base64 = match payload.split_once(";base64,") {
        Some((kind, base64)) if kind.starts_with("data:") => Some(base64),
        _ => (!payload.contains(':')).then_some(payload),
    };
    let letters = base64.map_or(0, |base64| u64::try_from(base64.len()).unwrap_or(u64::MAX));
    match kind {
        Kind::Picture => {
            let size = base64.and_then(picture_size);
            size.map_or(PICTURE_TOKENS, |(width, height)| picture_tokens(width, height))
        }
        Kind::Sound if letters == 0 => SOUND_TOKENS,
        Kind::Sound => (letters / SOUND_LETTERS_PER_TOKEN).max(SOUND_TOKENS_MIN),
        Kind::Film => FILM_TOKENS,
    }
}

/// Width and height of a picture, by its header.
fn picture_size(base64: &str) -> Option<(u32, u32)> {
    let letters = base64.len().min(HEADER_LETTERS) / 4 * 4;
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    size_in(&engine.decode(base64.get(..letters)?).ok()?)
}

/// The size that a picture's first bytes tell, if they are one's.
fn size_in(header: &[u8]) -> Option<(u32, u32)> {
    let size = match header.get(..4)? {
        b"\x89PNG" => (big(header, 16)?, big(header, 20)?),
        b"GIF8" => (little(header, 6, 2)?, little(header, 8, 2)?),
        b"RIFF" => webp(header)?,
        [0xff, 0xd8, ..] => jpeg(header)?,
        _ => return None,
    };
    (0 < size.0 && 0 < size.1).then_some(size)
}

/// The first frame's header says it (ITU-T T.81, table B.1).
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let (mark, kind) = (*bytes.get(at)?, *bytes.get(at + 1)?);
        if mark != 0xff {
            return None;
        }
        let is_frame = matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc);
        let short =
            |at: usize| Some(u32::from(*bytes.get(at)?) << 8 | u32::from(*bytes.get(at + 1)?));
        if is_frame {
            return Some((short(at + 7)?, short(at + 5)?));
        }
        at += 2 + usize::try_from(short(at + 2)?).ok()?.max(2);
    }
}

/// Lossy, lossless and extended files keep it in different places (RFC 9649).
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?.iter().rev();
    Some(bytes.fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Parts as OpenAI's clients send them, with this payload.
    fn picture(payload: &str) -> String {
        let url = format!(r#"{{"type":"image_url","image_url":{{"url":"{payload}"}}}}"#);
        format!(r#"[{{"role":"user","content":[{{"type":"text","text":"what?"}},{url}]}}]"#)
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, u32)]) {
        let found = media(text);
        let told: Vec<(&str, u32)> =
            found.iter().map(|media| (&text[media.payload.clone()], media.tokens)).collect();
        assert_eq!(told, expected);
    }

    fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend_from_slice(&width.to_be_bytes());
        bytes.extend_from_slice(&height.to_be_bytes());
        bytes.resize(3_000, 7);
        format!("data:image/png;base64,{}", STANDARD.encode(bytes))
    }

    #[test]
    fn a_picture_is_guessed_by_its_size_and_a_sound_by_its_length() {
        let small = png(280, 280);
        check(&picture(&small), &[(&small, 100)]);
        let large = png(2_800, 2_800);
        check(&picture(&large), &[(&large, 10_000)]);
        check(&picture("https://host/a.png"), &[("https://host/a.png", 1_024)]);
        check(&picture("data:image/png;base64,AAAA"), &[("data:image/png;base64,AAAA", 1_024)]);
        let sound = "A".repeat(170_000);
        let text = format!(
            r#"{{"type":"input_audio","input_audio":{{"data":"{sound}","format":"wav"}}}}"#
        );
        check(&text, &[(&sound, 100)]);
        let other =
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}"#;
        check(other, &[("AAAA", 1_024)]);
        let bare = r#"{"type":"input_image","image_url":"https://host/b.png"}"#;
        check(bare, &[("https://host/b.png", 1_024)]);
    }

    #[test]
    fn what_a_text_says_of_pictures_is_text() {
        check(
            r#"[{"role":"user","content":"use \"image_url\" and data:image/png;base64,AAAA"}]"#,
            &[],
        );
        check(r#"[{"role":"user","content":"hi"}]"#, &[]);
    }

    #[test]
    fn sizes_are_read_from_every_common_header() {
        let size = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(66, 0);
            picture_size(&STANDARD.encode(bytes))
        };
        assert_eq!(size(b"GIF89a\x40\x01\xf0\x00"), Some((320, 240)));
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc2\x00\x11\x08\x00\xf0\x01\x40";
        assert_eq!(size(jpeg), Some((320, 240)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x3f\x01\x00\xef\x00\x00";
        assert_eq!(size(extended), Some((320, 240)));
        assert_eq!(size(b"no picture at all"), None);
        assert_eq!(size(b"\xff\xd8\xff\xe0\xff\xff"), None, "cut off");
    }
}

//! Text of others for a terminal: what would move its cursor or colour it is shown and not done.

/// The same text with its control characters written out.
pub(crate) fn plain(text: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !is_bidirectional(c);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_unicode().to_string() })
        .collect()
}

/// Characters that turn the direction of what follows around, so that a name reads as another.
const fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_the_cursor_is_written_out() {
        assert_eq!(plain("größe-7b"), "größe-7b");
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(plain("x\u{202e}y"), "x\\u{202e}y");
    }
}

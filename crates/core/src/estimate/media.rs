//! Media tokens: what pictures and sounds in prompts come to, learnt from usage.
//!
//! Models have rules of two kinds: so many tokens for each picture, or for so many pixels. Both are learnt, and
//! the one that has foretold better is believed.

use super::moving_average::MovingAverage;

/// Tokens of one part at most.
const PART_TOKENS_MAX: u64 = 65_536;

/// Parts and their tokens are counted so much finer.
const SCALE: u64 = 1_024;

/// How much of the past error fades with each observation: one part in so many.
const ERROR_FADE: u64 = 8;

/// The media in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// Parts.
    pub parts: u32,
    /// Tokens that they come to by a common rule.
    pub guessed: u32,
}

/// What is believed of one model's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MediaTokens {
    by_part: MovingAverage,
    by_guess: MovingAverage,
    /// How far off each was lately, in thousandths of what came.
    errors: [u64; 2],
}

impl MediaTokens {
    pub(super) const fn new() -> Self {
        Self { by_part: MovingAverage::new(), by_guess: MovingAverage::new(), errors: [0; 2] }
    }

    /// Media came to `tokens`.
    pub(super) fn note(&mut self, media: Media, tokens: u64) {
        if media.parts == 0 || tokens == 0 {
            return;
        }
        let tokens = tokens.min(u64::from(media.parts) * PART_TOKENS_MAX);
        if let Some(foretold) = self.both(media) {
            for (error, foretold) in self.errors.iter_mut().zip(foretold) {
                let off = foretold.abs_diff(tokens).saturating_mul(1_000) / tokens;
                *error = *error - *error / ERROR_FADE + off.min(10_000);
            }
        }
        // Few parts must not be rounded away.
        self.by_part.note(tokens * SCALE, u64::from(media.parts) * SCALE);
        self.by_guess.note(tokens, media.guessed.into());
    }

    /// Tokens that media come to.
    pub(super) fn tokens_of(&self, media: Media) -> u64 {
        let most = u64::from(media.parts) * PART_TOKENS_MAX;
        let tokens = self.both(media).map_or(u64::from(media.guessed), |[by_part, by_guess]| {
            if self.errors[0] <= self.errors[1] { by_part } else { by_guess }
        });
        tokens.min(most)
    }

    /// What each rule says; `None` before anything was seen.
    fn both(&self, media: Media) -> Option<[u64; 2]> {
        let scaled = |count: u32, (tokens, counts): (u64, u64)| {
            let scaled = u128::from(count) * u128::from(tokens);
            Some(u64::try_from(scaled.checked_div(counts.into())?).unwrap_or(u64::MAX))
        };
        let by_part = scaled(media.parts, self.by_part.parts())?;
        Some([by_part, scaled(media.guessed, self.by_guess.parts())?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn learns(rule: impl Fn(Media) -> u64) {
        let mut tokens = MediaTokens::new();
        let pictures = [(1, 400), (3, 3_000), (1, 1_600), (2, 500)];
        let pictures = pictures.map(|(parts, guessed)| Media { parts, guessed });
        for picture in pictures.into_iter().cycle().take(12) {
            tokens.note(picture, rule(picture));
        }
        for picture in pictures {
            let (said, came) = (tokens.tokens_of(picture), rule(picture));
            assert!(said.abs_diff(came) * 10 <= came, "{picture:?}: {said}, not {came}");
        }
    }

    #[test]
    fn both_kinds_of_rules_are_learnt() {
        learns(|picture| u64::from(picture.parts) * 576);
        learns(|picture| u64::from(picture.guessed) * 3 / 2);
    }

    #[test]
    fn one_picture_tells_what_the_next_is() {
        let mut tokens = MediaTokens::new();
        let picture = Media { parts: 1, guessed: 1_024 };
        assert_eq!(tokens.tokens_of(picture), 1_024);
        for _ in 0..3 {
            tokens.note(picture, 1_500);
            assert!(tokens.tokens_of(picture).abs_diff(1_500) < 10);
        }
        assert_eq!(tokens.tokens_of(Media::default()), 0);
    }
}

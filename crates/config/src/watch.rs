//! Configuration hot reload: detects that the file has changed and validates the change.
//!
//! [`Watcher`] decides; the shell only looks at the clock and calls [`Watcher::look`] every
//! [`LOOK_EVERY`]. Each look opens the file by its name and compares its text. That sees through
//! every way a file can be replaced: a `ConfigMap`'s swapped symlink, a rename, an edit in place
//! within one tick of the file system's clock. Notifications and time stamps each miss some;
//! a configuration is small, and reading it once a second costs nothing.
//!
//! The file that `keys_file` names is looked at in the same way, and belongs to the configuration: both
//! are in force together or not at all.
//!
//! A text is applied once two consecutive looks have seen it, so that a half-written file is not.
//! The caller judges it first: what the configuration names, as files of certificates, may be
//! missing. A refusal is told once, and a reload that is asked for tries the same text again.
//!
//! Invariant: the configuration in force was complete and valid; an invalid file leaves it
//! unchanged.

use std::time::{Duration, Instant};

use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::keys_file;
use crate::load::{Loaded, Loader};
use crate::tree::Config;

/// How often to look.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches one file and the keys file that it names, and keeps the last configuration that was good.
#[derive(Clone, Debug)]
pub struct Watcher {
    loader: Loader,
    in_force: Loaded,
    /// What the last look saw; what is in it has been dealt with if it is settled.
    seen: Sight,
    settled: bool,
    stale: Option<Stale>,
}

/// What a look at the files shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    text: Result<String, ConfigErrors>,
    /// Of the file that `keys_file` names in what is in force.
    keys: Option<Result<String, ConfigErrors>>,
}

impl Sight {
    fn of(loader: &Loader, in_force: &Loaded) -> Self {
        let keys = in_force.config.keys_file.as_deref().map(keys_file::text);
        Self { text: loader.text(), keys }
    }

    /// Whether the files say what is in force.
    fn shows(&self, in_force: &Loaded) -> bool {
        let keys = match (&self.keys, &in_force.keys_text) {
            (Some(Ok(seen)), Some(text)) => seen == text,
            (seen, text) => seen.is_none() && text.is_none(),
        };
        keys && self.text.as_ref().is_ok_and(|text| *text == in_force.text)
    }
}

/// Why what is in force is not what the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Since when the file has differed.
    pub since: Instant,
    /// What is wrong with it.
    pub why: ConfigErrors,
}

/// What a look led to.
#[derive(Clone, Debug)]
pub enum Change {
    /// The file is another one, and good: this comes into force.
    Taken {
        /// Now in force.
        loaded: Box<Loaded>,
        /// The keys at the top that changed.
        keys: Vec<String>,
        /// Those changes that need a restart, by their keys.
        restart: Vec<&'static str>,
    },
    /// The file says again what is in force.
    Restored,
    /// The file is another one, and bad: what was in force stays.
    Refused(ConfigErrors),
}

impl Watcher {
    /// Watches the file that `loaded` came from.
    pub fn new(loader: Loader, loaded: Loaded) -> Self {
        let keys = loaded.keys_text.clone().map(Ok);
        let seen = Sight { text: Ok(loaded.text.clone()), keys };
        Self { loader, in_force: loaded, seen, settled: true, stale: None }
    }

    /// The last configuration that was good.
    pub const fn in_force(&self) -> &Loaded {
        &self.in_force
    }

    /// Whether the file says something else, since when, and why that is not in force.
    pub const fn stale(&self) -> Option<&Stale> {
        self.stale.as_ref()
    }

    /// Looks at the file; says something only when there is something new to say. `judge` refuses a
    /// valid configuration that cannot be put in force, in one sentence.
    pub fn look(
        &mut self,
        now: Instant,
        judge: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Option<Change> {
        let sight = Sight::of(&self.loader, &self.in_force);
        if sight != self.seen {
            // Perhaps it is still being written: the next look decides.
            (self.seen, self.settled) = (sight, false);
            return None;
        }
        if self.settled { None } else { self.settle(now, judge) }
    }

    /// Takes the file as it is now, without waiting for a second look: somebody asked for it, as
    /// with a SIGHUP.
    pub fn reload(
        &mut self,
        now: Instant,
        judge: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Option<Change> {
        self.seen = Sight::of(&self.loader, &self.in_force);
        self.settle(now, judge)
    }

    fn settle(
        &mut self,
        now: Instant,
        judge: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Option<Change> {
        self.settled = true;
        let read = if self.seen.shows(&self.in_force) {
            Ok(None)
        } else {
            self.seen.text.clone().and_then(|text| self.judged(text, judge).map(Some))
        };
        match read {
            Ok(None) => self.stale.take().map(|_| Change::Restored),
            Ok(Some(loaded)) => {
                let old = &self.in_force.config;
                let keys = old.changes(&loaded.config);
                let restart = old.restart_needed(&loaded.config);
                self.in_force = loaded.clone();
                self.stale = None;
                Some(Change::Taken { loaded: Box::new(loaded), keys, restart })
            }
            Err(why) => {
                let since = self.stale.as_ref().map_or(now, |stale| stale.since);
                self.stale = Some(Stale { since, why: why.clone() });
                Some(Change::Refused(why))
            }
        }
    }

    /// What a text says, if that can be put in force.
    fn judged(
        &self,
        text: String,
        judge: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Result<Loaded, ConfigErrors> {
        let loaded = self.loader.parse(text)?;
        match judge(&loaded.config) {
            Ok(()) => Ok(loaded),
            Err(why) => Err(ConfigError::of_file(&loaded.path, Wrong::said(&why)).into()),
        }
    }
}

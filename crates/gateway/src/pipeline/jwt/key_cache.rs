//! Key cache: the key set of an issuer as it was at the last good look, and when to look again.
//!
//! One task looks: at each `refresh`, after a failure, and when a token names a key that is not known. Whatever
//! clients send, the issuer is asked at most once in `pause`. A look that fails leaves the keys before in force
//! until they are `age_max` old.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, StatusCode};
use overdraft_tls::{ClientTls, TlsError};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use super::JwtRefused;
use super::key_set::{KEY_SET_BYTES_MAX, KeySet, KeySetError};
use crate::settings::{KeySetPlace, KeySetSettings, WebAddress};
use crate::upstream::{HttpCall, HttpCallError};

/// An issuer's keys.
#[derive(Debug)]
pub(crate) struct KeyCache {
    settings: KeySetSettings,
    held: ArcSwap<Held>,
    /// A token has named a key that is not known.
    wanted: Notify,
    /// Looks that have ended.
    looks: watch::Sender<u64>,
}

/// What the looks brought so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) keys: Arc<KeySet>,
    /// When the last good look ended.
    pub(super) good: Option<Instant>,
    /// When the last look ended.
    pub(super) last: Option<Instant>,
    /// What was wrong with it, told once.
    pub(super) fault: Option<String>,
}

/// Why a look brought no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    #[error("it cannot be read: {0}")]
    File(std::io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Call(#[from] HttpCallError),
    #[error("it was answered with {0}; expected 200")]
    Status(StatusCode),
    #[error(transparent)]
    Form(#[from] KeySetError),
    #[error("it was not looked at: the process ends")]
    Ending,
}

impl Held {
    /// When the next look is due.
    pub(super) fn due(&self, settings: &KeySetSettings) -> Option<Instant> {
        let last = self.last?;
        let failed = self.good != self.last;
        Some(last + if failed { settings.pause.min(settings.refresh) } else { settings.refresh })
    }

    /// Whether a look that somebody wants may be taken now.
    pub(super) fn may_look(&self, settings: &KeySetSettings, now: Instant) -> bool {
        self.last.is_none_or(|last| settings.pause <= now.saturating_duration_since(last))
    }

    /// Whether its keys are still believed.
    pub(super) fn is_believed(&self, settings: &KeySetSettings, now: Instant) -> bool {
        self.good.is_some_and(|good| now.saturating_duration_since(good) <= settings.age_max)
    }
}

impl KeyCache {
    /// One that knows no keys yet.
    pub(super) fn new(settings: KeySetSettings) -> Self {
        let looks = watch::Sender::new(0);
        Self { settings, held: ArcSwap::default(), wanted: Notify::new(), looks }
    }

    /// The keys that are believed now.
    pub(super) fn keys(&self) -> Result<Arc<KeySet>, JwtRefused> {
        let held = self.held.load();
        let believed = held.is_believed(&self.settings, Instant::now());
        believed.then(|| Arc::clone(&held.keys)).ok_or(JwtRefused::NoKeys)
    }

    /// Waits for a look where one is under way or may be taken.
    pub(super) async fn look_again(&self) {
        let mut looks = self.looks.subscribe();
        if !self.held.load().may_look(&self.settings, Instant::now()) {
            return;
        }
        self.wanted.notify_one();
        // A look that takes longer has failed.
        let _ended = timeout(self.settings.timeout, looks.changed()).await;
    }

    /// Keeps the keys up to date; never returns.
    pub(crate) async fn keep(&self) {
        loop {
            let due = self.held.load().due(&self.settings).unwrap_or_else(Instant::now);
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.wanted.notified() => {
                    // Wanted during a look that has just ended.
                    if !self.held.load().may_look(&self.settings, Instant::now()) {
                        continue;
                    }
                }
            }
            let read = self.look().await;
            self.note(read, Instant::now());
            self.looks.send_modify(|looks| *looks += 1);
        }
    }

    pub(super) async fn look(&self) -> Result<KeySet, LookError> {
        let text = match &self.settings.place {
            KeySetPlace::File(path) => {
                let path = path.clone();
                let read = spawn_blocking(move || read(&path)).await;
                Bytes::from(read.map_err(|_| LookError::Ending)?.map_err(LookError::File)?)
            }
            KeySetPlace::Web(place) => self.fetch(place).await?,
        };
        Ok(KeySet::parse(&text)?)
    }

    async fn fetch(&self, place: &WebAddress) -> Result<Bytes, LookError> {
        let tls = if place.is_encrypted {
            let settings = self.settings.tls.clone();
            // Files each time: authorities are renewed, and looks are rare.
            let made = spawn_blocking(move || ClientTls::new(settings)).await;
            Some(made.map_err(|_| LookError::Ending)??)
        } else {
            None
        };
        let call = HttpCall {
            place,
            tls: tls.as_ref(),
            method: Method::GET,
            token: None,
            body: Bytes::new(),
            timeout: self.settings.timeout,
            answer_bytes: KEY_SET_BYTES_MAX,
        };
        match call.run().await? {
            (StatusCode::OK, text) => Ok(text),
            (status, _) => Err(LookError::Status(status)),
        }
    }

    /// Takes in what a look brought, and tells what is new.
    pub(super) fn note(&self, read: Result<KeySet, LookError>, now: Instant) {
        let before = self.held.load_full();
        let place = match &self.settings.place {
            KeySetPlace::File(path) => path.display().to_string(),
            KeySetPlace::Web(place) => place.to_string(),
        };
        let held = match read {
            Ok(keys) => {
                if before.good.is_none() || before.fault.is_some() || keys != *before.keys {
                    tracing::info!(
                        place,
                        keys = keys.len(),
                        "keys of the issuer of tokens are known"
                    );
                }
                Held { keys: Arc::new(keys), good: Some(now), last: Some(now), fault: None }
            }
            Err(error) => {
                let fault = error.to_string();
                if before.fault.as_ref() != Some(&fault) {
                    let seconds =
                        before.good.map(|good| now.saturating_duration_since(good).as_secs());
                    tracing::error!(
                        place, %error, believed_for = ?self.settings.age_max, age_seconds = seconds,
                        "keys of the issuer of tokens cannot be had; those before stay in force, if there are any"
                    );
                }
                Held { last: Some(now), fault: Some(fault), ..Held::clone(&before) }
            }
        };
        self.held.store(Arc::new(held));
    }
}

/// A file of at most so many bytes, and one more where it is longer.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let most = u64::try_from(KEY_SET_BYTES_MAX + 1).unwrap_or(u64::MAX);
    File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

//! Single look: what a source names now, for a check that serves nothing.
//!
//! The source is watched by what watches it in a gateway, until it has said something: who it names, or why it cannot
//! say so.

use std::future::pending;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::report::{Reporter, Standing};
use crate::settings::{Source, WorkerSettings};

/// The workers that `source` names now.
///
/// # Errors
/// Why it names none, or that it has said nothing within `patience`.
pub async fn look_up(source: Source, patience: Duration) -> Result<Vec<WorkerSettings>, String> {
    let (sink, mut found) = mpsc::channel(1);
    let (reporter, mut standing) = Reporter::new(0, &source, sink);
    let first = async {
        tokio::select! {
            // Trouble beside workers that were found takes none of them away.
            biased;
            Some(found) = found.recv() => Ok(found.workers),
            error = failure(&mut standing) => Err(error),
        }
    };
    tokio::select! {
        biased;
        () = super::watch(source, reporter) => Err("the watch ended unanswered".to_owned()),
        answered = timeout(patience, first) => {
            answered.unwrap_or_else(|_elapsed| Err(format!("no answer within {patience:?}")))
        }
    }
}

/// Why the source fails, once it does.
async fn failure(standing: &mut watch::Receiver<Standing>) -> String {
    let failed = standing.wait_for(|standing| standing.error.is_some()).await;
    let error = failed.ok().and_then(|standing| standing.error.clone());
    match error {
        Some(error) => error,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::tests::LONG;
    use crate::settings::FileSettings;

    #[tokio::test]
    async fn a_file_says_whom_it_names_or_why_it_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workers");
        let look = || look_up(Source::File(FileSettings::new(path.clone())), LONG);
        let error = look().await.unwrap_err();
        assert!(error.contains("cannot be read"), "{error}");
        std::fs::write(&path, "http://10.0.0.1:8000\nhttp://10.0.0.2:8000\n").unwrap();
        let urls: Vec<String> = look().await.unwrap().into_iter().map(|found| found.url).collect();
        assert_eq!(urls, ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]);
    }
}

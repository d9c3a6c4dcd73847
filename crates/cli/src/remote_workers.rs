//! Workers that run elsewhere: those of flags, and those of the file beside them.
//!
//! **Invariant:** a flag takes the place of what the file says of its own pool alone. A draft that is tried by
//! `--draft-worker` stands beside the file's targets.

use overdraft_config::Config;
use overdraft_gateway::{Pool, WorkerSettings};

use crate::settings;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RemoteOptions {
    /// A worker that runs elsewhere, as `http://host:port`, instead of the file's targets; may be
    /// given several times
    #[arg(long, value_name = "URL")]
    worker: Vec<String>,
    /// A remote worker of the draft pool, instead of the file's drafts; may be given several times
    #[arg(long, value_name = "URL")]
    draft_worker: Vec<String>,
}

impl RemoteOptions {
    /// Whether the command line names any.
    pub(crate) fn is_given(&self) -> bool {
        !(self.worker.is_empty() && self.draft_worker.is_empty())
    }

    /// All workers that run elsewhere: those of the command line, then the file's of other pools.
    pub(crate) fn beside(&self, config: &Config) -> Vec<WorkerSettings> {
        let mut workers = Vec::new();
        let mut others = settings::workers(config);
        for (urls, pool) in [(&self.worker, Pool::Target), (&self.draft_worker, Pool::Draft)] {
            if urls.is_empty() {
                continue;
            }
            others.retain(|worker| worker.pool != pool);
            workers.extend(urls.iter().map(|url| {
                let mut worker = WorkerSettings::new(url.clone());
                worker.pool = pool;
                worker
            }));
        }
        workers.append(&mut others);
        workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(targets: &[&str], drafts: &[&str], expected: &[&str]) {
        let path = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        let yaml = "workers: [{url: 'http://a:1'}, {url: 'http://b:1', pool: draft}]\n";
        std::fs::write(path.path(), yaml).expect("it is written");
        let loaded = overdraft_config::Loader::new(path.path()).load().expect("it is good");
        let owned = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect();
        let flags = RemoteOptions { worker: owned(targets), draft_worker: owned(drafts) };
        let workers = flags.beside(&loaded.config);
        let urls: Vec<&str> = workers.iter().map(|worker| worker.url.as_str()).collect();
        assert_eq!(urls, expected);
    }

    #[test]
    fn a_flag_takes_the_place_of_its_own_pool_alone() {
        check(&[], &[], &["http://a:1", "http://b:1"]);
        check(&[], &["http://c:1"], &["http://c:1", "http://a:1"]);
        check(&["http://c:1", "http://d:1"], &[], &["http://c:1", "http://d:1", "http://b:1"]);
        check(&["http://c:1"], &["http://d:1"], &["http://c:1", "http://d:1"]);
    }
}

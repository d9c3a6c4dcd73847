//! Limit on open files: raised at the start as far as this process may, and the connections that fit under it.
//!
//! Most systems give a process 1,024 files at first and let it ask for more. A listener that took more connections than
//! there are files could answer nobody, probes and scrapes included.

use overdraft_config::Config;
use overdraft_http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a server has open beside the connections of its requests.
const BESIDE: u64 = 64;

/// Files that are asked for at most: programs that a server starts inherit the limit, and some look at each number
/// below it.
const MOST: u64 = 1 << 20;

/// Files that are asked for where the system names no bound: what macOS gives to everybody.
const UNNAMED: u64 = 10_240;

/// Files that a gateway needs for all requests that it takes: each has a connection to its client and one to its worker.
pub(crate) fn needed(config: &Config) -> u64 {
    u64::from(config.limits.requests) * 2 + BESIDE
}

/// Raises the limit as far as this process may, and says so in the log where fewer are left than are `needed`. Returns
/// how many files it may open then.
pub(crate) fn raise(needed: u64) -> u64 {
    let found = getrlimit(Resource::Nofile);
    let most = found.maximum.map_or(UNNAMED, |most| most.min(MOST));
    let mut files = found.current.unwrap_or(u64::MAX);
    if files < most {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..found }) {
            Ok(()) => files = most,
            Err(error) => tracing::warn!(%error, "the limit on open files could not be raised"),
        }
    }
    if files < needed {
        tracing::warn!(
            "this process may open {files} files and needs up to {needed}, so it takes fewer connections; raise the \
             limit (`ulimit -n`, systemd's LimitNOFILE)"
        );
    }
    files
}

/// Lets a listener take no more connections than there are files for, `each` for every one, and keeps some for who asks
/// for what is vital.
pub(crate) fn bound(listen: &mut Limits, files: u64, each: u64) {
    let kept = BESIDE.min(files / 2);
    let count = |files: u64| usize::try_from(files.max(1)).unwrap_or(usize::MAX);
    listen.connections = listen.connections.min(count((files - kept) / each.max(1)));
    listen.connections_vital = listen.connections_vital.min(count(kept / 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        let files = raise(0);
        let found = getrlimit(Resource::Nofile);
        assert_eq!(found.current.unwrap_or(u64::MAX), files);
        assert!(found.maximum.unwrap_or(UNNAMED).min(MOST) <= files, "{found:?}");
    }

    #[test]
    fn connections_are_bounded_by_the_files_there_are() {
        #[track_caller]
        fn check(files: u64, each: u64, connections: usize, vital: usize) {
            let mut listen = Limits::default();
            bound(&mut listen, files, each);
            assert_eq!((listen.connections, listen.connections_vital), (connections, vital));
        }
        check(u64::MAX, 2, 8_192, 32);
        check(1 << 20, 3, 8_192, 32);
        check(1_024, 2, 480, 32);
        check(1_024, 3, 320, 32);
        check(64, 2, 16, 16);
        check(0, 2, 1, 1);
    }
}

//! Server information: what Redis says of its memory and its disk (`INFO`).

/// What matters to gateways of what a server says of itself; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its release.
    pub version: String,
    /// `maxmemory-policy`.
    pub eviction: String,
    /// `maxmemory` in bytes; 0 for no bound.
    pub memory_max: u64,
    /// Whether its last snapshot failed; by default it refuses writes then.
    pub save_failed: bool,
}

impl ServerInfo {
    /// Reads a page of `INFO`: lines of `name:value`; what is missing or unreadable is as if nothing were said.
    pub(crate) fn parse(page: &str) -> Self {
        let value = |name: &str| {
            let lines = page.lines().filter_map(|line| line.trim_end().split_once(':'));
            lines.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        Self {
            version: value("redis_version").unwrap_or_default().to_owned(),
            eviction: value("maxmemory_policy").unwrap_or_default().to_owned(),
            memory_max: value("maxmemory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
            save_failed: value("rdb_last_bgsave_status") == Some("err"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_redis_seven_is_read() {
        let page = "# Server\r\nredis_version:7.0.15\r\n\
                    # Memory\r\nused_memory:1\r\nmaxmemory:104857600\r\nmaxmemory_policy:allkeys-lru\r\n\
                    # Persistence\r\nrdb_last_bgsave_status:err\r\naof_enabled:0\r\n";
        let told = ServerInfo::parse(page);
        let expected = ServerInfo {
            version: "7.0.15".to_owned(),
            eviction: "allkeys-lru".to_owned(),
            memory_max: 104_857_600,
            save_failed: true,
        };
        assert_eq!(told, expected);
        assert_eq!(ServerInfo::parse("garbage"), ServerInfo::default());
    }
}

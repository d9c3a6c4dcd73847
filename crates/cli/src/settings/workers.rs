//! Worker settings: what the file says of workers with a fixed address, and of those that are found.

use http::HeaderName;
use overdraft_config::{self as config, Config};
use overdraft_gateway::{
    Each, KvEvents, StreamOptions, Template, Token, WorkerSettings, WorkerTraits,
};

use super::{cache, maintenance, tls};

/// The workers with a fixed address.
pub(crate) fn workers(config: &Config) -> Vec<WorkerSettings> {
    config.workers.iter().map(worker).collect()
}

pub(crate) fn worker(configured: &config::Worker) -> WorkerSettings {
    let mut worker = WorkerSettings::new(configured.url.clone());
    configured.name().clone_into(&mut worker.name);
    worker.pool = super::pool(configured.pool);
    worker.model.clone_from(&configured.model);
    worker.kv_events = kv_events(&configured.kv_events);
    worker.traits = WorkerTraits {
        priority_scheduling: configured.priority_scheduling,
        cache_salt: cache::salt(configured.cache_salt),
        stream_options: stream_options(configured.stream_options),
        api_key: configured.api_key.as_ref().map(token),
        api_key_header: configured.api_key_header.as_deref().map(header),
        tls: tls::worker(&configured.tls),
        kv_share: configured.kv_share,
        sequences_max: configured.max_num_seqs,
        serves: configured.serves.clone(),
    };
    let (memory, restart) = (configured.memory.as_ref(), configured.restart.as_ref());
    worker.maintenance =
        maintenance::of_worker(memory, restart, configured.warm_up, maintenance::place);
    worker
}

const fn stream_options(configured: config::StreamOptions) -> StreamOptions {
    match configured {
        config::StreamOptions::Auto => StreamOptions::Asked,
        config::StreamOptions::Off => StreamOptions::Unasked,
    }
}

pub(super) fn token(secret: &config::Secret) -> Token {
    Token::new(secret.reveal())
}

fn header(name: &str) -> HeaderName {
    name.parse().expect("the configuration was checked to hold names of headers")
}

fn kv_events(configured: &config::KvEvents) -> KvEvents {
    match configured {
        config::KvEvents::Auto => KvEvents::Ask,
        config::KvEvents::Off => KvEvents::Off,
        config::KvEvents::At(source) => KvEvents::At {
            endpoint: source.endpoint.clone(),
            replay: source.replay_endpoint.clone(),
            topic: source.topic.clone().unwrap_or_default(),
        },
    }
}

/// What workers of one source have in common.
pub(super) fn each(configured: &config::Each) -> Each {
    let (memory, restart) = (configured.memory.as_ref(), configured.restart.as_ref());
    Each {
        is_encrypted: configured.tls.is_some(),
        kv_events: kv_events(&configured.kv_events),
        traits: WorkerTraits {
            priority_scheduling: configured.priority_scheduling,
            cache_salt: cache::salt(configured.cache_salt),
            stream_options: stream_options(configured.stream_options),
            api_key: configured.api_key.as_ref().map(token),
            api_key_header: configured.api_key_header.as_deref().map(header),
            tls: configured.tls.as_ref().map(tls::worker).unwrap_or_default(),
            kv_share: configured.kv_share,
            sequences_max: configured.max_num_seqs,
            serves: configured.serves.clone(),
        },
        maintenance: maintenance::of_worker(memory, restart, configured.warm_up, |text| {
            Template::new(text)
        }),
    }
}

//! Service discovery settings: maps the section `discovery` to the gateway's sources.

use overdraft_config as config;
use overdraft_gateway::{
    Cloud, DnsSettings, Each, FileSettings, KubernetesSettings, NoticeSettings, ServicePort,
    Source, Template, TerminationSettings,
};

/// One entry of `discovery`.
pub(super) fn source(configured: &config::Discovery) -> Source {
    match configured {
        config::Discovery::Dns(dns) => {
            let mut settings = DnsSettings::new(dns.name.clone(), dns.port);
            settings.server = dns.resolver;
            settings.pool = super::pool(dns.pool);
            settings.model.clone_from(&dns.model);
            settings.each = each(&dns.each);
            Source::Dns(settings)
        }
        config::Discovery::File(file) => {
            let mut settings = FileSettings::new(file.path.clone());
            settings.each = each(&file.each);
            Source::File(settings)
        }
        config::Discovery::Kubernetes(service) => {
            let port = match &service.port {
                config::Port::Number(number) => ServicePort::Number(*number),
                config::Port::Name(name) => ServicePort::Name(name.clone()),
            };
            let mut settings = KubernetesSettings::new(service.service.clone(), port);
            settings.namespace = Some(service.namespace.clone());
            settings.server.clone_from(&service.api_server);
            settings.pool = super::pool(service.pool);
            settings.model.clone_from(&service.model);
            settings.each = each(&service.each);
            Source::Kubernetes(settings)
        }
    }
}

/// What workers of one source have in common.
fn each(configured: &config::Each) -> Each {
    let (memory, restart) = (configured.memory.as_ref(), configured.restart.as_ref());
    Each {
        api_key: configured.api_key.as_ref().map(super::token),
        kv_events: super::kv_events(&configured.kv_events),
        priority_scheduling: configured.priority_scheduling,
        cache_salt: super::cache::salt(configured.cache_salt),
        stream_options: super::stream_options(configured.stream_options),
        kv_share: configured.kv_share,
        sequences_max: configured.max_num_seqs,
        care: super::care::care(memory, restart, configured.warm_up, |text| Template::new(text)),
    }
}

/// The section `termination`.
pub(super) fn termination(configured: &config::Termination) -> Option<TerminationSettings> {
    let cloud = match configured.cloud {
        config::Cloud::Off => return None,
        config::Cloud::Aws => Cloud::Aws,
        config::Cloud::Gcp => Cloud::Gcp,
        config::Cloud::Azure => Cloud::Azure,
    };
    let notice = NoticeSettings {
        server: configured.endpoint.clone(),
        interval: configured.interval.duration(),
        ..NoticeSettings::default()
    };
    Some(TerminationSettings { cloud, notice, workers: configured.workers.clone() })
}

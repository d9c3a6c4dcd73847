//! Service discovery settings: maps the section `discovery` to the gateway's sources.

use overdraft_config as config;
use overdraft_gateway::{
    Cloud, DnsSettings, FileSettings, KubernetesSettings, NoticeSettings, ServicePort, Source,
    TerminationSettings,
};

use super::workers::each;

/// One entry of `discovery`.
pub(super) fn source(configured: &config::Discovery) -> Source {
    match configured {
        config::Discovery::Dns(dns) => {
            let mut settings = DnsSettings::new(dns.name.clone(), dns.port);
            settings.server = dns.resolver;
            settings.pool = super::pool(dns.pool);
            settings.model.clone_from(&dns.model);
            settings.each = each(&dns.each);
            settings.each.is_encrypted |= dns.scheme == config::Scheme::Https;
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

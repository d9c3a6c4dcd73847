//! Tracing settings: maps the section `tracing`.

use overdraft_config as config;
use overdraft_gateway::{GenAi, TracingSettings};
use overdraft_otlp::{Attribute, Endpoint, ExporterSettings, Header, Parents};

/// Traces, where there is a collector. What cannot be sent was refused when the file was read.
pub(super) fn tracing(configured: &config::Tracing) -> Option<TracingSettings> {
    let endpoint = Endpoint::parse(configured.endpoint.as_deref()?).ok()?;
    let headers = &configured.headers;
    let headers = headers.iter().filter_map(|(name, value)| Header::new(name, value.reveal()).ok());
    let said = [
        ("service.name", configured.service.clone()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let said = said.into_iter().map(|(key, value)| Attribute::new(key, value));
    let more = configured
        .attributes
        .iter()
        .map(|(key, value)| Attribute { key: key.clone().into(), value: value.clone().into() });
    Some(TracingSettings {
        exporter: ExporterSettings {
            endpoint,
            headers: headers.collect(),
            timeout: configured.timeout.duration(),
            resource: said.chain(more).collect(),
        },
        sample_permille: configured.sample.permille(),
        parents: match configured.parents {
            config::Parents::Honour => Parents::Honoured,
            config::Parents::Ignore => Parents::Ignored,
        },
        gen_ai: match configured.gen_ai {
            config::GenAi::Off => GenAi::Off,
            config::GenAi::V1_36 => GenAi::V1_36,
            config::GenAi::Latest => GenAi::Latest,
        },
    })
}

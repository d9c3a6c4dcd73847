//! OpenTelemetry's own environment variables: they stand in where the section `tracing` says nothing else.
//!
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>. Operators of Kubernetes set
//! them for every process. A value that cannot be followed is refused: to trace otherwise than asked is worse.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::check::collector;
use crate::environment::Variables;
use crate::quantity::{Share, TimeSpan};
use crate::tree::{GenAi, Parents, Tracing};

/// The path of spans below the address of a collector.
const TRACES: &str = "/v1/traces";

/// The word that asks for the latest names of generative models.
const LATEST: &str = "gen_ai_latest_experimental";

impl Tracing {
    /// Takes what OpenTelemetry's variables say where this says nothing else.
    ///
    /// # Errors
    /// Says which of them cannot be followed.
    pub(crate) fn stand_in(&mut self, variables: &Variables) -> Result<(), String> {
        let default = Self::default();
        self.endpoint(variables)?;
        if self.headers.is_empty()
            && let Some((name, text)) = of(variables, "HEADERS")
        {
            self.headers =
                pairs(&name, text)?.into_iter().map(|(key, value)| (key, value.into())).collect();
        }
        if self.timeout == default.timeout
            && let Some((name, text)) = of(variables, "TIMEOUT")
        {
            let milliseconds = text.parse().ok().filter(|milliseconds| 0 < *milliseconds);
            let wrong = || format!("`{name}` is `{text}`; expected milliseconds");
            self.timeout = TimeSpan::from_millis(milliseconds.ok_or_else(wrong)?);
        }
        if (self.sample, self.parents) == (default.sample, default.parents) {
            self.sampler(variables)?;
        }
        if let Some(name) =
            variables.text("OTEL_SERVICE_NAME").filter(|_| self.service == default.service)
        {
            name.clone_into(&mut self.service);
        }
        if let Some(text) = variables.text("OTEL_RESOURCE_ATTRIBUTES") {
            for (key, value) in pairs("OTEL_RESOURCE_ATTRIBUTES", text)? {
                self.attributes.entry(key).or_insert(value);
            }
        }
        let opted = variables.text("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        if self.gen_ai == GenAi::Off && opted.split(',').any(|word| word.trim() == LATEST) {
            self.gen_ai = GenAi::Latest;
        }
        Ok(())
    }

    fn endpoint(&mut self, variables: &Variables) -> Result<(), String> {
        let is_disabled = variables.text("OTEL_SDK_DISABLED") == Some("true")
            || variables.text("OTEL_TRACES_EXPORTER") == Some("none");
        if self.endpoint.is_some() || is_disabled {
            return Ok(());
        }
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let (name, url) = match (variables.text(own), variables.text("OTEL_EXPORTER_OTLP_ENDPOINT"))
        {
            (Some(url), _) => (own, url.to_owned()),
            (None, Some(url)) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}{TRACES}", url.trim_end_matches('/')))
            }
            (None, None) => return Ok(()),
        };
        collector(&url).map_err(|why| format!("`{name}` {why}; expected an address of `http`"))?;
        if let Some((name, protocol)) =
            of(variables, "PROTOCOL").filter(|(_, protocol)| *protocol != "http/protobuf")
        {
            return Err(format!("`{name}` is `{protocol}`; expected `http/protobuf`"));
        }
        self.endpoint = Some(url);
        Ok(())
    }

    fn sampler(&mut self, variables: &Variables) -> Result<(), String> {
        let Some(word) = variables.text("OTEL_TRACES_SAMPLER") else { return Ok(()) };
        let (parents, word) = match word.strip_prefix("parentbased_") {
            Some(rest) => (Parents::Honour, rest),
            None => (Parents::Ignore, word),
        };
        let all = Share::from_permille(1_000).unwrap_or(self.sample);
        let none = Share::from_permille(0).unwrap_or(self.sample);
        let sample = match word {
            "always_on" => all,
            "always_off" => none,
            "traceidratio" => match variables.text("OTEL_TRACES_SAMPLER_ARG") {
                None => all,
                Some(text) => {
                    text.parse().map_err(|error| format!("`OTEL_TRACES_SAMPLER_ARG`: {error}"))?
                }
            },
            other => {
                return Err(format!(
                    "`OTEL_TRACES_SAMPLER` is `{other}`; expected `always_on`, `always_off` or `traceidratio`, \
                     each perhaps with `parentbased_` before it"
                ));
            }
        };
        (self.sample, self.parents) = (sample, parents);
        Ok(())
    }
}

/// A variable of the exporter: that of traces, else that of all signals.
fn of<'a>(variables: &'a Variables, what: &str) -> Option<(String, &'a str)> {
    ["TRACES_", ""].into_iter().find_map(|signal| {
        let name = format!("OTEL_EXPORTER_OTLP_{signal}{what}");
        variables.text(&name).map(|text| (name, text))
    })
}

/// `key=value` pairs between commas; values are percent-encoded.
fn pairs(name: &str, text: &str) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("`{name}` is no list of pairs; expected `key=value,key=value`");
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            Ok((key.trim().to_owned(), unescaped(value.trim()).ok_or_else(wrong)?))
        })
        .collect()
}

fn unescaped(text: &str) -> Option<String> {
    let is_escape = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%')
        .skip(1)
        .all(is_escape)
        .then(|| percent_decode_str(text))?
        .decode_utf8()
        .ok()
        .map(Cow::into_owned)
}

//! Service discovery section: DNS, file and Kubernetes.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::workers::{Each, Pool};

/// Where workers are found: one key, which says how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discovery {
    /// Behind a name, asked for again when its answers expire.
    Dns(Dns),
    /// In a file that is watched.
    File(WatchedFile),
    /// Behind a Kubernetes service.
    Kubernetes(Kubernetes),
}

impl Discovery {
    /// Its key, and what its workers have in common.
    pub(crate) const fn each(&self) -> (&'static str, &Each) {
        match self {
            Self::Dns(dns) => ("dns", &dns.each),
            Self::File(file) => ("file", &file.each),
            Self::Kubernetes(service) => ("kubernetes", &service.each),
        }
    }
}

/// Workers behind a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The name; one that begins with `_` is asked for SRV records.
    pub name: String,
    /// The port of every worker; SRV records bring their own.
    pub port: u16,
    /// How they are spoken to; `each.tls` means `https` as well.
    #[serde(default)]
    pub scheme: Scheme,
    /// What these workers are for.
    #[serde(default)]
    pub pool: Pool,
    /// The model they are expected to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What else they have in common.
    #[serde(default)]
    pub each: Each,
    /// The resolver to ask, instead of the system's: an IP address and a port.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::address::address_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub resolver: Option<SocketAddr>,
}

/// How workers are spoken to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// Encrypted; `each.tls` says whom they are believed, else the system's authorities vouch for them.
    Https,
}

/// Workers listed in a file that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedFile {
    /// The file.
    pub path: PathBuf,
    /// What they have in common.
    #[serde(default)]
    pub each: Each,
}

/// Workers behind a Kubernetes service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// The service's namespace.
    pub namespace: String,
    /// The service.
    pub service: String,
    /// The port of the endpoints: its name or its number.
    pub port: Port,
    /// What these workers are for.
    #[serde(default)]
    pub pool: Pool,
    /// The model they are expected to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What else they have in common.
    #[serde(default)]
    pub each: Each,
    /// The API server, instead of the cluster's own.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "super::web_url::shown"
    )]
    pub api_server: Option<String>,
}

/// A port by name or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Port;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port's name, or a number from 1 to 65535")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Port, E> {
                match u16::try_from(number) {
                    Ok(number) if number != 0 => Ok(Port::Number(number)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Port, E> {
                match text.parse() {
                    Ok(number) => self.visit_u64(number),
                    Err(_) if text.is_empty() => {
                        Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
                    }
                    Err(_) => Ok(Port::Name(text.to_owned())),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for Port {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u16(*number),
            Self::Name(name) => serializer.serialize_str(name),
        }
    }
}

impl JsonSchema for Port {
    fn schema_name() -> Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A port's name or its number.",
            "type": ["string", "integer"],
            "minimum": 1,
            "maximum": 65_535,
            "minLength": 1
        })
    }
}

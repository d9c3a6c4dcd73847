//! Service discovery section: DNS, file and Kubernetes.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::workers::{Each, Pool};

/// A source of workers: one key, which names its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discovery {
    /// A DNS name, which is resolved again when its answers expire.
    Dns(Dns),
    /// A file that is watched.
    File(WatchedFile),
    /// A Kubernetes service.
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

/// Workers behind a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The DNS name; for a name that begins with `_`, SRV records are looked up.
    pub name: String,
    /// Port of every worker; SRV records name their own ports.
    pub port: u16,
    /// Protocol of the workers; `each.tls` implies `https`.
    #[serde(default)]
    pub scheme: Scheme,
    /// Pool of these workers.
    #[serde(default)]
    pub pool: Pool,
    /// Model that these workers must serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Further settings of these workers.
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

/// Protocol of workers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// TLS; trusted authorities are those of `each.tls`, else those of the system.
    Https,
}

/// Workers listed in a file that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedFile {
    /// The file.
    pub path: PathBuf,
    /// Settings of these workers.
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
    /// Pool of these workers.
    #[serde(default)]
    pub pool: Pool,
    /// Model that these workers must serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Further settings of these workers.
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

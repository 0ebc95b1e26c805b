//! Hosts as a document and a request spell them.

use super::Scheme;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A host with its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Host {
    /// Which host, or which hosts.
    pub name: HostName,
    /// Its port.
    pub port: u16,
}

/// Which host. Ranges and suffixes are only in grants that take the host from a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostName {
    /// A name of the DNS, in lower case.
    Dns(String),
    /// An address.
    Address(IpAddr),
    /// All addresses of a range.
    Range(IpNet),
    /// All names with this end, such as `.example.com`.
    Suffix(String),
}

impl Host {
    /// `name`, `name:port`, `[::1]:port`, or a pattern: `10.0.0.0/8:443`, `*.example.com:443`.
    pub fn parse(text: &str, scheme: Scheme) -> Option<Self> {
        let default = match scheme {
            Scheme::Https => 443,
            Scheme::Http => 80,
        };
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                (address, rest.strip_prefix(':'))
            }
            // An address of IPv6 with a port needs brackets.
            None => match text.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') => (name, Some(port)),
                _ => (text, None),
            },
        };
        let port = match port {
            Some(digits) => digits.parse().ok().filter(|port| *port != 0)?,
            None => default,
        };
        let name = HostName::parse(name)?;
        Some(Self { name, port })
    }
}

impl HostName {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address));
        }
        if let Ok(range) = text.parse::<IpNet>() {
            return Some(Self::Range(range));
        }
        let lower = text.to_ascii_lowercase();
        match lower.strip_prefix('*') {
            Some(end) => {
                let rest = end.strip_prefix('.')?;
                is_dns_name(rest).then(|| Self::Suffix(end.to_owned()))
            }
            None => is_dns_name(&lower).then_some(Self::Dns(lower)),
        }
    }
}

/// RFC 1123; a name of digits alone would be read as an address by some resolvers.
pub(in crate::document) fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len())
            && label.chars().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last_is_name = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.contains(|c: char| c.is_ascii_alphabetic()));
    name.len() <= 253 && name.split('.').all(is_label) && last_is_name
}

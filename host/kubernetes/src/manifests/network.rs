//! The ports and addresses of a document's network grants, for the NetworkPolicy of its pods.

use http::Uri;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wasmount_core::document::network::{Host, HostName, NetworkGrant, ServiceName};

/// The port of a proxy whose URL has none, by its scheme (RFC 9110, "http URI Scheme").
const HTTP_PORT: u16 = 80;
/// The same with TLS.
const HTTPS_PORT: u16 = 443;

/// One port of a network grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPeer {
    /// The TCP port.
    pub port: u16,
    /// Address ranges in CIDR notation; empty: the host is named by its DNS name, which a NetworkPolicy cannot contain.
    pub ranges: Vec<String>,
    /// The controller service uses it.
    pub controller: bool,
    /// The node service uses it.
    pub node: bool,
}

/// What the pods of a backend reach. Behind a proxy that is the proxy alone.
pub fn network_peers(grants: &BTreeMap<String, NetworkGrant>) -> Vec<NetworkPeer> {
    let peers = grants.values().flat_map(|grant| {
        let reached: Vec<(u16, Vec<String>)> = match &grant.proxy {
            Some(proxy) => proxy_peer(proxy).into_iter().collect(),
            None => grant.hosts.iter().map(|host| reach(grant, host)).collect(),
        };
        reached.into_iter().map(|(port, ranges)| NetworkPeer {
            port,
            ranges,
            controller: grant.services.contains(&ServiceName::Controller),
            node: grant.services.contains(&ServiceName::Node),
        })
    });
    peers.collect()
}

fn reach(grant: &NetworkGrant, host: &Host) -> (u16, Vec<String>) {
    let ranges = match &host.name {
        HostName::Address(address) => vec![range_of(*address)],
        HostName::Range(range) => vec![range.to_string()],
        // Each address that it resolves to is in one of these.
        HostName::Dns(_) | HostName::Suffix(_) => {
            grant.addresses.iter().map(ToString::to_string).collect()
        }
    };
    (host.port, ranges)
}

fn proxy_peer(url: &str) -> Option<(u16, Vec<String>)> {
    let url = url.parse::<Uri>().ok()?;
    let default = match url.scheme_str() {
        Some("https") => HTTPS_PORT,
        _ => HTTP_PORT,
    };
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
    let ranges = host.parse().ok().map(range_of);
    let port = url.port_u16().unwrap_or(default);
    Some((port, ranges.into_iter().collect()))
}

fn range_of(address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}")
}

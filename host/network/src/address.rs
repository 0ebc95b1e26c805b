//! Which addresses a request may be sent to, and a resolver that returns only those: the checked address is the one that is connected to.

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use wasmount_core::document::network::{HostName, NetworkGrant};

/// Most addresses of one name that are used: more are not needed to reach a system, and the server of the name controls their number.
const ADDRESSES_MAX: usize = 16;
/// Metadata service of Alibaba Cloud; those of other clouds are link-local.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
/// Metadata service of AWS.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Which addresses a grant allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressRules {
    /// Addresses must be in one of these, if there are any.
    within: Vec<IpNet>,
    /// Addresses that `hosts` of the grant spells out.
    named: Vec<IpNet>,
    /// Services and pods of the cluster.
    cluster: Arc<[IpNet]>,
}

/// A name has an address that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address {0} is not allowed")]
pub(crate) struct NotAllowed(pub(crate) IpAddr);

/// Resolves names with the resolver of the system and checks each address.
pub(crate) struct CheckedResolver(pub(crate) Arc<AddressRules>);

impl AddressRules {
    pub(crate) fn of(grant: &NetworkGrant, cluster: &Arc<[IpNet]>) -> Self {
        let named = grant.hosts.iter().filter_map(|host| match &host.name {
            HostName::Address(address) => Some(IpNet::from(*address)),
            HostName::Range(range) => Some(*range),
            HostName::Dns(_) | HostName::Suffix(_) => None,
        });
        Self {
            within: grant.addresses.clone(),
            named: named.collect(),
            cluster: Arc::clone(cluster),
        }
    }

    /// Whether requests may be sent to an address.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), NotAllowed> {
        let plain = embedded(address).map_or(address, IpAddr::V4);
        let is_in = |ranges: &[IpNet]| {
            let holds = |range: &IpNet| range.contains(&address) || range.contains(&plain);
            ranges.iter().any(holds)
        };
        let is_special = is_special(address) || is_special(plain) || is_in(&self.cluster);
        let allowed = is_in(&self.named)
            || match self.within.is_empty() {
                true => !is_special,
                false => is_in(&self.within),
            };
        allowed.then_some(()).ok_or(NotAllowed(address))
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.0);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
            // One address that is not allowed makes the name unusable: an attacker who controls the name would only have to wait for it.
            for address in &addresses {
                rules.check(address.ip())?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Addresses that are no storage system unless the administrator says so.
fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, ..] = address.octets();
            first == 0
                || first >= 240
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address == METADATA_V4
        }
        IpAddr::V6(address) => {
            address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_unicast_link_local()
                || address == METADATA_V6
        }
    }
}

/// The address of IPv4 in one of IPv6: mapped and compatible (RFC 4291), NAT64 (RFC 6052), 6to4 (RFC 3056).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let from = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            (!address.is_loopback() && !address.is_unspecified()).then(|| from(high, low))
        }
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::grant;

    fn allows(document: &str, address: &str) -> bool {
        let cluster: Arc<[IpNet]> = ["10.96.0.0/12".parse().unwrap()].into();
        let rules = AddressRules::of(&grant(document), &cluster);
        rules.check(address.parse().unwrap()).is_ok()
    }

    #[test]
    fn addresses_of_ordinary_systems_are_allowed() {
        for address in [
            "10.1.2.3",
            "192.168.0.1",
            "203.0.113.7",
            "fd00::1",
            "2001:db8::1",
        ] {
            assert!(allows("{}", address), "{address}");
        }
    }

    #[test]
    fn special_addresses_are_refused_in_every_spelling() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "10.96.0.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.96.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
        ] {
            assert!(!allows("{}", address), "{address}");
        }
    }

    #[test]
    fn a_special_address_is_allowed_where_it_is_named() {
        let ranges = r#"{"addresses":["127.0.0.0/8"]}"#;
        assert!(allows(ranges, "127.0.0.1") && allows(ranges, "::ffff:127.0.0.1"));
        assert!(!allows(ranges, "10.1.2.3") && !allows(ranges, "::1"));
        let literal = r#"{"hosts":["169.254.169.254:80"]}"#;
        assert!(allows(literal, "169.254.169.254") && !allows(literal, "169.254.169.253"));
    }
}

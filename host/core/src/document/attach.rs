//! Grants to attach disks of storage systems: by which protocol, at which addresses, behind which targets.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Disks that the mounter may attach for a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachGrant {
    /// How they are reached.
    pub protocol: AttachProtocol,
    /// Where. Never empty.
    pub portals: Vec<Portals>,
    /// Patterns of the targets' names, IQN or NQN, or of pools with their namespaces: exact, or with a `*` at the end. Never empty.
    pub targets: Vec<String>,
    /// Mount options beyond the harmless ones.
    pub mount_options: Vec<String>,
}

named! {
    /// A protocol by which disks are attached, with its name in the document.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum AttachProtocol, name {
        /// iSCSI (RFC 7143).
        Iscsi = "iscsi",
        /// NVMe over TCP.
        NvmeTcp = "nvme-tcp",
        /// RBD: images of a Ceph cluster.
        Rbd = "rbd",
    }
}

/// Addresses with one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portals {
    /// One address, or a range.
    pub addresses: IpNet,
    /// Their port.
    pub port: u16,
}

impl AttachGrant {
    /// Whether it covers a portal.
    pub fn has_portal(&self, portal: SocketAddr) -> bool {
        self.portals.iter().any(|portals| portals.contain(portal))
    }
}

impl AttachProtocol {
    /// The keys of the document for addresses and for names of targets, as the protocol's own specification calls them.
    pub fn keys(self) -> [&'static str; 2] {
        match self {
            AttachProtocol::Iscsi => ["portals", "targets"],
            AttachProtocol::NvmeTcp => ["addresses", "subsystems"],
            AttachProtocol::Rbd => ["monitors", "pools"],
        }
    }
}

impl Portals {
    /// `10.1.1.5:3260`, `10.1.1.0/24:3260`, `[fd00::1]:3260`, `[fd00::/64]:3260`.
    pub fn parse(text: &str) -> Option<Self> {
        let (addresses, port) = text.rsplit_once(':')?;
        let in_brackets = addresses
            .strip_prefix('[')
            .map(|rest| rest.strip_suffix(']'));
        let addresses = in_brackets.unwrap_or(Some(addresses))?;
        let one = addresses.parse::<IpAddr>().map(IpNet::from);
        let addresses = one.or_else(|_| addresses.parse::<IpNet>()).ok()?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        // Without brackets an address of IPv6 has no clear end.
        let is_clear = matches!(addresses, IpNet::V4(_)) != in_brackets.is_some();
        is_clear.then_some(Self { addresses, port })
    }

    /// This one portal alone.
    pub fn of(portal: SocketAddr) -> Self {
        Self {
            addresses: portal.ip().into(),
            port: portal.port(),
        }
    }

    fn contain(&self, portal: SocketAddr) -> bool {
        self.port == portal.port() && self.addresses.contains(&portal.ip())
    }
}

impl fmt::Display for Portals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, port } = self;
        let is_one = addresses.prefix_len() == addresses.max_prefix_len();
        let shown = match is_one {
            true => addresses.addr().to_string(),
            false => addresses.to_string(),
        };
        match addresses {
            IpNet::V4(_) => write!(f, "{shown}:{port}"),
            IpNet::V6(_) => write!(f, "[{shown}]:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_addresses_or_ranges_with_a_port() {
        for (text, covered, other) in [
            ("10.1.1.5:3260", "10.1.1.5:3260", "10.1.1.6:3260"),
            ("10.1.1.0/24:3260", "10.1.1.7:3260", "10.1.1.7:3261"),
            ("[fd00::1]:4420", "[fd00::1]:4420", "[fd00::2]:4420"),
            ("[fd00::/64]:4420", "[fd00::9]:4420", "[fd01::9]:4420"),
        ] {
            let portals = Portals::parse(text).unwrap();
            assert_eq!(portals.to_string(), text);
            assert!(portals.contain(covered.parse().unwrap()), "{text}");
            assert!(!portals.contain(other.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_with_a_port_is_refused() {
        for text in [
            "",
            "10.1.1.5",
            "10.1.1.5:0",
            "10.1.1.5:70000",
            "10.1.1.0/33:1",
            "array.example.com:3260",
            "fd00::1:3260",
            "[10.1.1.5]:3260",
            "[fd00::1:3260",
            "*:3260",
        ] {
            assert_eq!(Portals::parse(text), None, "{text}");
        }
    }
}

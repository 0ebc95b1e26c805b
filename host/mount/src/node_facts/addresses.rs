//! The addresses of the node's own network interfaces, by which storage systems know it.
//!
//! An interface is the node's own if it is hardware, is above such a one (bond, VLAN, bridge, team), or bears the link address of one, as a bridge of
//! Open vSwitch does. So those of containers are left out: veth pairs, bridges without hardware, tunnels of a pod network.

use crate::failure::io;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use wasmount_core::mounter::MountError;

/// Interfaces of this kind (`DEVTYPE` of their uevent) are above hardware, and their addresses are those of an overlay.
const OVERLAYS: [&str; 2] = ["vxlan", "geneve"];
/// Flags of an address that is not to be used by others (`IFA_F_*` in linux/if_addr.h): temporary, failed, deprecated, tentative.
const UNSTABLE: u32 = 0x01 | 0x08 | 0x20 | 0x40;

/// What sysfs shows of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Interface {
    is_hardware: bool,
    is_overlay: bool,
    /// Its link address; empty: it has none.
    link_address: String,
    /// The interfaces below it.
    lower: Vec<String>,
}

/// The addresses, in order.
pub(super) fn own_addresses(sys: &Path, proc: &Path) -> Result<Vec<String>, MountError> {
    let interfaces = interfaces(sys)?;
    let own = own(&interfaces);
    if own.is_empty() {
        return Err(not_on_node_network());
    }
    // Absent: the kernel has no IPv6.
    let inet6 = fs::read_to_string(proc.join("net/if_inet6")).unwrap_or_default();
    let unstable = unstable(&inet6);
    let found = if_addrs::get_if_addrs()
        .map_err(|error| io("list", "the addresses of the node", &error))?
        .into_iter()
        .filter(|it| own.contains(it.name.as_str()))
        .map(|it| it.ip())
        .filter(|ip| is_usable(*ip) && !unstable.contains(ip));
    let found: BTreeSet<IpAddr> = found.collect();
    Ok(found.iter().map(IpAddr::to_string).collect())
}

/// Refuses to tell what only the network namespace of the node shows.
pub(super) fn ensure_node_network(sys: &Path) -> Result<(), MountError> {
    match interfaces(sys)?.values().any(|it| it.is_hardware) {
        true => Ok(()),
        false => Err(not_on_node_network()),
    }
}

fn not_on_node_network() -> MountError {
    MountError::unsupported(
        "a fact of the node's network",
        "no hardware is among the network interfaces here, so this is not the network of the node; run the mounter there (`hostNetwork: true` of its pod)",
    )
}

fn interfaces(sys: &Path) -> Result<BTreeMap<String, Interface>, MountError> {
    let net = sys.join("class/net");
    let failed = |error: &std::io::Error| io("list", net.display(), error);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&net).map_err(|error| failed(&error))? {
        let name = entry.map_err(|error| failed(&error))?.file_name();
        let Ok(name) = name.into_string() else {
            continue;
        };
        match interface(&net.join(&name)) {
            Ok(interface) => drop(found.insert(name, interface)),
            // It went meanwhile, or is a file of the bonding driver.
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(found)
}

fn interface(place: &Path) -> std::io::Result<Interface> {
    let text = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
    let mut lower = Vec::new();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        let below = name.to_str().and_then(|name| name.strip_prefix("lower_"));
        lower.extend(below.map(str::to_owned));
    }
    let uevent = text("uevent");
    let kinds = uevent
        .lines()
        .filter_map(|line| line.strip_prefix("DEVTYPE="));
    Ok(Interface {
        is_hardware: place.join("device").exists(),
        is_overlay: kinds.into_iter().any(|kind| OVERLAYS.contains(&kind)),
        link_address: text("address").trim().to_owned(),
        lower,
    })
}

/// The names of the node's own interfaces.
fn own(interfaces: &BTreeMap<String, Interface>) -> BTreeSet<&str> {
    let hardware = interfaces.values().filter(|it| it.is_hardware);
    let borne: BTreeSet<_> = hardware.map(|it| it.link_address.as_str()).collect();
    let is_borne =
        |it: &Interface| !it.link_address.is_empty() && borne.contains(it.link_address.as_str());
    let mut own = BTreeSet::new();
    loop {
        let before = own.len();
        for (name, it) in interfaces {
            let is_above = it.lower.iter().any(|lower| own.contains(lower.as_str()));
            if it.is_hardware || (!it.is_overlay && (is_above || is_borne(it))) {
                own.insert(name.as_str());
            }
        }
        if own.len() == before {
            return own;
        }
    }
}

/// A unicast address by which another machine reaches this one.
fn is_usable(ip: IpAddr) -> bool {
    let is_special = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast();
    !is_special
        && match ip {
            IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_broadcast(),
            IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        }
}

/// Addresses of `/proc/net/if_inet6` that may be gone soon, such as those for privacy (RFC 8981).
fn unstable(inet6: &str) -> BTreeSet<IpAddr> {
    let addresses = inet6.lines().filter_map(|line| {
        // Address, index, length of the prefix, scope, flags, name; numbers are hexadecimal.
        let mut columns = line.split_whitespace();
        let address = u128::from_str_radix(columns.next()?, 16).ok()?;
        let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
        (flags & UNSTABLE != 0).then(|| IpAddr::V6(Ipv6Addr::from(address)))
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(interfaces: &[(&str, Interface)]) -> Vec<String> {
        let interfaces = interfaces
            .iter()
            .map(|(name, it)| ((*name).to_owned(), it.clone()));
        let interfaces = interfaces.collect();
        own(&interfaces).into_iter().map(str::to_owned).collect()
    }

    fn hardware(link_address: &str) -> Interface {
        Interface {
            is_hardware: true,
            link_address: link_address.to_owned(),
            ..Interface::default()
        }
    }

    fn above(lower: &[&str]) -> Interface {
        Interface {
            lower: lower.iter().map(|name| (*name).to_owned()).collect(),
            ..Interface::default()
        }
    }

    fn bearing(link_address: &str) -> Interface {
        Interface {
            link_address: link_address.to_owned(),
            ..Interface::default()
        }
    }

    #[test]
    fn hardware_and_what_is_above_it_is_the_nodes_own() {
        assert_eq!(
            shown(&[
                ("a-bridge", above(&["vlan.5", "veth1"])),
                ("bond0", above(&["eth0", "eth1"])),
                ("br-ex", bearing("02:00:00:00:00:01")),
                ("eth0", hardware("02:00:00:00:00:01")),
                ("eth1", hardware("02:00:00:00:00:01")),
                ("vlan.5", above(&["bond0"])),
            ]),
            ["a-bridge", "bond0", "br-ex", "eth0", "eth1", "vlan.5"]
        );
    }

    #[test]
    fn interfaces_of_containers_are_not_the_nodes_own() {
        let overlay = Interface {
            is_overlay: true,
            ..above(&["eth0"])
        };
        assert_eq!(
            shown(&[
                ("cni0", above(&["veth1"])),
                ("dummy0", bearing("02:00:00:00:00:07")),
                ("eth0", hardware("02:00:00:00:00:01")),
                ("flannel.1", overlay),
                ("lo", bearing("00:00:00:00:00:00")),
                ("tun0", bearing("")),
                ("veth1", bearing("02:00:00:00:00:08")),
            ]),
            ["eth0"]
        );
        // Hardware without a link address lends none.
        assert_eq!(
            shown(&[("ib0", hardware("")), ("tun0", bearing(""))]),
            ["ib0"]
        );
    }

    #[test]
    fn an_address_is_usable_if_others_can_reach_it() {
        for (address, usable) in [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("fd00::1", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("169.254.1.1", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_usable(address.parse().unwrap()), usable, "{address}");
        }
    }

    #[test]
    fn addresses_for_a_short_time_are_left_out() {
        let inet6 = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     20010db8000000000000000000000001 02 40 00 80     eth0\n\
                     20010db8000000000000000000000002 02 40 00 01     eth0\n\
                     20010db8000000000000000000000003 02 40 00 20     eth0\n\
                     20010db8000000000000000000000004 02 40 00 48     eth0\n\
                     broken\n";
        let unstable: Vec<_> = unstable(inet6).iter().map(IpAddr::to_string).collect();
        assert_eq!(unstable, ["2001:db8::2", "2001:db8::3", "2001:db8::4"]);
    }

    #[test]
    fn interfaces_are_read_from_sysfs() {
        let sys = tempfile::tempdir().unwrap();
        let net = sys.path().join("class/net");
        for place in ["eth0/device", "flannel.1/lower_eth0"] {
            fs::create_dir_all(net.join(place)).unwrap();
        }
        fs::write(net.join("bonding_masters"), "").unwrap();
        fs::write(net.join("eth0/address"), "02:00:00:00:00:01\n").unwrap();
        fs::write(
            net.join("flannel.1/uevent"),
            "DEVTYPE=vxlan\nINTERFACE=flannel.1\n",
        )
        .unwrap();
        let mut found = interfaces(sys.path()).unwrap();
        assert_eq!(found.remove("eth0"), Some(hardware("02:00:00:00:00:01")));
        let overlay = Interface {
            is_overlay: true,
            ..above(&["eth0"])
        };
        assert_eq!(found.remove("flannel.1"), Some(overlay));
        assert!(ensure_node_network(sys.path()).is_ok());
        fs::remove_dir(net.join("eth0/device")).unwrap();
        assert!(ensure_node_network(sys.path()).is_err());
    }

    /// In a network namespace of its own, whose only interface is hardware by the test's sysfs: kernels of build machines have no other kind.
    #[test]
    fn privileged_addresses_of_own_interfaces_are_told() {
        let sys = tempfile::tempdir().unwrap();
        let net = sys.path().join("class/net");
        fs::create_dir_all(net.join("lo/device")).unwrap();
        let place = sys.path().to_owned();
        let told = std::thread::spawn(move || {
            #[allow(
                deprecated,
                reason = "the unsafe successor is about FILES, which is not asked for"
            )]
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).unwrap();
            let commands = "ip link set lo up\n\
                            ip address add 192.0.2.7/24 dev lo\n\
                            ip address add 192.0.2.9/24 dev lo\n\
                            ip address add 169.254.1.1/16 dev lo\n\
                            ip address add 2001:db8::7/64 dev lo nodad\n\
                            ip address add 2001:db8::8/64 dev lo nodad preferred_lft 0\n";
            let done = std::process::Command::new("sh")
                .args(["-ec", commands])
                .status();
            assert!(done.unwrap().success());
            let told = own_addresses(&place, Path::new("/proc/thread-self")).unwrap();
            fs::remove_dir(place.join("class/net/lo/device")).unwrap();
            let refused = own_addresses(&place, Path::new("/proc/thread-self")).unwrap_err();
            assert!(refused.to_string().contains("hostNetwork"), "{refused}");
            told
        });
        assert_eq!(
            told.join().unwrap(),
            ["192.0.2.7", "192.0.2.9", "2001:db8::7"]
        );
    }
}

//! The addresses of a server, as the kernel takes them: it resolves no names.
//!
//! It is apart because it is the one place of the room that asks a name service, and waits for it. It must not know what is mounted.

use crate::plan::filesystem::server::{AddressFamily, Server};
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use wasmount_core::mounter::MountError;

/// Most addresses that are tried: one that does not answer costs minutes of a thread, and two families of two are what servers have.
const ADDRESSES: usize = 4;

/// The addresses that will do, in the order of the name service; there may be none. Blocks.
pub(crate) fn resolve(server: &Server) -> Result<Vec<String>, MountError> {
    // The port is the file system's own business; without one there is nothing to look up.
    let found = (server.host.as_str(), 0)
        .to_socket_addrs()
        .map_err(|error| unusable(server, &error.to_string()))?;
    Ok(suitable(found, server.family))
}

/// That there is no address to try.
pub(crate) fn none(server: &Server) -> MountError {
    match server.family {
        Some(_) => unusable(
            server,
            "it has no address of the kind that option `proto` names",
        ),
        None => unusable(server, "it has no address"),
    }
}

fn unusable(server: &Server, reason: &str) -> MountError {
    MountError::Unusable {
        what: format!("server `{}`", server.host),
        reason: format!(
            "{reason}; check the name, and that the host's network namespace can resolve it"
        ),
    }
}

fn suitable(
    found: impl IntoIterator<Item = SocketAddr>,
    family: Option<AddressFamily>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    found
        .into_iter()
        .filter(|address| match family {
            None => true,
            Some(AddressFamily::V4) => address.is_ipv4(),
            Some(AddressFamily::V6) => address.is_ipv6(),
        })
        .map(text)
        .filter(|text| seen.insert(text.clone()))
        .take(ADDRESSES)
        .collect()
}

/// A link-local address is told with its interface's number, which the kernel takes for the name.
fn text(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        address => address.ip().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::code::Code;

    fn server(host: &str, family: Option<AddressFamily>) -> Server {
        Server {
            host: host.to_owned(),
            option: "addr",
            family,
        }
    }

    #[test]
    fn names_and_addresses_are_resolved() {
        let resolved = |host| resolve(&server(host, None)).unwrap();
        assert_eq!(resolved("127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(resolved("::1"), ["::1"]);
        let localhost = resolved("localhost");
        assert!(
            localhost.contains(&"127.0.0.1".to_owned()) || localhost.contains(&"::1".to_owned()),
            "{localhost:?}"
        );
    }

    #[test]
    fn a_name_without_an_address_is_told_with_what_to_check() {
        let error = resolve(&server("no-such-server.invalid", None)).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.to_string().contains("check the name"), "{error}");
        let other_kind = server("127.0.0.1", Some(AddressFamily::V6));
        assert_eq!(resolve(&other_kind), Ok(Vec::new()));
        let error = none(&other_kind);
        assert!(error.to_string().contains("`proto`"), "{error}");
    }

    #[test]
    fn only_suitable_addresses_are_tried_each_once_and_not_too_many() {
        let found: Vec<SocketAddr> = [
            "10.0.0.1:0",
            "[fd00::1]:0",
            "10.0.0.1:0",
            "10.0.0.2:0",
            "10.0.0.3:0",
            "10.0.0.4:0",
        ]
        .map(|text| text.parse().unwrap())
        .to_vec();
        assert_eq!(
            suitable(found.clone(), None),
            ["10.0.0.1", "fd00::1", "10.0.0.2", "10.0.0.3"]
        );
        assert_eq!(
            suitable(found.clone(), Some(AddressFamily::V6)),
            ["fd00::1"]
        );
        assert_eq!(suitable(found, Some(AddressFamily::V4)).len(), 4);
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let address = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, 3);
        assert_eq!(text(address.into()), "fe80::1%3");
    }
}

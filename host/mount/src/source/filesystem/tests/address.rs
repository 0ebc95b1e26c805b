//! Addresses of servers.

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
fn an_unresolvable_name_is_reported_with_a_hint() {
    let error = resolve(&server("no-such-server.invalid", None)).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.to_string().contains("check the name"), "{error}");
    let other_kind = server("127.0.0.1", Some(AddressFamily::V6));
    assert_eq!(resolve(&other_kind), Ok(Vec::new()));
    let error = no_address(&other_kind);
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

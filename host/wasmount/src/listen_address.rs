//! The address of a listener of the host, as a flag has it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where to listen; none: nowhere. A flag has it by this name: an `Option` would be a flag that may be left out.
pub(crate) type ListenAddress = Option<SocketAddr>;

/// Parses it. A port alone is one of the loopback address: what nobody named must not be reachable from elsewhere.
pub(crate) fn parse(value: &str) -> Result<ListenAddress, String> {
    if value == "off" {
        return Ok(None);
    }
    if let Ok(port) = value.strip_prefix(':').unwrap_or(value).parse() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        return Ok(Some(SocketAddr::new(loopback, port)));
    }
    value.parse().map(Some).map_err(|_| {
        "must be an address and port such as `127.0.0.1:9809`, a port, which is one of 127.0.0.1, or `off`"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_a_port_or_off_is_taken() {
        for (value, address) in [
            ("off", None),
            ("[::1]:80", Some("[::1]:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("80", Some("127.0.0.1:80")),
            (":80", Some("127.0.0.1:80")),
        ] {
            let address = address.map(|it| it.parse().unwrap());
            assert_eq!(parse(value).unwrap(), address);
        }
    }

    #[test]
    fn nothing_else_is_an_address() {
        for value in [
            "",
            ":",
            "localhost",
            "localhost:80",
            "127.0.0.1",
            "65536",
            "on",
        ] {
            assert!(parse(value).is_err(), "{value}");
        }
    }
}

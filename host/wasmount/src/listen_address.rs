//! The address of a listener of the host, as a flag has it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// Nowhere.
    Off,
    /// At an address.
    At(SocketAddr),
}

impl ListenAddress {
    /// The address, if there is one.
    pub(crate) fn at(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// A port alone is one of the loopback address: what nobody named must not be reachable from elsewhere.
    fn from_str(value: &str) -> Result<Self, String> {
        if value == "off" {
            return Ok(Self::Off);
        }
        if let Ok(port) = value.strip_prefix(':').unwrap_or(value).parse() {
            let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
            return Ok(Self::At(SocketAddr::new(loopback, port)));
        }
        value.parse().map(Self::At).map_err(|_| {
            "must be an address and port such as `127.0.0.1:9809`, a port, which is one of 127.0.0.1, or `off`"
                .to_owned()
        })
    }
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
            assert_eq!(ListenAddress::from_str(value).unwrap().at(), address);
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
            assert!(ListenAddress::from_str(value).is_err(), "{value}");
        }
    }
}

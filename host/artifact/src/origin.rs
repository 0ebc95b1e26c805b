//! Where a request goes, and where it may be sent on to.

use http::Uri;
use http::uri::Scheme;
use wasmount_core::document::Reference;

/// Redirects that are followed: registries need one, to where their blobs lie.
pub(crate) const REDIRECTS: u32 = 5;

/// The name of Docker's registry in references, and the host that answers for it.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// Why a request is not sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFollowed {
    /// Not an address of HTTP.
    NoAddress,
    /// Out of TLS.
    Downgrade,
    /// Too many in a row.
    Loop,
}

/// The address of the API of an artifact's registry: what a request's path is put behind.
pub(crate) fn base(reference: &Reference, plain_http: bool) -> String {
    let scheme = if plain_http { "http" } else { "https" };
    let (hub, answering) = DOCKER_HUB;
    let host = match reference.registry() {
        name if name == hub => answering,
        other => other,
    };
    format!("{scheme}://{host}/v2/{}", reference.repository())
}

/// Where `location`, an answer to `from`, leads after `followed` redirects.
pub(crate) fn redirected(from: &Uri, location: &str, followed: u32) -> Result<Uri, NotFollowed> {
    if followed >= REDIRECTS {
        return Err(NotFollowed::Loop);
    }
    resolved(from, location)
}

/// An address that may be relative to another (RFC 3986, section 5.2, but for `.` and `..`, which no registry sends).
pub(crate) fn resolved(from: &Uri, location: &str) -> Result<Uri, NotFollowed> {
    let (Some(scheme), Some(authority)) = (from.scheme_str(), from.authority()) else {
        return Err(NotFollowed::NoAddress);
    };
    // A scheme stands before the first `/`; one in a query is none.
    let first = location.split(['/', '?', '#']).next().unwrap_or_default();
    let absolute = if first.ends_with(':') {
        location.to_owned()
    } else if let Some(elsewhere) = location.strip_prefix("//") {
        format!("{scheme}://{elsewhere}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let (folder, _) = from.path().rsplit_once('/').unwrap_or_default();
        format!("{scheme}://{authority}{folder}/{location}")
    };
    // A fragment is no part of a request.
    let absolute = absolute.split('#').next().unwrap_or_default();
    let uri: Uri = absolute.parse().map_err(|_| NotFollowed::NoAddress)?;
    let Some(scheme) = uri.scheme().filter(|_| uri.host().is_some()) else {
        return Err(NotFollowed::NoAddress);
    };
    if ![Scheme::HTTP, Scheme::HTTPS].contains(scheme) {
        return Err(NotFollowed::NoAddress);
    }
    if from.scheme() == Some(&Scheme::HTTPS) && *scheme == Scheme::HTTP {
        return Err(NotFollowed::Downgrade);
    }
    Ok(uri)
}

/// Host, and port if one is named: on a machine of several registries the port says which. Never a user or a password.
pub(crate) fn place(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether both are one host at one port, spoken to alike: only then one may see the other's credentials.
pub(crate) fn same(one: &Uri, other: &Uri) -> bool {
    let place = |uri: &Uri| {
        let default = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => 443,
            _ => 80,
        };
        let host = uri.host().map(str::to_ascii_lowercase);
        (
            uri.scheme().cloned(),
            host,
            uri.port_u16().unwrap_or(default),
        )
    };
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_told_with_its_port_and_without_credentials() {
        for (from, told) in [
            ("https://a.b:5000/v2/", "a.b:5000"),
            ("https://a.b/v2/", "a.b"),
            ("http://ann:hunter2@[::1]:5000/", "[::1]:5000"),
        ] {
            assert_eq!(place(&uri(from)), told);
        }
    }

    #[test]
    fn a_location_is_read_relative_to_what_was_asked() {
        let from = uri("https://a.b:5000/v2/c/blobs/x?y=1");
        for (location, to) in [
            ("https://d.e/f?g#h", "https://d.e/f?g"),
            ("//d.e/f", "https://d.e/f"),
            ("/f?g=1", "https://a.b:5000/f?g=1"),
            ("z", "https://a.b:5000/v2/c/blobs/z"),
            ("/f?to=http://d.e/", "https://a.b:5000/f?to=http://d.e/"),
        ] {
            assert_eq!(redirected(&from, location, 0), Ok(uri(to)), "{location}");
        }
    }

    #[test]
    fn nobody_is_led_out_of_tls_in_circles_or_nowhere() {
        let from = uri("https://a.b/v2/c");
        for (location, followed, why) in [
            ("http://a.b/v2/c", 0, NotFollowed::Downgrade),
            ("/again", REDIRECTS, NotFollowed::Loop),
            ("file:///etc/passwd", 0, NotFollowed::NoAddress),
            ("ftp://a.b/x", 0, NotFollowed::NoAddress),
            ("https://", 0, NotFollowed::NoAddress),
            ("/a b", 0, NotFollowed::NoAddress),
        ] {
            assert_eq!(
                redirected(&from, location, followed),
                Err(why),
                "{location}"
            );
        }
        let plain = uri("http://a.b/v2/c");
        assert!(redirected(&plain, "https://a.b/v2/c", REDIRECTS - 1).is_ok());
    }

    #[test]
    fn credentials_stay_with_their_host() {
        let home = uri("https://a.b/v2/c");
        for (other, is_same) in [
            ("https://A.B:443/x", true),
            ("https://a.b:444/x", false),
            ("http://a.b/x", false),
            ("https://a.b.evil.c/x", false),
            ("https://a.b@evil.c/x", false),
        ] {
            assert_eq!(same(&home, &uri(other)), is_same, "{other}");
        }
    }

    #[test]
    fn the_registry_of_docker_answers_elsewhere() {
        let reference = Reference::parse("docker.io/library/x:1").unwrap();
        assert_eq!(
            base(&reference, false),
            "https://registry-1.docker.io/v2/library/x"
        );
        let reference = Reference::parse("localhost:5000/x:1").unwrap();
        assert_eq!(base(&reference, true), "http://localhost:5000/v2/x");
    }
}

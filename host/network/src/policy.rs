//! What a request may be: the rules of its grant and of the call that sends it. Pure decisions.

use crate::error::SendError;
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request};
use std::sync::Arc;
use tokio::time::Instant;
use wasmount_core::document::network::{Auth, Give, Host, HostName, NetworkGrant, ServiceName};
use wasmount_core::secrets::Secrets;

/// The header in which a plugin describes a request to the host; it is not sent.
pub const MARKS: HeaderName = HeaderName::from_static("wasmount-request");

/// Headers that belong to the connection (RFC 9110, section 7.6.1) or that the host sets.
const OF_THE_HOST: [HeaderName; 11] = [
    MARKS,
    HOST,
    CONNECTION,
    CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The call that sends a request.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The CSI service of the call.
    pub service: ServiceName,
    /// It may change something.
    pub may_change: bool,
    /// When the answer must be there.
    pub deadline: Instant,
    /// Appears in log lines.
    pub request_id: String,
    /// The secrets of the call, one of which may name the host.
    pub request_secrets: Arc<Secrets>,
}

/// What a plugin says about a request, in the header [`MARKS`], separated by commas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// `read`: it changes nothing, whatever its method.
    pub read: bool,
    /// `undo`: if it succeeds, or its object is not found, everything that the call sent before is undone.
    pub undo: bool,
    /// `idempotent`: it may be repeated.
    pub idempotent: bool,
}

impl Marks {
    /// The marks in the headers; unknown ones have no effect.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut marks = Self::default();
        let texts = headers.get_all(MARKS);
        for text in texts.iter().filter_map(|value| value.to_str().ok()) {
            for mark in text.split(',').map(str::trim) {
                marks.read |= mark == "read";
                marks.undo |= mark == "undo";
                marks.idempotent |= mark == "idempotent";
            }
        }
        marks
    }
}

/// Whether a request changes nothing.
pub(crate) fn is_read(method: &Method, headers: &HeaderMap) -> bool {
    method.is_safe() || Marks::of(headers).read
}

/// Checks a request against its grant; `name` is the grant's.
pub(crate) fn check(
    name: &str,
    grant: &NetworkGrant,
    scope: &Scope,
    request: &Request<Bytes>,
) -> Result<(), SendError> {
    let refused = |reason: String| SendError::NotGranted {
        grant: name.to_owned(),
        reason,
    };
    if !grant.services.contains(&scope.service) {
        let service = match scope.service {
            ServiceName::Controller => "controller",
            ServiceName::Node => "node",
        };
        return Err(refused(format!(
            "add `{service}` to grants.network.{name}.services"
        )));
    }
    let method = request.method();
    if !grant.methods.contains(method.as_str()) {
        return Err(refused(format!(
            "add `{method}` to grants.network.{name}.methods"
        )));
    }
    let path = request.uri().path();
    if !is_normal(path) {
        let reason = "its path must be absolute, without empty, `.`, `..` or encoded parts of such";
        return Err(refused(reason.to_owned()));
    }
    if !allows_path(grant, path) {
        return Err(refused(format!(
            "add its path to grants.network.{name}.paths"
        )));
    }
    if !scope.may_change && !is_read(method, request.headers()) {
        return Err(SendError::ReadOnly {
            grant: name.to_owned(),
        });
    }
    let limit = grant.max_body_bytes;
    if u64::try_from(request.body().len()).unwrap_or(u64::MAX) > limit {
        return Err(SendError::RequestTooLarge {
            grant: name.to_owned(),
            limit,
        });
    }
    Ok(())
}

/// Whether a grant includes a path. A path with several readings is in none.
pub(crate) fn allows_path(grant: &NetworkGrant, path: &str) -> bool {
    is_normal(path) && grant.paths.iter().any(|granted| covers(granted, path))
}

/// The headers of a request without those that belong to the host; credentials are the host's where the grant has them.
pub(crate) fn headers_to_send(grant: &NetworkGrant, mut headers: HeaderMap) -> HeaderMap {
    for name in OF_THE_HOST {
        headers.remove(name);
    }
    let of_credentials = match &grant.auth {
        Auth::None => None,
        Auth::Header { name, .. } => Some(name.as_str()),
        Auth::Session(session) => match &session.give {
            Give::Header(name) => Some(name.as_str()),
            Give::Bearer => Some(AUTHORIZATION.as_str()),
            Give::Cookie(_) => Some(COOKIE.as_str()),
            Give::Query(_) => None,
        },
        Auth::Basic(_) | Auth::Bearer(_) | Auth::Jwt(_) | Auth::SessionOf(_) => {
            Some(AUTHORIZATION.as_str())
        }
    };
    if let Some(name) = of_credentials {
        headers.remove(name);
    }
    headers
}

/// The host that a request names in its secret, if the grant covers it.
pub(crate) fn host_of_request(
    name: &str,
    grant: &NetworkGrant,
    secret: &str,
    secrets: &Secrets,
) -> Result<Host, SendError> {
    let no_host = |reason: &str| SendError::NoHost {
        grant: name.to_owned(),
        reason: reason.to_owned(),
    };
    let text = secrets
        .get(secret)
        .ok_or_else(|| no_host(&format!("the request has no secret `{secret}`")))?;
    let host = Host::parse(text, grant.scheme)
        .filter(|host| matches!(host.name, HostName::Dns(_) | HostName::Address(_)))
        .ok_or_else(|| no_host(&format!("the request's secret `{secret}` is not a host")))?;
    let is_granted = grant.hosts.iter().any(|granted| includes(granted, &host));
    is_granted.then_some(host).ok_or_else(|| {
        no_host(&format!(
            "the host in the request's secret `{secret}` is not in `hosts` of the grant"
        ))
    })
}

/// Whether a host, or a pattern of hosts, includes another host.
pub(crate) fn includes(granted: &Host, host: &Host) -> bool {
    granted.port == host.port
        && match (&granted.name, &host.name) {
            (HostName::Range(range), HostName::Address(address)) => range.contains(address),
            (HostName::Suffix(end), HostName::Dns(name)) => name.ends_with(end.as_str()),
            (granted, host) => granted == host,
        }
}

/// Whether a path leads to one place, whoever reads it. Servers treat an encoded dot, a backslash and an empty segment differently. An encoded slash is a
/// part of a name (such as that of an image of Ceph), and a server that takes it for a slash is led to something below the same place.
fn is_normal(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2f", "/");
    let path = path.replace("%3b", ";");
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let encoded = ["%2e", "%5c", "%00"].iter().any(|it| path.contains(it));
    // Servers of Java drop the parameters of a segment (RFC 3986, 3.3) before they resolve dots.
    let is_dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
    // A slash at the end is no empty segment.
    let mut parts = rest.strip_suffix('/').unwrap_or(rest).split('/');
    !encoded
        && !path.contains('\\')
        && (rest.is_empty() || parts.all(|part| !part.is_empty() && !is_dots(part)))
}

/// Whether a granted path is this one or above it.
fn covers(granted: &str, path: &str) -> bool {
    path.strip_prefix(granted)
        .is_some_and(|rest| rest.is_empty() || granted.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::grant;
    use std::time::Duration;

    fn scope(service: ServiceName, may_change: bool) -> Scope {
        Scope {
            service,
            may_change,
            deadline: Instant::now() + Duration::from_secs(60),
            request_id: "request-1".to_owned(),
            request_secrets: Arc::default(),
        }
    }

    fn checked(document: &str, scope: &Scope, line: &str) -> Result<(), SendError> {
        let grant = grant(document);
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let mut request = Request::builder().method(method).uri(path);
        if let Some(mark) = words.next() {
            request = request.header(MARKS, mark);
        }
        let request = request.body(Bytes::from_static(b"body")).unwrap();
        check("array", &grant, scope, &request)
    }

    #[test]
    fn a_request_within_its_grant_passes() {
        let all = scope(ServiceName::Controller, true);
        for (document, line) in [
            ("{}", "POST /volumes?name=a%2Fb"),
            (r#"{"paths":["/api/"]}"#, "GET /api/volumes"),
            (r#"{"paths":["/api"]}"#, "GET /api"),
            (r#"{"paths":["/api"]}"#, "GET /api/volumes/"),
            (r#"{"paths":["/api"]}"#, "GET /api/pool%2Fimage/a"),
            (r#"{"methods":["GET"]}"#, "GET /"),
        ] {
            assert_eq!(checked(document, &all, line), Ok(()), "{line}");
        }
        let reads = scope(ServiceName::Controller, false);
        for line in ["GET /a", "HEAD /a", "POST /search read"] {
            assert_eq!(checked("{}", &reads, line), Ok(()), "{line}");
        }
        let node = scope(ServiceName::Node, true);
        let both = r#"{"services":["controller","node"]}"#;
        assert_eq!(checked(both, &node, "GET /a"), Ok(()));
    }

    #[test]
    fn a_request_outside_of_its_grant_is_refused() {
        let all = scope(ServiceName::Controller, true);
        for (document, line, reason) in [
            (
                r#"{"methods":["GET"]}"#,
                "POST /a",
                "add `POST` to grants.network.array.methods",
            ),
            (
                r#"{"paths":["/api"]}"#,
                "GET /apis",
                "add its path to grants.network.array.paths",
            ),
            (
                r#"{"services":["node"]}"#,
                "GET /a",
                "add `controller` to grants.network.array.services",
            ),
        ] {
            let refused = checked(document, &all, line);
            let expected = SendError::NotGranted {
                grant: "array".to_owned(),
                reason: reason.to_owned(),
            };
            assert_eq!(refused, Err(expected), "{line}");
        }
        for path in [
            "/api/../admin",
            "/api/..",
            "//admin",
            "/api//b",
            "/api/%2e%2e/b",
            "/api/%2Fb",
            "/api/a%2f..%2f..%2fadmin",
            "/api/a%2F.",
            "/a/./b",
            "/api/%5c..",
            "/api/..;/admin",
            "/api/..%3Bx=1/admin",
            "/api/.;",
        ] {
            let refused = checked("{}", &all, &format!("GET {path}"));
            assert!(
                matches!(refused, Err(SendError::NotGranted { .. })),
                "{path}"
            );
        }
        let large = checked(r#"{"maxBody":3}"#, &all, "POST /a");
        assert!(matches!(
            large,
            Err(SendError::RequestTooLarge { limit: 3, .. })
        ));
        let reads = scope(ServiceName::Controller, false);
        for line in ["POST /a", "DELETE /a", "POST /a undo"] {
            let refused = checked("{}", &reads, line);
            assert!(matches!(refused, Err(SendError::ReadOnly { .. })), "{line}");
        }
    }

    #[test]
    fn headers_of_the_host_are_not_the_plugins() {
        let headers = |names: &[&'static str]| -> HeaderMap {
            let value = http::HeaderValue::from_static("x");
            let pairs = names
                .iter()
                .map(|name| (HeaderName::from_static(name), value.clone()));
            pairs.collect()
        };
        let given = headers(&[
            "host",
            "connection",
            "proxy-authorization",
            "transfer-encoding",
            "wasmount-request",
            "authorization",
            "accept",
        ]);
        let open = headers_to_send(&grant("{}"), given.clone());
        assert_eq!(open, headers(&["authorization", "accept"]));
        let basic = grant(r#"{"auth":{"basic":{"username":"user","password":"password"}}}"#);
        assert_eq!(headers_to_send(&basic, given), headers(&["accept"]));
    }

    #[test]
    fn a_host_of_a_request_is_within_the_hosts_of_its_grant() {
        let granted = grant(
            r#"{"hosts":["10.1.0.0/28:443","*.example.com:8443"],"hostFrom":{"requestSecret":"backend"}}"#,
        );
        let found = |value: &str| {
            let secrets = Secrets::from_iter([("backend".to_owned(), value.to_owned())]);
            host_of_request("array", &granted, "backend", &secrets).is_ok()
        };
        for host in ["10.1.0.3", "10.1.0.3:443", "a.example.com:8443"] {
            assert!(found(host), "{host}");
        }
        for host in [
            "10.1.0.16",
            "10.1.0.3:80",
            "example.com:8443",
            "a.example.com",
            "10.1.0.0/28",
            "",
            "evil.test:8443",
            "a.example.com.evil.test:8443",
        ] {
            assert!(!found(host), "{host}");
        }
        let none = host_of_request("array", &granted, "backend", &Secrets::default());
        assert!(none.is_err());
    }
}

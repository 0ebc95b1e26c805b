//! Which requests the status page answers, and the headers of its answers. A browser sends requests for other sites' pages, too: neither such a page
//! nor a text of a plugin may do anything here.

use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;

/// What visitors are measured by.
#[derive(Debug)]
pub(super) struct Visited {
    bound: IpAddr,
    policy: HeaderValue,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    /// Another method than GET.
    Method,
    /// It names another host: a browser sent it for a page of that name, which somebody pointed to this address (DNS rebinding).
    Host,
}

impl Visited {
    /// Of a page that is served at this address. Its policy takes the page's own style and script, and nothing else.
    pub(super) fn of_page(page: &str, bound: IpAddr) -> Self {
        let (style, script) = (hash(page, "style"), hash(page, "script"));
        let policy = format!(
            "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        // It is ASCII.
        let policy = HeaderValue::try_from(policy);
        let nothing = HeaderValue::from_static("default-src 'none'");
        Self {
            bound,
            policy: policy.unwrap_or(nothing),
        }
    }

    fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Rejection> {
        if method != Method::GET {
            return Some(Rejection::Method);
        }
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next(), uri.authority()) {
            (Some(host), None, None) if is_named(host, self.bound) => None,
            _ => Some(Rejection::Host),
        }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        match self {
            Self::Method => {
                let allow = [(ALLOW, HeaderValue::from_static("GET"))];
                let message = "the status page only shows\n";
                (StatusCode::METHOD_NOT_ALLOWED, allow, message).into_response()
            }
            Self::Host => {
                let message =
                    "the status page answers to localhost and to the address that it listens on\n";
                (StatusCode::MISDIRECTED_REQUEST, message).into_response()
            }
        }
    }
}

/// Answers, or rejects; the headers are those of both.
pub(super) async fn guard(
    State(visited): State<Arc<Visited>>,
    request: Request,
    next: Next,
) -> Response {
    let rejection = visited.judge(request.method(), request.uri(), request.headers());
    let mut response = match rejection {
        None => next.run(request).await,
        Some(rejection) => rejection.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, visited.policy.clone());
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a `Host` is a name of this machine that nobody else can give out. The port is any: it may be forwarded.
fn is_named(host: &HeaderValue, bound: IpAddr) -> bool {
    // No authority is empty.
    let host = host.to_str().unwrap_or_default();
    let authority = host.parse::<Authority>().ok();
    let Some(authority) = authority.filter(|_| !host.contains('@')) else {
        return false;
    };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match address.unwrap_or(name).parse::<IpAddr>() {
        // An address is no name that could be pointed elsewhere, but only ours is ours.
        Ok(address) => address.is_loopback() || address == bound || bound.is_unspecified(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// The content of an element of the page, as a policy names it.
fn hash(page: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let content = page.split_once(&open).map_or("", |(_, rest)| rest);
    let content = content
        .split_once(&close)
        .map_or("", |(content, _)| content);
    let digest = BASE64_STANDARD.encode(Sha256::digest(content));
    format!("'sha256-{digest}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(bound: &str, method: Method, uri: &str, hosts: &[&str]) -> Option<Rejection> {
        let visited = Visited::of_page("", bound.parse().unwrap());
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        visited.judge(&method, &uri.parse().unwrap(), &headers)
    }

    #[test]
    fn names_of_this_machine_are_answered_at_any_port() {
        for (bound, host) in [
            ("127.0.0.1", "localhost"),
            ("127.0.0.1", "LocalHost:8080"),
            ("127.0.0.1", "127.0.0.1:9811"),
            ("127.0.0.1", "127.9.9.9"),
            ("127.0.0.1", "[::1]:9811"),
            ("10.0.0.7", "10.0.0.7:9811"),
            ("10.0.0.7", "localhost"),
            ("0.0.0.0", "10.0.0.7"),
            ("::", "[fd00::7]:9811"),
        ] {
            let judged = judged(bound, Method::GET, "/", &[host]);
            assert_eq!(judged, None, "{bound} {host}");
        }
    }

    #[test]
    fn any_other_name_is_rejected() {
        for (bound, host) in [
            ("127.0.0.1", "example.com"),
            ("127.0.0.1", "localhost.example.com"),
            ("127.0.0.1", "127.0.0.1.example.com:9811"),
            ("127.0.0.1", "10.0.0.7"),
            ("127.0.0.1", "localhost@example.com"),
            ("127.0.0.1", "example.com@localhost"),
            ("127.0.0.1", ""),
            ("127.0.0.1", "local host"),
            ("10.0.0.7", "10.0.0.8"),
            ("0.0.0.0", "example.com"),
        ] {
            let judged = judged(bound, Method::GET, "/", &[host]);
            assert_eq!(judged, Some(Rejection::Host), "{bound} {host}");
        }
    }

    #[test]
    fn a_request_without_one_plain_host_is_rejected() {
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["localhost", "localhost"]),
            ("http://example.com/", &["localhost"]),
        ] {
            let judged = judged("127.0.0.1", Method::GET, uri, hosts);
            assert_eq!(judged, Some(Rejection::Host), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn only_get_is_answered() {
        for method in [Method::POST, Method::HEAD, Method::OPTIONS, Method::DELETE] {
            let judged = judged("127.0.0.1", method, "/", &["localhost"]);
            assert_eq!(judged, Some(Rejection::Method));
        }
    }

    /// By another program: `printf 'a' | openssl dgst -sha256 -binary | base64`.
    #[test]
    fn the_policy_has_the_hashes_of_style_and_script() {
        let page = "<style>a</style><script>b</script>";
        let visited = Visited::of_page(page, IpAddr::from([127, 0, 0, 1]));
        let policy = visited.policy.to_str().unwrap();
        for part in [
            "default-src 'none'; ",
            "style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='; ",
            "script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='; ",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
    }
}

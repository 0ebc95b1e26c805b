//! One request to a registry: sent within time limits, redirected, authorized at most once; its response is checked and read within bounds.

use super::Registry;
use super::response::{Failed, header, innermost, place};
use crate::access::{Access, Progress, Step};
use crate::error::RegistryError;
use crate::text::{QUOTED_CHARACTERS, REASON_CHARACTERS, shorten};
use crate::trust;
use bytes::Bytes;
use futures::stream;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::time::{Instant, sleep, timeout_at};
use wasmount_core::document::Reference;
use wasmount_core::text::found_in;

/// The client's name in the logs of a registry.
const AGENT: &str = concat!("wasmount/", env!("CARGO_PKG_VERSION"));
/// Redirects that are followed: registries need one, to the storage of their blobs.
const REDIRECTS: u32 = 5;
/// A body is sent in pieces of this many bytes: small enough for a smooth progress bar.
const PIECE_BYTES: usize = 64 << 10;

/// What is wrong with an address that cannot be used.
pub(super) const NO_ADDRESS: &str = "which is no address";

/// Docker's registry in references, and the host that serves it.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A request.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    /// What is requested, for messages.
    pub(super) what: &'a str,
    /// Media types that are accepted.
    pub(super) accept: Option<&'static str>,
    /// Media type and bytes of the body.
    pub(super) content: Option<(&'a str, Bytes)>,
    /// Whether the token must allow a push.
    pub(super) pushes: bool,
}

impl<'a> Call<'a> {
    pub(super) fn get(url: Url, what: &'a str) -> Self {
        Self {
            method: Method::GET,
            url,
            what,
            accept: None,
            content: None,
            pushes: false,
        }
    }

    pub(super) fn push(method: Method, url: Url, what: &'a str) -> Self {
        Self {
            method,
            pushes: true,
            ..Self::get(url, what)
        }
    }

    /// A request that changes something is not redirected: another host would get the bytes.
    fn may_be_redirected(&self) -> bool {
        [Method::GET, Method::HEAD].contains(&self.method)
    }
}

/// A client that trusts the certificates of `access`, follows no redirects on its own and uses no proxy.
pub(super) fn client(access: &Access) -> Result<Client, RegistryError> {
    Client::builder()
        .tls_backend_preconfigured(trust::client(
            &access.system_ca,
            access.extra_ca.as_deref(),
        )?)
        .connect_timeout(access.limits.connect)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .user_agent(AGENT)
        .build()
        .map_err(|error| trust::unusable(&innermost(&error)))
}

impl Registry {
    /// Retries an attempt with growing pauses until it succeeds or must not be repeated; the time limit of the transfer bounds everything.
    pub(super) async fn retried<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> Result<T, Failed>,
    ) -> Result<T, RegistryError> {
        let mut made = 0;
        loop {
            let Failed { mut error, retry } = match timeout_at(self.deadline, attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failed)) => failed,
                Err(_) => {
                    let seconds = self.access.limits.total.as_secs();
                    let reason = format!("not done after {seconds} s");
                    return Err(self.slow(what, self.host(), reason));
                }
            };
            made += 1;
            if let RegistryError::Busy { attempts, .. } = &mut error {
                *attempts = made;
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let limits = &self.access.limits;
            let Some(pause) = retry.and_then(|after| limits.pause(made, after, left)) else {
                return Err(error);
            };
            let milliseconds = pause.as_millis();
            tracing::info!(%error, attempt = made, milliseconds, "trying again");
            sleep(pause).await;
        }
    }

    /// The successful response to one request.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Response, Failed> {
        let mut url = call.url.clone();
        let mut redirects = 0;
        let mut challenged = false;
        loop {
            let at_home = is_same_origin(&url, &self.base);
            let response = self.send_once(call, url.clone(), at_home).await?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && at_home && !challenged {
                challenged = true;
                if self.authorize(response.headers(), call).await? {
                    continue;
                }
            }
            if status.is_redirection() && call.may_be_redirected() {
                if redirects == REDIRECTS {
                    return Err(Failed::from(RegistryError::Other(format!(
                        "{}: the registry {} redirected more than {REDIRECTS} times; its redirects form a loop: correct its address, or that of \
                         its storage",
                        call.what,
                        place(&url)
                    ))));
                }
                redirects += 1;
                url = location(&url, response.headers(), call.what)?;
                continue;
            }
            return self.checked(response, call.what).await;
        }
    }

    async fn send_once(
        &self,
        call: &Call<'_>,
        url: Url,
        at_home: bool,
    ) -> Result<Response, Failed> {
        let mut request = self.client.request(call.method.clone(), url);
        if let Some(media_types) = call.accept {
            request = request.header(ACCEPT, media_types);
        }
        // Neither password nor token is sent to another origin.
        if at_home {
            request = self.authorized(request);
        }
        match &call.content {
            Some((media_type, bytes)) => {
                let request = request
                    .header(CONTENT_TYPE, *media_type)
                    .header(CONTENT_LENGTH, bytes.len())
                    .body(in_pieces(bytes.clone(), self.progress.clone()));
                // The upload time of the bytes is not known: only the whole transfer is limited.
                self.response(request, call.what, self.deadline).await
            }
            None => {
                // A POST or PUT without a body needs a length too (RFC 9110, "Content-Length").
                if !call.may_be_redirected() {
                    request = request.header(CONTENT_LENGTH, 0);
                }
                let silence = Instant::now() + self.access.limits.silence;
                self.response(request, call.what, silence).await
            }
        }
    }

    /// The head of a response, which must arrive before `by`.
    pub(super) async fn response(
        &self,
        request: RequestBuilder,
        what: &str,
        by: Instant,
    ) -> Result<Response, Failed> {
        let (client, request) = request.build_split();
        let request = request.map_err(|error| self.malformed(what, &innermost(&error)))?;
        let host = place(request.url());
        match timeout_at(by, client.execute(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(match found_in::<rustls::Error>(&error) {
                Some(tls) => {
                    // The error quotes names of the certificate.
                    let reason = shorten(&tls.to_string(), REASON_CHARACTERS);
                    Failed::from(trust::untrusted(&host, &reason))
                }
                None => Failed::transient(RegistryError::Down {
                    host,
                    reason: innermost(&error),
                }),
            }),
            Err(_) => Err(self.silent(what, host)),
        }
    }

    pub(super) fn silent(&self, what: &str, host: String) -> Failed {
        let seconds = self.access.limits.silence.as_secs();
        let reason = format!("no data arrived for {seconds} s");
        Failed::transient(self.slow(what, host, reason))
    }

    fn slow(&self, what: &str, host: String, reason: String) -> RegistryError {
        RegistryError::Slow {
            what: what.to_owned(),
            host,
            reason,
        }
    }
}

/// The URL of the API for a repository, which ends with `/`.
pub(super) fn base(reference: &Reference, plain_http: bool) -> Result<Url, RegistryError> {
    let scheme = if plain_http { "http" } else { "https" };
    let (hub, answering) = DOCKER_HUB;
    let host = match reference.registry() {
        name if name == hub => answering,
        other => other,
    };
    let base = format!("{scheme}://{host}/v2/{}/", reference.repository());
    base.parse().map_err(|_| RegistryError::Down {
        host: reference.registry().to_owned(),
        reason: "its name is not one of a host".to_owned(),
    })
}

/// Whether both have the same host, port and scheme: only then may one see the other's credentials.
fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// The target of a redirect by `from`, relative or absolute; never from TLS to plain HTTP.
pub(super) fn location(from: &Url, headers: &HeaderMap, what: &str) -> Result<Url, RegistryError> {
    let location = header(headers, &LOCATION).unwrap_or_default();
    let bad = |reason| bad_redirect(what, place(from), location, reason);
    let to = from.join(location).ok().filter(|_| !location.is_empty());
    let to = to.ok_or_else(|| bad(NO_ADDRESS))?;
    safe_target(to, from.scheme() == "http").map_err(bad)
}

/// An address that a registry names, or why no request is sent there. `plain_http`: the registry itself is asked without TLS.
pub(super) fn safe_target(mut to: Url, plain_http: bool) -> Result<Url, &'static str> {
    match to.scheme() {
        "https" => {}
        "http" if plain_http => {}
        "http" => return Err("from TLS to plain HTTP"),
        _ => return Err(NO_ADDRESS),
    }
    // They would be sent as credentials.
    let _ = to.set_username("");
    let _ = to.set_password(None);
    Ok(to)
}

pub(super) fn bad_redirect(
    what: &str,
    host: String,
    location: &str,
    reason: &str,
) -> RegistryError {
    // The query is often a key to a storage.
    let location = location.split('?').next().unwrap_or_default();
    let location = shorten(location, QUOTED_CHARACTERS);
    RegistryError::Other(format!(
        "{what}: {host} redirects to `{location}`, {reason}; it is not followed: correct the registry's own address"
    ))
}

/// The bytes as a body that reports its progress.
fn in_pieces(bytes: Bytes, progress: Arc<Progress>) -> Body {
    progress(Step::Begins(bytes.len() as u64));
    let pieces = (0..bytes.len()).step_by(PIECE_BYTES).map(move |from| {
        let piece = bytes.slice(from..bytes.len().min(from + PIECE_BYTES));
        progress(Step::Moved(piece.len() as u64));
        Ok::<_, Infallible>(piece)
    });
    Body::wrap_stream(stream::iter(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn led(from: &str, location: &str) -> Result<Url, RegistryError> {
        let headers = HeaderMap::from_iter([(LOCATION, location.parse().unwrap())]);
        super::location(&url(from), &headers, "x")
    }

    #[test]
    fn a_location_is_relative_to_what_was_asked() {
        let from = "https://a.b:5000/v2/c/blobs/x?y=1";
        for (location, to) in [
            ("https://d.e/f?g", "https://d.e/f?g"),
            ("//d.e/f", "https://d.e/f"),
            ("/f?g=1", "https://a.b:5000/f?g=1"),
            ("z", "https://a.b:5000/v2/c/blobs/z"),
            ("/f?to=http://d.e/", "https://a.b:5000/f?to=http://d.e/"),
            ("https://ann:hunter2@d.e/f", "https://d.e/f"),
        ] {
            assert_eq!(led(from, location).unwrap(), url(to), "{location}");
        }
        assert!(led("http://a.b/v2/c", "https://a.b/v2/c").is_ok());
    }

    #[test]
    fn a_location_without_tls_or_address_is_rejected() {
        for (location, why) in [
            ("http://a.b/v2/c", "from TLS to plain HTTP"),
            ("file:///etc/passwd", "no address"),
            ("ftp://a.b/x", "no address"),
            ("https://", "no address"),
            ("", "no address"),
        ] {
            let error = led("https://a.b/v2/c", location).unwrap_err().to_string();
            assert!(error.contains(why), "{location}: {error}");
        }
    }

    #[test]
    fn credentials_stay_with_their_host() {
        let home = url("https://a.b/v2/c");
        for (other, is_same) in [
            ("https://A.B:443/x", true),
            ("https://a.b:444/x", false),
            ("http://a.b/x", false),
            ("https://a.b.evil.c/x", false),
            ("https://a.b@evil.c/x", false),
        ] {
            assert_eq!(is_same_origin(&home, &url(other)), is_same, "{other}");
        }
    }

    #[test]
    fn docker_io_is_answered_by_another_host() {
        let address = |name: &str, plain_http| {
            let reference = Reference::parse(name).unwrap();
            super::base(&reference, plain_http).unwrap().to_string()
        };
        assert_eq!(
            address("docker.io/library/x:1", false),
            "https://registry-1.docker.io/v2/library/x/"
        );
        assert_eq!(
            address("localhost:5000/x:1", true),
            "http://localhost:5000/v2/x/"
        );
    }
}

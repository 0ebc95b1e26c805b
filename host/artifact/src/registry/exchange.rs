//! One attempt at a request: sent, sent on, challenged at most once, and judged.

use super::failed::Failed;
use super::transport::Body;
use super::{Registry, header};
use crate::access::Credentials;
use crate::challenge::Challenge;
use crate::error::RegistryError;
use crate::origin::{self, NotFollowed, REDIRECTS};
use crate::progress::{Progress, Step};
use crate::words::{QUOTED_CHARACTERS, short};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT,
    WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Who asks, in the logs of a registry.
const AGENT: &str = concat!("wasmount/", env!("CARGO_PKG_VERSION"));

/// A body goes out in pieces of so many bytes: small enough for a bar that moves.
const PIECE_BYTES: usize = 64 << 10;

/// What is asked.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// For messages.
    pub(super) what: &'a str,
    pub(super) content: Option<Content<'a>>,
    /// Whether the right to write is needed.
    pub(super) pushes: bool,
    accept: Option<&'static str>,
}

/// What goes along.
pub(super) struct Content<'a> {
    pub(super) media_type: &'a str,
    pub(super) bytes: Bytes,
}

impl<'a> Ask<'a> {
    pub(super) fn get(uri: Uri, what: &'a str) -> Self {
        Self {
            method: Method::GET,
            uri,
            what,
            content: None,
            pushes: false,
            accept: None,
        }
    }

    pub(super) fn accepting(mut self, media_types: &'static str) -> Self {
        self.accept = Some(media_types);
        self
    }

    pub(super) fn push(method: Method, uri: Uri, what: &'a str) -> Self {
        Self {
            method,
            pushes: true,
            ..Self::get(uri, what)
        }
    }

    pub(super) fn with(mut self, media_type: &'a str, bytes: Bytes) -> Self {
        self.content = Some(Content { media_type, bytes });
        self
    }

    /// A request that changes something is not sent on: a stranger would get the bytes.
    fn may_be_sent_on(&self) -> bool {
        [Method::GET, Method::HEAD].contains(&self.method)
    }
}

impl Registry {
    /// The answer, if it is a good one.
    pub(super) async fn exchange(&self, ask: &Ask<'_>) -> Result<Response<Incoming>, Failed> {
        let mut uri = ask.uri.clone();
        let mut followed = 0;
        let mut challenged = false;
        loop {
            let at_home = origin::same(&uri, &self.home);
            let request = self.request(ask, &uri, at_home)?;
            // How long the bytes take to get there is not known: only the whole is limited.
            let by = match ask.content {
                Some(_) => self.until,
                None => Instant::now() + self.access.patience.silence,
            };
            let response = self.send(request, ask.what, by).await?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && at_home && !challenged {
                challenged = true;
                if self.authorised(&response, ask).await? {
                    continue;
                }
            }
            if status.is_redirection() && ask.may_be_sent_on() {
                uri = self.next(&uri, &response, followed, ask.what)?;
                followed += 1;
                continue;
            }
            return self.judged(response, ask.what, &uri).await;
        }
    }

    fn request(&self, ask: &Ask<'_>, uri: &Uri, at_home: bool) -> Result<Request<Body>, Failed> {
        let mut builder = Request::builder()
            .method(ask.method.clone())
            .uri(uri)
            .header(USER_AGENT, AGENT);
        if let Some(accept) = ask.accept {
            builder = builder.header(ACCEPT, accept);
        }
        if let Some(value) = self.authorization().filter(|_| at_home) {
            let unusable = |_| {
                let reason = "the credentials cannot be sent: they hold control characters";
                Failed::for_good(self.malformed(ask.what, reason.to_owned()))
            };
            let mut value = HeaderValue::from_str(&value).map_err(unusable)?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let body = match &ask.content {
            None => {
                // A POST or PUT without a body needs a length all the same (RFC 9110, "Content-Length").
                if !ask.may_be_sent_on() {
                    builder = builder.header(CONTENT_LENGTH, 0);
                }
                Empty::new().boxed()
            }
            Some(Content { media_type, bytes }) => {
                builder = builder
                    .header(CONTENT_TYPE, *media_type)
                    .header(CONTENT_LENGTH, bytes.len());
                in_pieces(bytes.clone(), self.progress.clone())
            }
        };
        builder
            .body(body)
            .map_err(|error| Failed::for_good(self.malformed(ask.what, error.to_string())))
    }

    /// What is sent along, if anything was ever wanted.
    pub(super) fn authorization(&self) -> Option<Zeroizing<String>> {
        let held = self.authorization.lock();
        held.unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Finds what the registry wants to see; whether there is something.
    async fn authorised(
        &self,
        response: &Response<Incoming>,
        ask: &Ask<'_>,
    ) -> Result<bool, Failed> {
        let headers = response.headers().get_all(WWW_AUTHENTICATE);
        let texts = headers.iter().filter_map(|value| value.to_str().ok());
        let value = match (Challenge::choose(texts), &self.access.credentials) {
            (None, _) | (Some(Challenge::Basic), Credentials::Anonymous) => return Ok(false),
            (Some(Challenge::Basic), Credentials::Login(login)) => {
                basic(login.user(), login.password())
            }
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope,
                }),
                _,
            ) => self.token(&realm, service, scope, ask).await?,
        };
        let held = self.authorization.lock();
        *held.unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
        Ok(true)
    }

    /// Where a redirect leads.
    fn next(
        &self,
        from: &Uri,
        response: &Response<Incoming>,
        followed: u32,
        what: &str,
    ) -> Result<Uri, Failed> {
        let location = header(response.headers(), LOCATION.as_str()).unwrap_or_default();
        self.allowed(
            from,
            location,
            origin::redirected(from, location, followed),
            what,
        )
    }

    /// An address that a stranger names, or why nobody goes there.
    pub(super) fn allowed(
        &self,
        from: &Uri,
        location: &str,
        to: Result<Uri, NotFollowed>,
        what: &str,
    ) -> Result<Uri, Failed> {
        let what = what.to_owned();
        let host = origin::place(from);
        let bad = |reason: &str| RegistryError::BadRedirect {
            what: what.clone(),
            host: host.clone(),
            // What is behind `?` is often a key to a storage.
            location: short(
                location.split('?').next().unwrap_or_default(),
                QUOTED_CHARACTERS,
            ),
            reason: reason.to_owned(),
        };
        to.map_err(|not| {
            Failed::for_good(match not {
                NotFollowed::NoAddress => bad("which is no address"),
                NotFollowed::Downgrade => bad("from TLS to plain HTTP"),
                NotFollowed::Loop => RegistryError::RedirectLoop {
                    what: what.clone(),
                    host: host.clone(),
                    most: REDIRECTS,
                },
            })
        })
    }
}

/// User and password as a header (RFC 7617).
pub(super) fn basic(user: &str, password: &str) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{password}"));
    let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
    Zeroizing::new(format!("Basic {}", *encoded))
}

/// The bytes, telling how far they are.
fn in_pieces(bytes: Bytes, progress: Arc<Progress>) -> Body {
    progress(Step::Begins(bytes.len() as u64));
    let pieces = (0..bytes.len()).step_by(PIECE_BYTES).map(move |from| {
        let piece = bytes.slice(from..bytes.len().min(from + PIECE_BYTES));
        progress(Step::Moved(piece.len() as u64));
        Ok::<_, Infallible>(Frame::data(piece))
    });
    StreamBody::new(stream::iter(pieces)).boxed()
}

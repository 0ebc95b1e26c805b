//! Connections to a registry, and what their failures mean.

use super::Registry;
use super::failed::Failed;
use crate::access::Access;
use crate::error::RegistryError;
use crate::origin;
use crate::trust;
use crate::words::{REASON_CHARACTERS, short};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use tokio::time::{Instant, timeout_at};

pub(super) type Body = BoxBody<Bytes, Infallible>;
pub(super) type Client = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// One that reaches what may be reached.
pub(super) fn client(access: &Access) -> Result<Client, RegistryError> {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(access.patience.connect));
    // The scheme `https` is TLS's business, above.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = trust::client(&access.system_ca, access.extra_ca.as_deref())?;
    let connector = HttpsConnector::from((tcp, tls));
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

impl Registry {
    /// One request, and the head of its answer, which must come before `by`.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        what: &str,
        by: Instant,
    ) -> Result<Response<Incoming>, Failed> {
        let host = origin::place(request.uri());
        match timeout_at(by.min(self.until), self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.unsent(&error, host)),
            Err(_) => Err(self.slow(what, host)),
        }
    }

    /// A limit was met: that of silence, after which it is tried again, or that of everything.
    pub(super) fn slow(&self, what: &str, host: String) -> Failed {
        let patience = &self.access.patience;
        let is_over = Instant::now() >= self.until;
        let reason = match is_over {
            true => format!("not done after {} s", patience.total.as_secs()),
            false => format!("nothing came for {} s", patience.silence.as_secs()),
        };
        let error = RegistryError::Slow {
            what: what.to_owned(),
            host,
            reason,
        };
        match is_over {
            true => Failed::for_good(error),
            false => Failed::perhaps_not(error),
        }
    }

    fn unsent(&self, error: &legacy::Error, host: String) -> Failed {
        if let Some(reason) = of_tls(error) {
            return Failed::for_good(RegistryError::Untrusted { host, reason });
        }
        let reason = innermost(error);
        Failed::perhaps_not(RegistryError::Down { host, reason })
    }
}

/// What TLS has against the other side, if it is that.
fn of_tls(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            // It has the names of a stranger's certificate in it.
            return Some(short(&tls.to_string(), REASON_CHARACTERS));
        }
        // An error of TLS travels inside one of I/O, whose `source` passes it over.
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The last of a chain: the first ones say only that there is another.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    short(&last.to_string(), REASON_CHARACTERS)
}

//! The token that a registry sends us to fetch (distribution's token specification; RFC 6750).

use super::Registry;
use super::body::Expected;
use super::exchange::{Ask, basic};
use super::failed::Failed;
use crate::access::Credentials;
use crate::error::RegistryError;
use crate::words::{QUOTED_CHARACTERS, short};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use serde::Deserialize;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Largest answer that is read, in bytes: tokens have some kilobytes.
const ANSWER_BYTES: u64 = 64 << 10;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Zeroizing<String>,
    /// The same, by OAuth 2's name.
    #[serde(default)]
    access_token: Zeroizing<String>,
}

impl Registry {
    /// The header that the registry wants.
    pub(super) async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        ask: &Ask<'_>,
    ) -> Result<Zeroizing<String>, Failed> {
        let what = &format!("a token for {}", ask.what);
        let bad = |reason: &str| {
            Failed::for_good(RegistryError::BadRedirect {
                what: what.clone(),
                host: self.host(),
                location: short(realm, QUOTED_CHARACTERS),
                reason: reason.to_owned(),
            })
        };
        let actions = if ask.pushes { "pull,push" } else { "pull" };
        let scope = scope
            .unwrap_or_else(|| format!("repository:{}:{actions}", self.reference.repository()));
        let query = query(service.as_deref(), &scope);
        let sign = if realm.contains('?') { '&' } else { '?' };
        let uri: Uri = format!("{realm}{sign}{query}")
            .parse()
            .map_err(|_| bad("which is no address"))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if self.access.plain_http => {}
            Some("http") => return Err(bad("from TLS to plain HTTP")),
            _ => return Err(bad("which is no address")),
        }
        let mut request = Request::get(&uri);
        if let Credentials::Login(login) = &self.access.credentials {
            let value = basic(login.user(), login.password());
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| bad("with credentials that cannot be sent"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Empty::<Bytes>::new().boxed())
            .map_err(|_| bad("which is no address"))?;
        let by = Instant::now() + self.access.patience.silence;
        let response = self.send(request, what, by).await?;
        let response = self.judged(response, what, &uri).await?;
        let bytes = Zeroizing::new(
            self.read(response, Expected::at_most(what, ANSWER_BYTES))
                .await?,
        );
        // The error of the parser could quote the token.
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|_| {
            Failed::for_good(self.malformed(what, "it is not JSON with a `token`".to_owned()))
        })?;
        let token = match answer.token.is_empty() {
            true => answer.access_token,
            false => answer.token,
        };
        if token.is_empty() {
            return Err(Failed::for_good(
                self.malformed(what, "there is no `token` in it".to_owned()),
            ));
        }
        Ok(Zeroizing::new(format!("Bearer {}", *token)))
    }
}

fn query(service: Option<&str>, scope: &str) -> String {
    let scope = format!("scope={}", encoded(scope));
    match service {
        None => scope,
        Some(service) => format!("service={}&{scope}", encoded(service)),
    }
}

/// As a value of a query (RFC 3986, section 2.3, and the signs that scopes are made of).
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b':'
            | b'/'
            | b',' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_names_cannot_leave_its_place_in_the_query() {
        assert_eq!(
            query(Some("a b&c=d"), "repository:x/y:pull,push"),
            "service=a%20b%26c%3Dd&scope=repository:x/y:pull,push"
        );
        assert_eq!(query(None, "é#"), "scope=%C3%A9%23");
    }
}

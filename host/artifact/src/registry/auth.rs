//! Authorization by a registry: the challenge in its response (RFC 9110, "WWW-Authenticate"), and the token that it requires (distribution's token
//! specification; RFC 6750).

use super::Registry;
use super::call::{Call, NO_ADDRESS, bad_redirect, safe_target};
use super::response::{Bound, Failed};
use crate::error::RegistryError;
use http_auth::ChallengeRef;
use http_auth::parser::ChallengeParser;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use tokio::time::Instant;
use wasmount_core::mutex::lock;
use zeroize::Zeroizing;

/// Largest response of a token service that is read, in bytes: tokens have some kilobytes.
const TOKEN_BYTES: u64 = 64 << 10;

/// The `Authorization` header of each request to the registry.
#[derive(Clone, Default)]
pub(super) enum Authorization {
    #[default]
    Nothing,
    Basic,
    Bearer(Zeroizing<String>),
}

/// The scheme that a registry requires.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Challenge {
    /// User and password with each request.
    Basic,
    Bearer(TokenService),
}

/// A token service, and what to ask it for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TokenService {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Zeroizing<String>,
    /// The same token by OAuth 2's name.
    #[serde(default)]
    access_token: Zeroizing<String>,
}

impl Registry {
    /// Adds the authorization that the registry has required so far, if any.
    pub(super) fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &*lock(&self.authorization) {
            Authorization::Nothing => request,
            Authorization::Basic => self.with_login(request),
            Authorization::Bearer(token) => request.bearer_auth(token.as_str()),
        }
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.access.credentials {
            None => request,
            Some(login) => request.basic_auth(&login.user, Some(login.password.as_str())),
        }
    }

    /// Answers a challenge; returns whether there is something to send.
    pub(super) async fn authorize(
        &self,
        headers: &HeaderMap,
        call: &Call<'_>,
    ) -> Result<bool, Failed> {
        let headers = headers.get_all(WWW_AUTHENTICATE);
        let texts = headers.iter().filter_map(|value| value.to_str().ok());
        let answer = match (Challenge::choose(texts), &self.access.credentials) {
            (None, _) | (Some(Challenge::Basic), None) => return Ok(false),
            (Some(Challenge::Basic), Some(_)) => Authorization::Basic,
            (Some(Challenge::Bearer(from)), _) => {
                Authorization::Bearer(self.token(from, call).await?)
            }
        };
        *lock(&self.authorization) = answer;
        Ok(true)
    }

    async fn token(
        &self,
        from: TokenService,
        call: &Call<'_>,
    ) -> Result<Zeroizing<String>, Failed> {
        let what = &format!("a token for {}", call.what);
        let url = self.token_url(&from, call.pushes, what)?;
        let request = self.with_login(self.client.get(url));
        let by = Instant::now() + self.access.limits.silence;
        let response = self.response(request, what, by).await?;
        let response = self.checked(response, what).await?;
        let bytes = self.read(response, what, Bound::AtMost(TOKEN_BYTES)).await;
        let bytes = Zeroizing::new(bytes?);
        // The parser's error could quote the token.
        let answer: TokenAnswer = serde_json::from_slice(&bytes)
            .map_err(|_| self.malformed(what, "it is not JSON with a `token`"))?;
        let mut tokens = [answer.token, answer.access_token].into_iter();
        let token = tokens.find(|token| !token.is_empty());
        Ok(token.ok_or_else(|| self.malformed(what, "there is no `token` in it"))?)
    }

    /// The URL of the token service, with what to ask it for.
    fn token_url(
        &self,
        from: &TokenService,
        pushes: bool,
        what: &str,
    ) -> Result<Url, RegistryError> {
        let bad = |reason| bad_redirect(what, self.host(), &from.realm, reason);
        let url = Url::parse(&from.realm).map_err(|_| bad(NO_ADDRESS))?;
        let mut url = safe_target(url, self.access.plain_http).map_err(bad)?;
        let actions = if pushes { "pull,push" } else { "pull" };
        let repository = self.reference.repository();
        let usual = || format!("repository:{repository}:{actions}");
        let scope = from.scope.clone().unwrap_or_else(usual);
        let mut query = url.query_pairs_mut();
        if let Some(service) = &from.service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", &scope);
        drop(query);
        Ok(url)
    }
}

impl Challenge {
    /// The challenge to answer: a token before a password, since a registry that offers both means the token for artifacts.
    fn choose<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        headers
            .into_iter()
            .flat_map(|header| ChallengeParser::new(header).map_while(Result::ok))
            .filter_map(|challenge| Self::of(&challenge))
            .min_by_key(|challenge| *challenge == Self::Basic)
    }

    /// Parses a challenge of a known scheme.
    fn of(challenge: &ChallengeRef<'_>) -> Option<Self> {
        let parameter = |name: &str| {
            let mut parameters = challenge.params.iter();
            let found = parameters.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        match challenge.scheme.to_ascii_lowercase().as_str() {
            "basic" => Some(Self::Basic),
            "bearer" => Some(Self::Bearer(TokenService {
                realm: parameter("realm")?,
                service: parameter("service"),
                scope: parameter("scope"),
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_names_cannot_leave_its_place_in_the_query() {
        let registry = |plain_http| {
            let access = crate::access::Access {
                plain_http,
                ..Default::default()
            };
            let reference = wasmount_core::document::Reference::parse("a.b/c:1").unwrap();
            Registry::connect(&reference, access, std::sync::Arc::new(crate::silent)).unwrap()
        };
        let url = |plain_http, realm: &str, service: Option<&str>| {
            let Some(Challenge::Bearer(from)) = bearer(realm, service, None) else {
                panic!("no token service");
            };
            let url = registry(plain_http).token_url(&from, true, "a token");
            url.map(String::from).map_err(|error| error.to_string())
        };
        assert_eq!(
            url(false, "https://t/?x=1", Some("a b&c=d")).unwrap(),
            "https://t/?x=1&service=a+b%26c%3Dd&scope=repository%3Ac%3Apull%2Cpush"
        );
        let without_user = url(false, "https://ann:hunter2@t/", None).unwrap();
        assert!(without_user.starts_with("https://t/?"), "{without_user}");
        assert!(url(true, "http://t/", None).is_ok());
        assert!(url(false, "http://t/", None).unwrap_err().contains("TLS"));
        assert!(url(true, "file:///t", None).is_err());
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer(TokenService {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }))
    }

    #[test]
    fn a_challenge_is_read_as_registries_write_it() {
        for (headers, expected) in [
            (
                vec![r#"Basic realm="Registry Realm""#],
                Some(Challenge::Basic),
            ),
            (vec!["basic"], Some(Challenge::Basic)),
            (
                vec![
                    r#"Bearer realm="https://a.b/token",service="a.b",scope="repository:c/d:pull,push""#,
                ],
                bearer(
                    "https://a.b/token",
                    Some("a.b"),
                    Some("repository:c/d:pull,push"),
                ),
            ),
            (
                vec![r#"Basic realm="x, y", Bearer realm="https://a.b/t" , service="q\"q""#],
                bearer("https://a.b/t", Some("q\"q"), None),
            ),
            (
                vec![r#"Bearer realm="https://a.b/t""#, "Basic realm=x"],
                bearer("https://a.b/t", None, None),
            ),
            (
                vec![r#"Negotiate, NTLM, Basic realm="x""#],
                Some(Challenge::Basic),
            ),
        ] {
            assert_eq!(Challenge::choose(headers.clone()), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_is_no_challenge_is_none() {
        for header in [
            "",
            ",,,",
            "Bearer",
            "Bearer service=x",
            "Negotiate",
            "=",
            "\"",
            "a=\"\\",
        ] {
            assert_eq!(Challenge::choose([header]), None, "{header}");
        }
    }
}

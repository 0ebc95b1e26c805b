//! One grant in use: a request passes its rules, gets its credentials, and is sent until there is an answer that counts.

use crate::connector::{Connector, Outgoing, Response, shown};
use crate::credentials::{Credentials, Signer};
use crate::error::{NetworkError, SendError};
use crate::login::Login;
use crate::policy::{self, Marks, Scope, check, headers_to_send, host_of_request};
use crate::retry::{self, Failed};
use crate::secret_values::{basic, header, secret};
use crate::token::Token;
use crate::usage::Usage;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, LOCATION};
use http::{Request, StatusCode};
use ipnet::IpNet;
use reqwest::Url;
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;
use tokio::time::{Instant, sleep};
use wasmount_core::document::network::{Auth, Host, NetworkGrant, Scheme};
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// Most redirects of one request: what curl's manual recommends as a small number, and more than any API needs.
const REDIRECTS_MAX: u32 = 5;

/// One grant with its connections and credentials.
pub(crate) struct Endpoint {
    connector: Arc<Connector>,
    credentials: Credentials,
}

impl Endpoint {
    /// `login`: the session of the grant that `sessionOf` names.
    pub(crate) fn open(
        name: &str,
        grant: &NetworkGrant,
        secrets: &Secrets,
        login: Option<Arc<Login>>,
        cluster: &Arc<[IpNet]>,
    ) -> Result<Self, NetworkError> {
        for used in grant.secret_names() {
            secret(name, used, secrets)?;
        }
        let connector = Arc::new(Connector::new(name, grant, secrets, cluster)?);
        let credentials = match &grant.auth {
            Auth::None => Credentials::None,
            Auth::Basic(pair) => {
                let value = basic(name, pair, secrets)?;
                connector.keep_secret(value.trim_start_matches("Basic "));
                Credentials::Fixed(AUTHORIZATION, header(name, &pair.password, &value)?)
            }
            Auth::Bearer(token) => {
                let value = Zeroizing::new(format!("Bearer {}", secret(name, token, secrets)?));
                Credentials::Fixed(AUTHORIZATION, header(name, token, &value)?)
            }
            Auth::Header { name: field, value } => {
                let field = HeaderName::try_from(field.as_str());
                let field = field.map_err(|error| NetworkError::Setup {
                    grant: name.to_owned(),
                    reason: error.to_string(),
                })?;
                Credentials::Fixed(field, header(name, value, secret(name, value, secrets)?)?)
            }
            Auth::Jwt(rules) => Credentials::Jwt(Box::new(Signer::new(name, rules, secrets)?)),
            Auth::Session(rules) => {
                Credentials::Session(Arc::new(Login::new(&connector, rules, secrets)?))
            }
            Auth::SessionOf(other) => match login {
                Some(login) => Credentials::Session(login),
                None => {
                    return Err(NetworkError::Setup {
                        grant: name.to_owned(),
                        reason: format!("`{other}` has no session"),
                    });
                }
            },
        };
        Ok(Self {
            connector,
            credentials,
        })
    }

    pub(crate) fn grant(&self) -> &NetworkGrant {
        &self.connector.grant
    }

    /// The session that its requests use.
    pub(crate) fn login(&self) -> Option<Arc<Login>> {
        match &self.credentials {
            Credentials::Session(login) => Some(Arc::clone(login)),
            Credentials::None | Credentials::Fixed(..) | Credentials::Jwt(_) => None,
        }
    }

    /// The session that it opened itself.
    pub(crate) fn own_login(&self) -> Option<Arc<Login>> {
        self.login()
            .filter(|_| matches!(self.grant().auth, Auth::Session(_)))
    }

    pub(crate) fn tokens(&self) -> Vec<Zeroizing<String>> {
        self.connector.tokens()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.connector.usage()
    }

    /// Sends a request within its grant, the time of the grant and the deadline of the call.
    pub(crate) async fn send(
        &self,
        scope: &Scope,
        request: Request<Bytes>,
    ) -> Result<Response, SendError> {
        let began = Instant::now();
        let outcome = self.answered(scope, request, began).await;
        let counters = &self.connector.counters;
        counters.add_time(began.elapsed());
        match &outcome {
            Ok(response) if response.parts.status.is_server_error() => counters.failed.increase(),
            Ok(response) if response.parts.status.is_client_error() => {
                counters.rejected.increase();
            }
            Ok(_) => counters.succeeded.increase(),
            Err(error) if error.sent() => counters.lost.increase(),
            Err(_) => counters.unsent.increase(),
        }
        outcome
    }

    async fn answered(
        &self,
        scope: &Scope,
        request: Request<Bytes>,
        began: Instant,
    ) -> Result<Response, SendError> {
        let (name, grant) = (&self.connector.name, self.grant());
        check(name, grant, scope, &request)?;
        let deadline = scope.deadline.min(began + grant.timeouts.total);
        let (parts, body) = request.into_parts();
        let marks = Marks::of(&parts.headers);
        let is_read = policy::is_read(&parts.method, &parts.headers);
        let may_repeat = is_read || marks.idempotent;
        let secret_host = match &grant.host_from {
            Some(secret) => Some(host_of_request(
                name,
                grant,
                secret,
                &scope.request_secrets,
            )?),
            None => None,
        };
        let mut outgoing = Outgoing {
            target: parts
                .uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .to_owned(),
            headers: headers_to_send(grant, parts.headers),
            method: parts.method,
            body,
            host: secret_host,
        };
        let (mut attempts, mut redirects) = (0, 0);
        // The last attempt that may have been executed: a later one that is rejected or not sent does not undo it.
        let mut unknown: Option<Result<Response, SendError>> = None;
        loop {
            let mut outcome = self.with_session(&outgoing, deadline).await;
            if let Ok(response) = &mut outcome {
                response.after_unknown = unknown.is_some();
            }
            attempts += 1;
            let failed = match &outcome {
                Ok(response) => {
                    let status = response.parts.status;
                    Failed::Status(status, retry::retry_after(&response.parts.headers))
                }
                Err(error) => Failed::Error(error),
            };
            let is_unknown = retry::may_be_executed(failed);
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = retry::pause(failed, attempts, may_repeat, chance(), left) else {
                match outcome {
                    Ok(response) if is_read && redirects < REDIRECTS_MAX => {
                        let Some((host, target)) = self.redirected(&outgoing, &response) else {
                            return Ok(response);
                        };
                        redirects += 1;
                        (outgoing.host, outgoing.target) = (Some(host), target);
                        continue;
                    }
                    Err(error) if !error.sent() => return unknown.unwrap_or(Err(error)),
                    outcome => return outcome,
                }
            };
            if is_unknown {
                unknown = Some(outcome);
            }
            self.connector.counters.retries.increase();
            tracing::debug!(grant = name, attempts, ?pause, "a request is sent again");
            sleep(pause).await;
        }
    }

    /// One attempt with credentials; a second one, if the answer says that the session has ended: the request was not executed then.
    async fn with_session(
        &self,
        request: &Outgoing,
        deadline: Instant,
    ) -> Result<Response, SendError> {
        let mut refused: Option<Token> = None;
        loop {
            let mut request = request.clone();
            let credentials = &self.credentials;
            let token = credentials
                .apply(&mut request, &self.connector, refused.as_ref(), deadline)
                .await?;
            let mut response = self.connector.attempt(&request, deadline).await?;
            let Some(login) = self.login() else {
                return Ok(response);
            };
            if refused.is_none() && login.has_ended(&response) {
                refused = token;
                continue;
            }
            login.withhold_token(&mut response);
            return Ok(response);
        }
    }

    /// Where a redirect leads, if that is within the grant. Other redirects are answers.
    fn redirected(&self, request: &Outgoing, response: &Response) -> Option<(Host, String)> {
        let is_followed = matches!(
            response.parts.status,
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        if !is_followed || !request.method.is_safe() {
            return None;
        }
        let grant = self.grant();
        let scheme = match grant.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        let here = request.host.as_ref().or_else(|| self.connector.current())?;
        let base = Url::parse(&format!("{scheme}://{}{}", shown(here), request.target)).ok()?;
        let location = response.parts.headers.get(LOCATION)?.to_str().ok()?;
        let url = base.join(location).ok()?;
        let authority = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
        let host = Host::parse(&authority, grant.scheme)?;
        let is_known = host == *here || (grant.host_from.is_none() && grant.hosts.contains(&host));
        let plain = url.username().is_empty() && url.password().is_none();
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        (is_known && plain && url.scheme() == scheme && policy::allows_path(grant, url.path()))
            .then_some((host, target))
    }
}

/// A number between 0 and 1.
fn chance() -> f64 {
    let mut byte = [0];
    match SystemRandom::new().fill(&mut byte) {
        Ok(()) => f64::from(byte[0]) / f64::from(u8::MAX),
        Err(_) => 0.5,
    }
}

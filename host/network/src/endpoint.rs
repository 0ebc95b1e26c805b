//! One grant in use: a request passes its rules, gets its credentials, and is sent until there is an answer that counts.

use crate::connector::{Connector, Outgoing, Response};
use crate::credentials::{Credentials, Signer};
use crate::error::SendError;
use crate::login::Login;
use crate::policy::{self, Marks, Scope, check, headers_to_send, host_of_request};
use crate::retry;
use crate::secret_values::{basic, header, secret};
use crate::token::Token;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, LOCATION};
use http::{Request, StatusCode};
use ipnet::IpNet;
use std::sync::Arc;
use tokio::time::{Instant, sleep};
use wasmount_core::document::network::{Auth, Host, NetworkGrant};
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// Most redirects of one request: what curl's manual recommends as a small number, and more than any API needs.
const REDIRECTS_MAX: u32 = 5;

/// One grant with its connections and credentials.
pub(crate) struct Endpoint {
    pub(crate) connector: Arc<Connector>,
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
    ) -> Result<Self, String> {
        let connector = Arc::new(Connector::new(name, grant, secrets, cluster)?);
        let fixed = |field, name: &str, value: &str| {
            Ok::<_, String>(Credentials::Fixed(field, header(name, value)?))
        };
        let credentials = match &grant.auth {
            Auth::None => Credentials::None,
            Auth::Basic(pair) => {
                let value = basic(pair, secrets)?;
                connector.keep_secret(&value);
                let value = Zeroizing::new(format!("Basic {}", *value));
                fixed(AUTHORIZATION, &pair.password, &value)?
            }
            Auth::Bearer(token) => {
                let value = Zeroizing::new(format!("Bearer {}", secret(token, secrets)?));
                fixed(AUTHORIZATION, token, &value)?
            }
            Auth::Header { name, value } => {
                let field = HeaderName::try_from(name).map_err(|error| error.to_string())?;
                fixed(field, value, secret(value, secrets)?)?
            }
            Auth::Jwt(rules) => Credentials::Jwt(Box::new(Signer::new(rules, secrets)?)),
            Auth::Session(rules) => {
                Credentials::Session(Arc::new(Login::new(&connector, rules, secrets)?))
            }
            Auth::SessionOf(other) => {
                let login = login.ok_or_else(|| format!("`{other}` has no session"))?;
                Credentials::Session(login)
            }
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
    pub(crate) fn login(&self) -> Option<&Arc<Login>> {
        match &self.credentials {
            Credentials::Session(login) => Some(login),
            Credentials::None | Credentials::Fixed(..) | Credentials::Jwt(_) => None,
        }
    }

    /// Sends a request within its grant, the time of the grant and the deadline of the call.
    pub(crate) async fn send(
        &self,
        scope: &Scope,
        request: Request<Bytes>,
    ) -> Result<Response, SendError> {
        let began = Instant::now();
        let outcome = self.answered(scope, request, began).await;
        self.connector.count(|usage| {
            let counter = match &outcome {
                Ok(response) if response.parts.status.is_server_error() => &mut usage.failed,
                Ok(response) if response.parts.status.is_client_error() => &mut usage.rejected,
                Ok(_) => &mut usage.succeeded,
                Err(error) if error.sent() => &mut usage.lost,
                Err(_) => &mut usage.unsent,
            };
            *counter += 1;
            usage.time += began.elapsed();
        });
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
        let secrets = &scope.request_secrets;
        let secret_host = grant.host_from.as_ref();
        let secret_host = secret_host.map(|secret| host_of_request(name, grant, secret, secrets));
        let mut outgoing = Outgoing {
            target: parts
                .uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .to_owned(),
            headers: headers_to_send(grant, parts.headers),
            method: parts.method,
            body,
            host: secret_host.transpose()?,
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
            let left = deadline.saturating_duration_since(Instant::now());
            let chance = fastrand::f64();
            let Some(pause) = retry::pause(&outcome, attempts, may_repeat, chance, left) else {
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
            if retry::may_be_executed(&outcome) {
                unknown = Some(outcome);
            }
            self.connector.count(|usage| usage.retries += 1);
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
        let here = request.host.as_ref().or_else(|| self.connector.current())?;
        let base = self.connector.url(here, &request.target).ok()?;
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
        (is_known
            && plain
            && url.scheme() == base.scheme()
            && policy::allows_path(grant, url.path()))
        .then_some((host, target))
    }
}

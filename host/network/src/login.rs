//! The session of one grant: one login for all calls that wait for it, renewal, logout.

use crate::connector::{Connector, Outgoing, Response};
use crate::error::SendError;
use crate::retry::is_passing;
use crate::secret_values::{basic, header, secret};
use crate::token::{Token, give};
use form_urlencoded::Serializer;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use wasmount_core::document::network::{LoginBody, Session, Take, Use};
use wasmount_core::document::raw::SecretText;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// How long a failed login is the answer to all calls. 10 s: arrays lock an account after some five wrong passwords within minutes, and a call is
/// retried for longer than that.
const FAILURE_LASTS: Duration = Duration::from_secs(10);
/// How long a login may take, and a logout when the host ends.
const LOGIN_TIME: Duration = Duration::from_secs(30);
const LOGOUT_TIME: Duration = Duration::from_secs(5);
/// Longest token in bytes: the longest header that common servers accept.
const TOKEN_BYTES: usize = 8 << 10;
/// Largest answer in which the end of a session is searched: an error, not a list.
const RENEW_BODY_BYTES: usize = 64 << 10;

/// The session of one grant.
pub(crate) struct Login {
    connector: Arc<Connector>,
    rules: Session,
    secrets: Secrets,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    token: Option<(Token, Instant)>,
    failure: Option<(Instant, SendError)>,
}

impl Login {
    /// The secrets that the session names must be there.
    pub(crate) fn new(
        connector: &Arc<Connector>,
        rules: &Session,
        secrets: &Secrets,
    ) -> Result<Self, String> {
        let login = Self {
            connector: Arc::clone(connector),
            rules: rules.clone(),
            secrets: secrets.clone(),
            state: Arc::default(),
        };
        login.request()?;
        Ok(login)
    }

    /// The token of the session; the first of the callers logs in. `refused` is a token that the system has refused.
    pub(crate) async fn token(
        self: &Arc<Self>,
        refused: Option<&Token>,
        deadline: Instant,
    ) -> Result<Token, SendError> {
        let late = || SendError::Login {
            grant: self.connector.name.clone(),
            reason: "it was not there within the time of the call".to_owned(),
        };
        let state = Arc::clone(&self.state).lock_owned();
        let mut state = timeout_at(deadline, state).await.map_err(|_| late())?;
        let old = state.token.take_if(|(token, since)| {
            let is_old = self
                .rules
                .renew
                .after
                .is_some_and(|after| since.elapsed() >= after);
            is_old || refused.is_some_and(|refused| Arc::ptr_eq(refused, token))
        });
        if let Some((token, _)) = &state.token {
            return Ok(Arc::clone(token));
        }
        if let Some((since, failure)) = &state.failure
            && since.elapsed() < FAILURE_LASTS
        {
            return Err(failure.clone());
        }
        // A task: if the caller goes away in the middle, the session that the system has created is not forgotten.
        let login = Arc::clone(self);
        let refused = refused.cloned();
        let task = tokio::spawn(async move {
            let outcome = login.log_in().await;
            match &outcome {
                Ok(token) => {
                    state.token = Some((Arc::clone(token), Instant::now()));
                    state.failure = None;
                }
                // What was not sent does no harm when it is repeated.
                Err(error) if error.is_unreachable() => {}
                Err(error) => state.failure = Some((Instant::now(), error.clone())),
            }
            drop(state);
            if let Some((old, _)) = old
                && refused.is_none_or(|refused| !Arc::ptr_eq(&refused, &old))
            {
                log_out(&login.connector, &login.rules, &old).await;
            }
            outcome
        });
        match timeout_at(deadline, task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(late()),
        }
    }

    /// Adds a token to a request.
    pub(crate) fn give(&self, token: &Token, request: &mut Outgoing) {
        give(&self.rules.give, token, request);
    }

    /// Whether an answer says that the session has ended.
    pub(crate) fn has_ended(&self, response: &Response) -> bool {
        let renew = &self.rules.renew;
        let by_body = |(pointer, values): &(String, std::collections::BTreeSet<i64>)| {
            response.body.len() <= RENEW_BODY_BYTES
                && serde_json::from_slice::<Value>(&response.body).is_ok_and(|body| {
                    let number = body.pointer(pointer).and_then(Value::as_i64);
                    number.is_some_and(|number| values.contains(&number))
                })
        };
        renew.status.contains(&response.parts.status.as_u16())
            || renew.json.as_ref().is_some_and(by_body)
    }

    /// Removes from an answer what only the host needs.
    pub(crate) fn withhold_token(&self, response: &mut Response) {
        let name = match &self.rules.take {
            Take::Header(name) => name.as_str(),
            Take::Cookie(_) => SET_COOKIE.as_str(),
            Take::Json(_) => return,
        };
        response.parts.headers.remove(name);
    }

    /// Ends the session, if there is one.
    pub(crate) async fn end(&self) {
        let token = self.state.lock().await.token.take();
        if let Some((token, _)) = token {
            log_out(&self.connector, &self.rules, &token).await;
        }
    }

    async fn log_in(&self) -> Result<Token, SendError> {
        let outcome = self.try_log_in().await;
        match &outcome {
            Ok(token) => {
                self.connector.count(|usage| usage.logins += 1);
                self.connector.keep_secret(token);
                tracing::debug!(grant = self.connector.name, "logged in");
            }
            Err(error) => {
                self.connector.count(|usage| usage.failed_logins += 1);
                tracing::warn!(grant = self.connector.name, %error, "login failed");
            }
        }
        outcome
    }

    async fn try_log_in(&self) -> Result<Token, SendError> {
        let failed = |reason: String| SendError::Login {
            grant: self.connector.name.clone(),
            reason,
        };
        let request = self.request().map_err(failed)?;
        let deadline = Instant::now() + LOGIN_TIME;
        let response = self.connector.attempt(&request, deadline).await;
        let response = response.map_err(|error| match error.is_unreachable() {
            true => error,
            false => failed(error.of_login()),
        })?;
        let status = response.parts.status;
        if !status.is_success() {
            return Err(failed(self.refused(status)));
        }
        let value = self
            .taken(&response)
            .filter(|value| !value.is_empty() && value.len() <= TOKEN_BYTES)
            .filter(|value| HeaderValue::from_str(value).is_ok());
        value.map(Arc::new).ok_or_else(|| {
            let expected = match &self.rules.take {
                Take::Header(name) => format!("header `{name}`"),
                Take::Json(pointer) => format!("value at `{pointer}`"),
                Take::Cookie(name) => format!("cookie `{name}`"),
            };
            failed(format!("the answer to the login has no usable {expected}"))
        })
    }

    /// What a login that was answered so means, and what to do.
    fn refused(&self, status: StatusCode) -> String {
        let answered = format!("the login was answered with {status}");
        if is_passing(status) || status.is_server_error() {
            return answered;
        }
        let grant = &self.connector.name;
        let login = format!("`grants.network.{grant}.auth.session.login`");
        let names = self.rules.login.secret_names();
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        match names.join(", ") {
            names if names.is_empty() => format!("{answered}: check {login}"),
            names => format!("{answered}: check {names} in `secrets`, and {login}"),
        }
    }

    /// The token in the answer to a login.
    fn taken(&self, response: &Response) -> Option<Zeroizing<String>> {
        let headers = &response.parts.headers;
        match &self.rules.take {
            Take::Header(name) => Some(headers.get(name)?.to_str().ok()?.to_owned().into()),
            Take::Json(pointer) => {
                let body: Value = serde_json::from_slice(&response.body).ok()?;
                match body.pointer(pointer)? {
                    Value::String(text) => Some(text.clone().into()),
                    Value::Number(number) => Some(number.to_string().into()),
                    _ => None,
                }
            }
            Take::Cookie(name) => headers.get_all(SET_COOKIE).iter().find_map(|cookie| {
                let pair = cookie.to_str().ok()?.split(';').next()?;
                let (key, value) = pair.split_once('=')?;
                (key.trim() == name).then(|| value.trim().to_owned().into())
            }),
        }
    }

    fn request(&self) -> Result<Outgoing, String> {
        let login = &self.rules.login;
        let text = |text: &SecretText| match text {
            SecretText::Text(text) => Ok(text.clone()),
            SecretText::Secret { secret: name } | SecretText::Identifier { identifier: name } => {
                secret(name, &self.secrets).map(str::to_owned)
            }
        };
        let invalid = || "a header of the login cannot be sent".to_owned();
        let mut headers = HeaderMap::new();
        for (name, value) in &login.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let value = HeaderValue::try_from(text(value)?);
            headers.insert(name, value.map_err(|_| invalid())?);
        }
        if let Some(pair) = &login.basic {
            let value = format!("Basic {}", *basic(pair, &self.secrets)?);
            headers.insert(AUTHORIZATION, header(&pair.password, &value)?);
        }
        let (kind, body) = match &login.body {
            LoginBody::Empty => (None, Vec::new()),
            LoginBody::Json(json) => {
                let filled = self.filled(json)?;
                (Some("application/json"), filled.to_string().into_bytes())
            }
            LoginBody::Form(fields) => {
                let mut form = Serializer::new(String::new());
                for (name, value) in fields {
                    form.append_pair(name, &text(value)?);
                }
                let body = form.finish().into_bytes();
                (Some("application/x-www-form-urlencoded"), body)
            }
        };
        if let Some(kind) = kind {
            headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static(kind));
        }
        Ok(Outgoing {
            method: method(&login.method),
            target: login.path.clone(),
            headers,
            body: body.into(),
            host: None,
        })
    }

    /// The body of a login with the values of its secrets.
    fn filled(&self, json: &Value) -> Result<Value, String> {
        if let Some(used) = Use::of_json(json) {
            let value = secret(used.name(), &self.secrets)?;
            return Ok(Value::String(value.to_owned()));
        }
        Ok(match json {
            Value::Object(object) => {
                let pairs = object.iter();
                let filled = pairs.map(|(key, value)| Ok((key.clone(), self.filled(value)?)));
                Value::Object(filled.collect::<Result<_, String>>()?)
            }
            Value::Array(array) => {
                let filled = array.iter().map(|value| self.filled(value));
                Value::Array(filled.collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        })
    }
}

/// The last user of a session ends it.
impl Drop for Login {
    fn drop(&mut self) {
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        if let (Some((token, _)), Ok(runtime)) = (state.token.take(), Handle::try_current()) {
            let (connector, rules) = (Arc::clone(&self.connector), self.rules.clone());
            runtime.spawn(async move { log_out(&connector, &rules, &token).await });
        }
    }
}

async fn log_out(connector: &Connector, rules: &Session, token: &Token) {
    let Some((name, path)) = &rules.logout else {
        return;
    };
    let mut request = Outgoing {
        method: method(name),
        target: path.clone(),
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        host: None,
    };
    give(&rules.give, token, &mut request);
    let deadline = Instant::now() + LOGOUT_TIME;
    match connector.attempt(&request, deadline).await {
        Ok(response) if response.parts.status.is_success() => {
            tracing::debug!(grant = connector.name, "logged out");
        }
        Ok(response) => {
            let status = response.parts.status.as_u16();
            tracing::warn!(grant = connector.name, status, "logout was refused");
        }
        Err(error) => tracing::warn!(grant = connector.name, %error, "logout failed"),
    }
}

/// The document names methods of HTTP only.
fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap_or(Method::POST)
}

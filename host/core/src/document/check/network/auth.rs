//! The credentials of a network grant.

use super::{duration, known_method};
use crate::document::check::{Checked, TIME_MAX};
use crate::document::network::{Auth, Give, Jwt, Login, LoginBody, Renew, Session, Take};
use crate::document::{KeyPath, raw};
use std::time::Duration;

/// How long a signed token is valid unless the document says otherwise.
const JWT_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The status code of an ended session (RFC 9110, section 15.5.2).
const UNAUTHORIZED: u16 = 401;

/// The credentials of an entry: exactly one kind.
pub(super) fn credentials(key: &KeyPath, auth: raw::Auth) -> Checked<Auth> {
    let raw::Auth {
        basic,
        bearer,
        header,
        jwt,
        session,
        session_of,
    } = auth;
    let mut kinds = Vec::new();
    kinds.extend(basic.map(Auth::Basic));
    kinds.extend(bearer.map(|it| Auth::Bearer(it.token)));
    if let Some(raw::Header { name, value }) = header {
        let name = header_name(&key.key("header").key("name"), name)?;
        kinds.push(Auth::Header { name, value });
    }
    if let Some(jwt) = jwt {
        kinds.push(Auth::Jwt(signed(&key.key("jwt"), jwt)?));
    }
    if let Some(session) = session {
        let session = session_rules(&key.key("session"), session)?;
        kinds.push(Auth::Session(Box::new(session)));
    }
    kinds.extend(session_of.map(Auth::SessionOf));
    let one = (kinds.len() == 1).then(|| kinds.pop()).flatten();
    one.ok_or_else(|| {
        key.invalid(
            "must have one of `basic`, `bearer`, `header`, `jwt`, `session` and `sessionOf`",
        )
    })
}

fn signed(key: &KeyPath, jwt: raw::Jwt) -> Checked<Jwt> {
    let raw::Jwt {
        algorithm,
        key: secret,
        key_id,
        claims,
        lifetime,
    } = jwt;
    let lifetime = lifetime.map(|text| duration(&key.key("lifetime"), &text, TIME_MAX, "24h"));
    Ok(Jwt {
        algorithm,
        key: secret,
        key_id,
        claims,
        lifetime: lifetime.transpose()?.unwrap_or(JWT_LIFETIME),
    })
}

fn session_rules(key: &KeyPath, session: raw::Session) -> Checked<Session> {
    let raw::Session {
        login,
        take,
        give,
        renew,
        logout,
    } = session;
    Ok(Session {
        login: login_request(&key.key("login"), login)?,
        take: take_rule(&key.key("take"), take)?,
        give: give_rule(&key.key("give"), give)?,
        renew: renew_rules(&key.key("renew"), renew)?,
        logout: logout
            .map(|raw::Logout { method, path }| {
                let logout = key.key("logout");
                Ok((method_of(&logout, method)?, path_of(&logout, path)?))
            })
            .transpose()?,
    })
}

fn login_request(key: &KeyPath, login: raw::Login) -> Checked<Login> {
    let raw::Login {
        method,
        path,
        headers,
        json,
        form,
        basic,
    } = login;
    let body = match (json, form.is_empty()) {
        (Some(json), true) => LoginBody::Json(json),
        (None, true) => LoginBody::Empty,
        (None, false) => LoginBody::Form(form),
        (Some(_), false) => return Err(key.invalid("must have one of `json` and `form`")),
    };
    let headers_key = key.key("headers");
    let headers = headers_key.each_value(headers, |key, name, value| {
        Ok((header_name(key, name)?, value))
    })?;
    Ok(Login {
        method: method_of(key, method)?,
        path: path_of(key, path)?,
        headers,
        body,
        basic,
    })
}

fn take_rule(key: &KeyPath, take: raw::Take) -> Checked<Take> {
    let raw::Take {
        header,
        json,
        cookie,
    } = take;
    match (header, json, cookie) {
        (Some(name), None, None) => Ok(Take::Header(header_name(&key.key("header"), name)?)),
        (None, Some(pointer), None) => Ok(Take::Json(json_pointer(&key.key("json"), pointer)?)),
        (None, None, Some(name)) => Ok(Take::Cookie(name)),
        _ => Err(key.invalid("must have one of `header`, `json` and `cookie`")),
    }
}

fn give_rule(key: &KeyPath, give: raw::Give) -> Checked<Give> {
    let raw::Give {
        header,
        bearer,
        query,
        cookie,
    } = give;
    match (header, bearer, query, cookie) {
        (Some(name), None, None, None) => Ok(Give::Header(header_name(&key.key("header"), name)?)),
        (None, Some(true), None, None) => Ok(Give::Bearer),
        (None, None, Some(name), None) => Ok(Give::Query(name)),
        (None, None, None, Some(name)) => Ok(Give::Cookie(name)),
        _ => Err(key.invalid("must have one of `header`, `bearer: true`, `query` and `cookie`")),
    }
}

fn renew_rules(key: &KeyPath, renew: raw::Renew) -> Checked<Renew> {
    let raw::Renew {
        after,
        status,
        json,
    } = renew;
    let after = after.map(|text| duration(&key.key("after"), &text, TIME_MAX, "24h"));
    let json = json.map(|raw::RenewJson { pointer, values }| {
        let pointer = json_pointer(&key.key("json").key("pointer"), pointer)?;
        Ok((pointer, values.into_iter().collect()))
    });
    Ok(Renew {
        after: after.transpose()?,
        status: match status.is_empty() {
            true => [UNAUTHORIZED].into(),
            false => status.into_iter().collect(),
        },
        json: json.transpose()?,
    })
}

fn method_of(key: &KeyPath, method: Option<String>) -> Checked<String> {
    let method = method.unwrap_or_else(|| "POST".to_owned());
    known_method(&key.key("method"), method)
}

fn path_of(key: &KeyPath, path: String) -> Checked<String> {
    key.key("path").ensure(
        path.starts_with('/') && !path.contains(['#', ' ']),
        "must be a path, such as `/api/login`",
    )?;
    Ok(path)
}

fn json_pointer(key: &KeyPath, pointer: String) -> Checked<String> {
    key.ensure(
        pointer.starts_with('/'),
        "must be a JSON pointer, such as `/data/token`",
    )?;
    Ok(pointer)
}

/// The name of a header field, in lower case (RFC 9110, section 5.1).
fn header_name(key: &KeyPath, name: String) -> Checked<String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    key.ensure(
        !name.is_empty() && name.chars().all(is_token),
        "must be the name of a header",
    )?;
    Ok(name.to_ascii_lowercase())
}

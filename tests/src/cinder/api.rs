//! Cinder and Keystone as their owner asks them, beside the driver.

use super::{APPLICATION_SECRET, Cinder};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use xtask::failure::Failure;

/// The project's volumes with all their fields, in pages as large as `osapi_max_limit`.
const VOLUMES: &str = "/v3/volumes/detail";

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its JSON; null if it has none.
    pub body: Value,
    head: String,
}

impl Cinder {
    /// Logs in with the application credential that the document of the driver has, and returns the token.
    pub fn log_in(&self) -> Result<String, Failure> {
        let user = json!({ "name": "demo", "domain": { "id": "default" } });
        let credential = json!({ "name": "csi", "secret": APPLICATION_SECRET, "user": user });
        let methods = ["application_credential"];
        let identity = json!({ "methods": methods, "application_credential": credential });
        let body = json!({ "auth": { "identity": identity } });
        let answer = ask(self.keystone(), "POST", "/v3/auth/tokens", "", &body)?;
        answer.header("x-subject-token").ok_or_else(|| {
            Failure::Unexpected(format!(
                "Keystone gave no token but {}: {}",
                answer.status, answer.body
            ))
        })
    }

    /// Sends a request to Cinder; `null` is no body.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        ask(self.cinder(), method, path, token, body)
    }

    /// Names of all objects of a kind, such as `snapshots`, or their ids if they have none.
    pub fn names(&self, token: &str, kind: &str) -> Result<Vec<String>, Failure> {
        let listed = self.ask("GET", &format!("/v3/{kind}"), token, &Value::Null)?;
        let all = listed.body.get(kind).and_then(Value::as_array);
        let all =
            all.ok_or_else(|| Failure::Unexpected(format!("Cinder lists no {kind}: {listed:?}")))?;
        let name = |it: &Value| {
            let name = it.get("name").and_then(Value::as_str);
            let name = name.or_else(|| it.get("id")?.as_str());
            name.map(str::to_owned)
        };
        Ok(all.iter().filter_map(name).collect())
    }

    /// All volumes of the project.
    pub fn volumes(&self, token: &str) -> Result<Vec<Value>, Failure> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let last = all.last().and_then(|it| it.get("id")?.as_str());
            let page = last.map(|id| format!("{VOLUMES}?marker={id}"));
            let page = self.ask(
                "GET",
                page.as_deref().unwrap_or(VOLUMES),
                token,
                &Value::Null,
            )?;
            match page.body.get("volumes").and_then(Value::as_array) {
                Some(volumes) if page.status == 200 => all.extend(volumes.iter().cloned()),
                _ => {
                    return Err(Failure::Unexpected(format!(
                        "Cinder lists no volumes: {page:?}"
                    )));
                }
            }
            if page.body.get("volumes_links").is_none() {
                return Ok(all);
            }
        }
    }
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    }
}

/// One request on a connection of its own: HTTP/1.0 ends an answer with the connection.
fn ask(
    server: SocketAddrV4,
    method: &str,
    path: &str,
    token: &str,
    body: &Value,
) -> Result<Answer, Failure> {
    let failed = || Failure::cannot(format!("send {method} {path} to {server}"));
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let mut stream = TcpStream::connect(server).map_err(failed())?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {server}\r\nX-Auth-Token: {token}\r\nContent-Type: application/json\r\n\
         OpenStack-API-Version: volume 3.67\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .map_err(failed())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    Ok(Answer {
        status: status.unwrap_or_default(),
        body: serde_json::from_str(body).unwrap_or_default(),
        head: head.to_owned(),
    })
}

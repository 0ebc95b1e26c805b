//! A request to a service of OpenStack beside the driver.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use xtask::failure::Failure;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Method and path, for messages.
    request: String,
    /// Its status.
    pub status: u16,
    /// Its JSON; null if it has none.
    pub body: Value,
    head: String,
}

impl Answer {
    /// The answer, if it is not an error.
    pub(super) fn succeeded(self) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        Err(Failure::Unexpected(format!(
            "OpenStack refuses {}: {self:?}",
            self.request
        )))
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    }

    /// A text of the body, such as the id of what was created.
    pub(super) fn text(&self, pointer: &str) -> Result<String, Failure> {
        let text = self.body.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned)
            .ok_or_else(|| Failure::Unexpected(format!("no {pointer} in {self:?}")))
    }
}

/// One request on a connection of its own: HTTP/1.0 ends an answer with the connection. `null` is no body.
pub(super) fn ask(
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
         OpenStack-API-Version: volume 3.67, compute 2.60\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .map_err(failed())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    Ok(Answer {
        request: format!("{method} {path}"),
        status: status.unwrap_or_default(),
        body: serde_json::from_str(body).unwrap_or_default(),
        head: head.to_owned(),
    })
}

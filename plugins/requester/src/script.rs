//! The steps of a script.

use crate::http::{self, Answer, Request};
use std::time::Duration;
use wasmount_guest::secrets::{self, Secret};
use wasmount_guest::{Error, http as sdk, log, session};

/// The session's key, and how long a value lasts.
const SESSION: &str = "array";
const LASTS: Duration = Duration::from_secs(600);

/// A message of gRPC without a field: it is not compressed, and its length is 0 ("Length-Prefixed-Message" of the protocol over HTTP/2).
const EMPTY_MESSAGE: [u8; 5] = [0; 5];

/// Longer than any call.
const LONG: Duration = Duration::from_secs(86_400);

/// Runs all steps, or up to the first that ends the call.
pub fn run(script: &str) -> Result<(), Error> {
    let mut target = "array".to_owned();
    let mut body = 0;
    let mut last = Answer::default();
    // Held until the call ends.
    let mut left = Vec::new();
    for step in script
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
    {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words.as_slice() {
            ["trap"] => panic!("told to trap"),
            ["sleep"] => std::thread::sleep(LONG),
            ["spin"] => loop {
                std::hint::spin_loop();
            },
            ["exhaust"] => return Err(Error::resource_exhausted("told to be full")),
            ["answer"] => return Err(Error::failed_precondition(last.text())),
            ["log"] => log::info(last.text(), &[]),
            ["secrets"] => {
                let names = secrets::names(secrets::Scope::Backend).join(" ");
                return Err(Error::failed_precondition(names));
            }
            ["login", value] => {
                let value = session::get(SESSION, || {
                    Ok(session::Login {
                        value: Secret::new(*value),
                        lasts: LASTS,
                    })
                })?;
                last = Answer::of(value.expose());
            }
            ["logout", value] => session::invalidate(SESSION, &Secret::new(*value)),
            ["to", authority] => target = (*authority).to_owned(),
            ["body", bytes] => body = bytes.parse().map_err(|_| unknown(step))?,
            ["grpc", path] => grpc(&target, path)?,
            ["leave", words @ ..] => {
                let request = request(words, &target, body).ok_or_else(|| unknown(step))?;
                left.push(http::begin(&request)?);
            }
            words => {
                let request = request(words, &target, body).ok_or_else(|| unknown(step))?;
                last = http::answer(&http::begin(&request)?)?;
            }
        }
    }
    Ok(())
}

fn request<'a>(words: &[&'a str], authority: &'a str, body: usize) -> Option<Request<'a>> {
    let (method, marks, path) = match words {
        [method, path] => (*method, None, *path),
        [method, marks, path] => (*method, Some(*marks), *path),
        _ => return None,
    };
    Some(Request {
        method,
        authority,
        path,
        marks,
        body: vec![b'x'; body],
    })
}

/// A unary call as a vendor writes it, with the client of the SDK.
fn grpc(grant: &str, path: &str) -> Result<(), Error> {
    let response = sdk::post(grant, path)
        .header("te", "trailers")
        .body("application/grpc", EMPTY_MESSAGE.to_vec())
        .send()?;
    // An answer without a message has the status among its headers.
    let status = response
        .trailer("grpc-status")
        .or(response.header("grpc-status"));
    match status {
        Some("0") => Ok(()),
        other => Err(Error::failed_precondition(format!("grpc-status {other:?}"))),
    }
}

fn unknown(step: &str) -> Error {
    Error::invalid_argument(format!("`{step}` is no step"))
}

//! Requests to real servers in this process: TCP, TLS, HTTP/1.1 and HTTP/2.

mod answers;
mod connections;
mod logins;
mod proxies;
mod server;
mod sessions;
mod tape;
mod verification;

use crate::{Endpoints, Network, NetworkError, Response, Scope, SendError, Service};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::document::network::NetworkGrant;
use wasmount_core::document::{StorageBackend, raw};
use wasmount_core::names::DriverName;
use wasmount_core::secrets::Secrets;

/// Names of the secrets that the documents of these tests have.
const SECRETS: [&str; 6] = ["ca", "certificate", "key", "password", "token", "user"];

/// The grant `array` of a document, by the keys that it does not have by default.
pub(crate) fn grant(keys: &str) -> NetworkGrant {
    let mut entry: Value = serde_json::from_str(keys).unwrap();
    if entry.get("hosts").is_none() {
        entry["hosts"] = json!(["array.example.com:443"]);
    }
    granted(json!({ "array": entry })).remove("array").unwrap()
}

/// The network grants of a document.
fn granted(network: Value) -> std::collections::BTreeMap<String, NetworkGrant> {
    let secrets = SECRETS.map(|name| (name.to_owned(), json!({ "file": name })));
    let document = json!({
        "apiVersion": raw::API_VERSION,
        "kind": raw::KIND,
        "metadata": { "name": "array" },
        "spec": {
            "driverName": "array.example.com",
            "plugin": { "path": "array.wasm" },
            "secrets": serde_json::Map::from_iter(secrets),
            "grants": { "network": network },
        },
    });
    let document: raw::Document = serde_json::from_value(document).unwrap();
    StorageBackend::try_from(document).unwrap().grants.network
}

/// Values of the secrets: those given, and the name of each other one.
fn secrets(given: &[(&str, &str)]) -> Secrets {
    let names = SECRETS.map(|name| (name.to_owned(), name.to_owned()));
    let mut secrets = Secrets::from_iter(names);
    for (name, value) in given {
        secrets.insert((*name).to_owned(), (*value).to_owned());
    }
    secrets
}

fn driver() -> DriverName {
    DriverName::parse("array.example.com").unwrap()
}

fn open_in(
    network: &Network,
    grants: Value,
    values: &[(&str, &str)],
) -> Result<Endpoints, NetworkError> {
    network.open(&driver(), &granted(grants), &secrets(values))
}

fn open(grants: Value) -> Endpoints {
    open_in(&Network::new(Vec::new()), grants, &[]).unwrap()
}

fn scope() -> Scope {
    within(Duration::from_secs(60))
}

fn within(time: Duration) -> Scope {
    Scope {
        service: Service::Controller,
        may_change: true,
        deadline: Instant::now() + time,
        request_id: "request-1".to_owned(),
        request_secrets: Arc::default(),
    }
}

/// A request by a line such as `POST http://array/volumes`, perhaps with marks.
fn request(line: &str) -> Request<Bytes> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut request = Request::builder().method(words[0]).uri(words[1]);
    if let Some(marks) = words.get(2) {
        request = request.header(crate::MARKS, *marks);
    }
    request.body(Bytes::new()).unwrap()
}

async fn send(endpoints: &Endpoints, line: &str) -> Result<Response, SendError> {
    endpoints.send(&scope(), request(line)).await
}

async fn status(endpoints: &Endpoints, line: &str) -> u16 {
    send(endpoints, line).await.unwrap().parts.status.as_u16()
}

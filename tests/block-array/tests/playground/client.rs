//! A client of the REST API.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wasmount_block_array::{PASSWORD, USER};

/// Until something must have happened. Generous: other tests share the machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Logged in.
pub(crate) struct Api {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    token: String,
}

impl Api {
    pub(crate) async fn log_in(address: SocketAddr) -> Self {
        let mut api = Self {
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            token: String::new(),
        };
        let login = json!({ "user": USER, "password": PASSWORD });
        let (status, answer) = api.ask("POST", "/api/sessions", login).await.unwrap();
        assert_eq!(status, 201, "{answer}");
        api.token = answer["token"].as_str().unwrap().to_owned();
        api
    }

    /// The status and the JSON of an answer, if there is one. Null is no body.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> Result<(u16, Value), hyper_util::client::legacy::Error> {
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .header("x-auth-token", &self.token)
            .body(Full::new(body))
            .unwrap();
        let answer = self.client.request(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// The JSON of an answer that must be a success.
    pub(crate) async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method, path, body).await.unwrap();
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    /// Creates a volume or a snapshot, and waits until it is ready; its id.
    pub(crate) async fn create(&self, kind: &str, body: Value) -> String {
        let path = format!("/api/{kind}");
        let created = self.done("POST", &path, body).await;
        let id = created["id"].as_str().unwrap().to_owned();
        let path = format!("{path}/{id}");
        until(&format!("{id} is ready"), async || {
            self.done("GET", &path, Value::Null).await["state"] == "ready"
        })
        .await;
        id
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(LOOK).await;
    }
}

//! A fake API server for unit tests, for behaviour that a real one does not show on demand: never answering, or rejecting one request. It records
//! requests and stores no objects.

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// The answer to a request.
pub(crate) enum Reply {
    /// An object.
    Object(Value),
    /// A failure.
    Failure(StatusCode),
    /// No answer.
    Never,
}

/// A client of such a server, and the requests that it received.
pub(crate) fn api_double(
    reply: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let log: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
    let (reply, kept) = (Arc::new(reply), log.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (reply, kept) = (reply.clone(), kept.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let request = ReceivedRequest {
                method: head.method,
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            kept.lock().unwrap().push(request.clone());
            let (status, body) = match reply(&request) {
                Reply::Object(object) => (StatusCode::OK, object),
                Reply::Failure(status) => {
                    let code = status.as_u16();
                    // The library uses the reason, not the status code.
                    let not_found = status == StatusCode::NOT_FOUND;
                    let reason = if not_found { "NotFound" } else { "Test" };
                    let body = json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "not now", "reason": reason, "code": code,
                    });
                    (status, body)
                }
                Reply::Never => pending().await,
            };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            let response = Response::builder().status(status).body(body).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(service, "default"), log)
}

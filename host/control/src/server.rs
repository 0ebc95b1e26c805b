//! The server of the admin socket: who may connect, and the limits of a connection.
//!
//! A connection carries one request. A client that sends nothing, or does not read, occupies its own place for some seconds and delays no other
//! client.

use crate::error::{Refusal, RefusalKind};
use axum::body::to_bytes;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::{Extension, Router};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

/// Largest request, in bytes. 64 KiB: a path and some flags.
const REQUEST_BYTES: usize = 64 << 10;
/// Largest rejection of the HTTP library, in bytes: a sentence with a part of the request in it.
const LIBRARY_MESSAGE_BYTES: usize = 4 << 10;
/// Root's user id.
const ROOT: u32 = 0;

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at a time; further ones wait.
    pub connections: usize,
    /// Time to send a request, headers and body.
    pub sending: Duration,
    /// Time to read the answer.
    pub reading: Duration,
}

impl Default for ServerLimits {
    /// 64 connections: more commands at a time than a person starts. 5 s to send and 10 s to read: both are some packets on the same machine.
    fn default() -> Self {
        Self {
            connections: 64,
            sending: Duration::from_secs(5),
            reading: Duration::from_secs(10),
        }
    }
}

/// Who sent a request: an extension of each one that reaches a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The number of the user.
    pub uid: u32,
}

/// Serves these routes to root and to the user of this process, until dropped.
pub async fn serve(listener: OwnedFd, routes: Router, limits: ServerLimits) -> io::Result<()> {
    let mut listener = UnixListener::from_std(listener.into())?;
    let routes = routes.layer(map_response(as_refusal));
    let own = rustix::process::geteuid().as_raw();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    // Fails only if the semaphore is closed, which never happens.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        // Pauses when descriptors or memory are wanting.
        let (stream, _) = Listener::accept(&mut listener).await;
        let routes = match stream.peer_cred() {
            Ok(peer) if may_connect(peer.uid(), own) => {
                routes.clone().layer(Extension(Peer { uid: peer.uid() }))
            }
            peer => refusing(peer.map(|peer| peer.uid()).ok()),
        };
        connections.spawn(async move {
            converse(stream, routes, limits).await;
            drop(place);
        });
    }
    Ok(())
}

/// The mode of the socket file keeps other users out; this check also covers a process that inherited or received a descriptor.
fn may_connect(uid: u32, own: u32) -> bool {
    uid == ROOT || uid == own
}

/// Routes for a client that is not allowed to connect: each request is rejected.
fn refusing(uid: Option<u32>) -> Router {
    let who = uid.map_or_else(
        || "a process of an unknown user".to_owned(),
        |uid| format!("the user with the number {uid}"),
    );
    Router::new().fallback(async move || {
        let message =
            format!("{who} may not use the admin socket: only root and the user of the host may");
        Refusal::new(RefusalKind::Forbidden, message)
    })
}

/// Turns a rejection of the HTTP library (a body that is not JSON, a method that a route lacks) into the same form as the others: kind and message.
async fn as_refusal(response: Response) -> Response {
    let status = response.status();
    let json = HeaderValue::from_static("application/json");
    if status.is_success() || response.headers().get(CONTENT_TYPE) == Some(&json) {
        return response;
    }
    let reason = to_bytes(response.into_body(), LIBRARY_MESSAGE_BYTES).await;
    let reason = reason.unwrap_or_default();
    let mut message = format!("the host does not understand the request ({status})");
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(&String::from_utf8_lossy(&reason));
    }
    let kind = match status.is_server_error() {
        true => RefusalKind::Failed,
        false => RefusalKind::Malformed,
    };
    Refusal::new(kind, message).into_response()
}

/// Serves one request.
async fn converse(stream: UnixStream, routes: Router, limits: ServerLimits) {
    let answered = Arc::new(Notify::new());
    let notify = Arc::clone(&answered);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request| {
        let (routes, notify) = (routes.clone(), Arc::clone(&notify));
        async move {
            let answer = match whole(request, limits.sending).await {
                // A task of its own: a change that has begun must not end halfway when its client disconnects.
                Ok(request) => match tokio::spawn(routes.call(request)).await {
                    Ok(answer) => answer,
                    Err(error) => Ok(ended(&error).into_response()),
                },
                Err(refusal) => Ok(refusal.into_response()),
            };
            notify.notify_one();
            answer
        }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.sending)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // The result is ignored: no client is left to report it to.
        _ = connection => {}
        () = async {
            answered.notified().await;
            sleep(limits.reading).await;
        } => {}
    }
}

/// The answer of a request whose task has ended without one.
fn ended(error: &JoinError) -> Refusal {
    let reason = match error.is_panic() {
        true => "the request ended with a fault of the host: see its log",
        false => "the host is shutting down",
    };
    Refusal::new(RefusalKind::Failed, reason)
}

/// Reads the request with its whole body, so that routes wait for no client.
async fn whole(
    request: Request<Incoming>,
    within: Duration,
) -> Result<Request<Full<Bytes>>, Refusal> {
    let malformed = |message: String| Refusal::new(RefusalKind::Malformed, message);
    let (head, body) = request.into_parts();
    let collected = timeout(within, Limited::new(body, REQUEST_BYTES).collect()).await;
    let limit = within.as_secs();
    let body = collected
        .map_err(|_| malformed(format!("the request did not come within {limit} s")))?
        .map_err(|error| malformed(format!("the request cannot be read: {error}")))?;
    Ok(Request::from_parts(head, Full::new(body.to_bytes())))
}

#[cfg(test)]
mod tests;

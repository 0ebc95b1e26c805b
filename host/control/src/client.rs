//! The client of the admin socket: one connection for each request.

use crate::error::{ControlError, Refusal, RefusalKind};

use crate::words::{Delete, Done, Drain, Drained, History, HostStatus, Rollback, Swap, Volumes};
use crate::{ANSWER_BYTES, paths};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The `Host` header, which HTTP requires and the server here does not read.
const HOST: &str = "wasmount";
/// Time limit of a request that the host answers from memory.
const SHORT: Duration = Duration::from_secs(10);
/// Time limit of a request that changes something: a component may be fetched, compiled and probed.
const LONG: Duration = Duration::from_secs(20 * 60);

/// A client of one host.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client of the host at this socket. Each request connects anew.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The host and its drivers.
    pub async fn status(&self) -> Result<HostStatus, ControlError> {
        self.ask(paths::STATUS, None::<&()>, SHORT).await
    }

    /// The versions of a driver.
    pub async fn history(&self, driver: &str) -> Result<History, ControlError> {
        let path = path(paths::HISTORY, driver)?;
        self.ask(&path, None::<&()>, SHORT).await
    }

    /// Its volumes on the host's node.
    pub async fn volumes(&self, driver: &str) -> Result<Volumes, ControlError> {
        let path = path(paths::VOLUMES, driver)?;
        self.ask(&path, None::<&()>, SHORT).await
    }

    /// Swaps to what the document says, or to another component.
    pub async fn swap(&self, driver: &str, swap: &Swap) -> Result<Done, ControlError> {
        let path = path(paths::SWAP, driver)?;
        self.ask(&path, Some(swap), LONG).await
    }

    /// Rolls the driver back.
    pub async fn rollback(&self, driver: &str, to: &Rollback) -> Result<Done, ControlError> {
        let path = path(paths::ROLLBACK, driver)?;
        self.ask(&path, Some(to), LONG).await
    }

    /// Pauses the driver: it changes nothing without a command.
    pub async fn pause(&self, driver: &str) -> Result<Done, ControlError> {
        let path = path(paths::PAUSE, driver)?;
        self.ask(&path, Some(&()), SHORT).await
    }

    /// Ends a pause and a drain.
    pub async fn resume(&self, driver: &str) -> Result<Done, ControlError> {
        let path = path(paths::RESUME, driver)?;
        self.ask(&path, Some(&()), SHORT).await
    }

    /// Drains the driver: it takes no new work.
    pub async fn drain(&self, driver: &str, drain: &Drain) -> Result<Drained, ControlError> {
        let path = path(paths::DRAIN, driver)?;
        let patience = Duration::from_secs(drain.patience_seconds) + SHORT;
        self.ask(&path, Some(drain), patience).await
    }

    /// Deletes the driver from the host.
    pub async fn delete(&self, driver: &str, delete: &Delete) -> Result<Done, ControlError> {
        let path = path(paths::DELETE, driver)?;
        self.ask(&path, Some(delete), LONG).await
    }

    /// Sends one request: a change (POST) if it has a body.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        words: Option<&impl Serialize>,
        patience: Duration,
    ) -> Result<T, ControlError> {
        let method = match words {
            None => Method::GET,
            Some(_) => Method::POST,
        };
        let body = match words {
            None => Bytes::new(),
            Some(words) => {
                let written = serde_json::to_vec(words);
                Bytes::from(written.map_err(|error| self.broken(error))?)
            }
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, HOST)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(body))
            .map_err(|error| self.broken(error))?;
        let answered = timeout(patience, self.answer(request)).await;
        let (status, bytes) = answered.map_err(|_| ControlError::TooSlow {
            path: self.socket.clone(),
            patience,
        })??;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| self.broken(error));
        }
        let refusal: Refusal = serde_json::from_slice(&bytes)
            .map_err(|_| self.broken(format!("HTTP status {status}")))?;
        Err(match refusal.kind {
            RefusalKind::Forbidden => ControlError::Forbidden {
                path: self.socket.clone(),
            },
            _ => refusal.into(),
        })
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|error| self.not_connected(error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(error))?;
        // The connection ends with the answer, or when this call is dropped.
        let mut connection = std::pin::pin!(connection);
        let mut asked = std::pin::pin!(async {
            let response = sender.send_request(request).await;
            let response = response.map_err(|error| self.broken(error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES);
            let collected = body.collect().await;
            let bytes = collected.map_err(|error| self.broken(error))?.to_bytes();
            Ok((status, bytes))
        });
        let mut is_open = true;
        loop {
            tokio::select! {
                answer = &mut asked => return answer,
                // An error of the connection is also an error of the request.
                _ = &mut connection, if is_open => is_open = false,
            }
        }
    }

    fn not_connected(&self, source: io::Error) -> ControlError {
        let path = self.socket.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ControlError::NotRunning { path }
            }
            io::ErrorKind::PermissionDenied => ControlError::Forbidden { path },
            _ => ControlError::Connection { path, source },
        }
    }

    fn broken(&self, reason: impl ToString) -> ControlError {
        ControlError::Broken {
            path: self.socket.clone(),
            reason: reason.to_string(),
        }
    }
}

fn path(path: &str, driver: &str) -> Result<String, ControlError> {
    if paths::is_driver(driver) {
        return Ok(paths::of(path, driver));
    }
    Err(ControlError::NoDriver {
        word: driver.to_owned(),
    })
}

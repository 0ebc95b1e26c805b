//! The client of the admin socket: one connection for each request.

use crate::error::{ControlError, Refusal, RefusalKind};
use crate::messages::{
    Delete, Done, Drain, Drained, History, HostStatus, LogLevel, Rollback, Swap, Volumes,
};
use crate::{ANSWER_BYTES, paths};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The `Host` header, which HTTP requires and the server here does not read.
const HOST: &str = "wasmount";
/// Time limit of a request that the host answers from memory.
const SHORT: Duration = Duration::from_secs(10);
/// Time limit of a request that changes something: a component may be fetched, compiled and probed.
const LONG: Duration = Duration::from_secs(20 * 60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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

    /// The host and its drivers.
    pub async fn status(&self) -> Result<HostStatus, ControlError> {
        self.get(paths::STATUS).await
    }

    /// What the host logs.
    pub async fn log_level(&self) -> Result<LogLevel, ControlError> {
        self.get(paths::LOG_LEVEL).await
    }

    /// Changes what the host logs, until it restarts.
    pub async fn set_log_level(&self, level: &LogLevel) -> Result<LogLevel, ControlError> {
        self.post(paths::LOG_LEVEL, level, SHORT).await
    }

    /// The versions of a driver.
    pub async fn history(&self, driver: &str) -> Result<History, ControlError> {
        self.get(&paths::of(paths::HISTORY, driver)?).await
    }

    /// Its volumes on the host's node.
    pub async fn volumes(&self, driver: &str) -> Result<Volumes, ControlError> {
        self.get(&paths::of(paths::VOLUMES, driver)?).await
    }

    /// Swaps to what the document says, or to another component.
    pub async fn swap(&self, driver: &str, swap: &Swap) -> Result<Done, ControlError> {
        let path = paths::of(paths::SWAP, driver)?;
        self.post(&path, swap, LONG).await
    }

    /// Rolls the driver back.
    pub async fn rollback(&self, driver: &str, to: &Rollback) -> Result<Done, ControlError> {
        let path = paths::of(paths::ROLLBACK, driver)?;
        self.post(&path, to, LONG).await
    }

    /// Pauses the driver: it changes nothing without a command.
    pub async fn pause(&self, driver: &str) -> Result<Done, ControlError> {
        let path = paths::of(paths::PAUSE, driver)?;
        self.post(&path, &(), SHORT).await
    }

    /// Ends a pause and a drain.
    pub async fn resume(&self, driver: &str) -> Result<Done, ControlError> {
        let path = paths::of(paths::RESUME, driver)?;
        self.post(&path, &(), SHORT).await
    }

    /// Drains the driver: it takes no new work.
    pub async fn drain(&self, driver: &str, drain: &Drain) -> Result<Drained, ControlError> {
        let path = paths::of(paths::DRAIN, driver)?;
        let limit = Duration::from_secs(drain.patience_seconds) + SHORT;
        self.post(&path, drain, limit).await
    }

    /// Deletes the driver from the host.
    pub async fn delete(&self, driver: &str, delete: &Delete) -> Result<Done, ControlError> {
        let path = paths::of(paths::DELETE, driver)?;
        self.post(&path, delete, LONG).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.request(Method::GET, path, Vec::new(), SHORT).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        message: &impl Serialize,
        limit: Duration,
    ) -> Result<T, ControlError> {
        let body = serde_json::to_vec(message).map_err(|error| self.broken(error))?;
        self.request(Method::POST, path, body, limit).await
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<T, ControlError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, HOST)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.broken(error))?;
        let answered = timeout(limit, self.answer(request)).await;
        let (status, bytes) = answered.map_err(|_| ControlError::TooSlow {
            path: self.socket.clone(),
            timeout: limit,
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
        let answered = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES);
            Ok::<_, BoxError>((status, body.collect().await?.to_bytes()))
        };
        // The connection ends with the answer. An error of it is also an error of the request.
        let (answer, _) = tokio::join!(answered, connection);
        answer.map_err(|error| self.broken(error))
    }

    fn not_connected(&self, source: io::Error) -> ControlError {
        let path = self.socket.clone();
        match source.kind() {
            io::ErrorKind::ConnectionRefused if is_other_file(&path) => {
                ControlError::NotASocket { path }
            }
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

/// Whether something else than a socket is there.
fn is_other_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.file_type().is_socket())
}

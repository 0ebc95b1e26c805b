//! Standard output and standard error of a guest, as WASI wants them. Writing never waits and never fails: what is too much is dropped there.

use crate::guest_log::{GuestLog, Stream};
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes that a guest may write at a time, as WASI's own pipes allow.
const WRITE_BYTES: usize = 8192;

/// A stream of one call.
#[derive(Clone)]
pub(crate) struct Pipe {
    log: Arc<GuestLog>,
    stream: Stream,
}

impl Pipe {
    pub(crate) fn new(log: Arc<GuestLog>, stream: Stream) -> Self {
        Self { log, stream }
    }
}

impl IsTerminal for Pipe {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Pipe {
    /// For WASI 0.3, which no guest is linked with.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Pipe {
    async fn ready(&mut self) {}
}

impl OutputStream for Pipe {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

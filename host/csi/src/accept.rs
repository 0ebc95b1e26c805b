//! Accepts connections: their limit, and the log messages when none can be accepted.

use crate::authority::Rewriter;
use crate::inbound::Budget;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tonic::transport::server::Connected;

/// Pause after a failed accept: it fails for lack of descriptors or memory, and an immediate retry would fail again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection with its permit, of which a driver has a limited number.
pub(crate) struct Connection {
    stream: UnixStream,
    authority: Rewriter,
    budget: Budget,
    _place: OwnedSemaphorePermit,
}

/// A listener with its state between connections.
pub(crate) struct Accepting {
    listener: UnixListener,
    most: usize,
    places: Arc<Semaphore>,
    budget: Budget,
    /// Logged once: it would otherwise be logged for every attempt without any new information.
    failing: bool,
    full: bool,
}

impl Accepting {
    /// Accepts connections, at most `most` at a time; further clients wait in the backlog until one of them closes.
    pub(crate) fn new(listener: UnixListener, most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            listener,
            most,
            places: Arc::new(Semaphore::new(most)),
            budget: Budget::default(),
            failing: false,
            full: false,
        }
    }

    /// The next connection. Cancel-safe: if the future is dropped early, no connection is lost.
    pub(crate) async fn next(&mut self) -> Option<Connection> {
        let free = Arc::clone(&self.places).try_acquire_owned();
        let place = match free {
            Ok(place) => {
                // The state ends when half of the permits are free again, not with each connection that closes.
                self.full &= self.places.available_permits() < self.most / 2;
                place
            }
            Err(_) => {
                if !self.full {
                    let connections = self.most;
                    tracing::warn!(
                        connections,
                        "connection limit of the driver reached: new clients wait until a connection closes"
                    );
                }
                self.full = true;
                // Fails only if the semaphore is closed, which never happens.
                Arc::clone(&self.places).acquire_owned().await.ok()?
            }
        };
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("connections are accepted again");
                    }
                    return Some(Connection {
                        stream,
                        authority: Rewriter::default(),
                        budget: self.budget.of_connection(),
                        _place: place,
                    });
                }
                Err(error) => {
                    if !self.failing {
                        tracing::warn!(%error, "connections cannot be accepted; retrying");
                    }
                    self.failing = true;
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Budget;

    fn connect_info(&self) -> Budget {
        self.budget.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled_mut().get_mut(before..);
        self.authority.pass(read.unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

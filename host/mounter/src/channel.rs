//! Greetings and messages over a connected Unix socket.
//!
//! The kernel reports at once when the other process is gone, for whatever reason (unix(7)).

use crate::protocol::{BootId, Greeting, HEAD_BYTES, MESSAGE_BYTES, Message, VERSION, Violation};
use rustix::net::{RecvFlags, recv};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// Time limit for the other side's greeting, and for a message once it has begun. 5 s: both are microseconds of work; a process that takes longer is
/// stopped, or hostile.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect while the socket's queue is full.
const CONNECT_AGAIN: Duration = Duration::from_millis(10);
/// Largest message that is received without a permit, in bytes: nearly every message is smaller.
const SMALL_BYTES: usize = 16 << 10;

/// One connection, over a socket that was accepted or connected.
pub(crate) struct Channel(pub(crate) UnixStream);

/// Why a connection is no longer usable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Disconnected {
    /// Closed between two messages, as expected.
    #[error("the other side closed the connection")]
    Closed,
    /// Closed in the middle of a message.
    #[error("the other side closed the connection in the middle of a message")]
    Half,
    /// The other side is connected, but does not respond.
    #[error("the other side took longer than {} s over {what}", TIME_LIMIT.as_secs())]
    Slow {
        /// The step that took too long.
        what: &'static str,
    },
    /// The other side violates the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// An error of the kernel.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Channel {
    /// Connects. If the queue of connections is full, it waits: `connect` of a Unix socket then fails with EAGAIN and has not begun anything.
    pub(crate) async fn connect(path: &Path) -> Result<Self, Disconnected> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            match UnixStream::connect(path).await {
                Err(error) if is_not_now(&error) && Instant::now() < deadline => {
                    sleep(CONNECT_AGAIN).await;
                }
                connected => return Ok(Self(connected?)),
            }
        }
    }

    /// Sends our greeting and receives that of the other side.
    pub(crate) async fn greet(&mut self, ours: Greeting) -> Result<Greeting, Disconnected> {
        self.send_greeting(ours).await?;
        self.greeting().await
    }

    pub(crate) async fn send_greeting(&mut self, greeting: Greeting) -> Result<(), Disconnected> {
        Ok(self.0.write_all(&greeting.bytes()).await?)
    }

    /// Receives the greeting of the other side. A later version's greeting may be longer; the rest is not needed.
    pub(crate) async fn greeting(&mut self) -> Result<Greeting, Disconnected> {
        in_time("its greeting", async {
            let mut head = [0; HEAD_BYTES];
            self.fill(&mut head).await?;
            let mut greeting = Greeting::of_head(head)?;
            // Another version has another format there.
            if greeting.version == VERSION {
                let mut boot_id = uuid::Bytes::default();
                self.fill(&mut boot_id).await?;
                greeting.boot_id = BootId::from_bytes(boot_id);
            }
            Ok(greeting)
        })
        .await
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &[u8]) -> Result<(), Disconnected> {
        // At most `MESSAGE_BYTES`, so it fits.
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        in_time("reading a message", async {
            self.0.write_all(&length.to_le_bytes()).await?;
            Ok(self.0.write_all(message).await?)
        })
        .await
    }

    /// Waits without a limit for a message to begin, then receives it. A large message acquires a permit, if they are limited.
    pub(crate) async fn receive(
        &mut self,
        large: Option<&Semaphore>,
    ) -> Result<Message, Disconnected> {
        let mut length = [0; size_of::<u32>()];
        let (first, _) = length.split_at_mut(1);
        self.fill(first).await?;
        match in_time("sending a message", self.rest(length, large)).await {
            Err(Disconnected::Closed) => Err(Disconnected::Half),
            received => received,
        }
    }

    /// Receives a message, of whose length the first byte is known.
    async fn rest(
        &mut self,
        mut length: [u8; size_of::<u32>()],
        large: Option<&Semaphore>,
    ) -> Result<Message, Disconnected> {
        let (_, others) = length.split_at_mut(1);
        self.fill(others).await?;
        let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if bytes > MESSAGE_BYTES {
            return Err(Violation::TooLarge { bytes }.into());
        }
        let _permit = match large.filter(|_| bytes > SMALL_BYTES) {
            // The semaphore is never closed.
            Some(large) => large.acquire().await.ok(),
            None => None,
        };
        // Never grows: a buffer that grows leaves copies of secrets in memory.
        let mut message = Message::new(vec![0; bytes]);
        self.fill(&mut message).await?;
        Ok(message)
    }

    /// True if the other side is gone, or has sent data out of turn. It queries the kernel, which knows at once.
    pub(crate) fn is_over(&self) -> bool {
        !self.peek().is_err_and(|error| is_not_now(&error))
    }

    /// Returns when the connection is over.
    pub(crate) async fn over(&self) {
        // An error ends the connection as well.
        let _ = self.0.async_io(Interest::READABLE, || self.peek()).await;
    }

    fn peek(&self) -> io::Result<()> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.0, &mut [0; 1], flags)?;
        Ok(())
    }

    /// Fills a buffer. [`Disconnected::Closed`]: the connection ended before its first byte.
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Disconnected> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest).await? {
                0 if filled == 0 => return Err(Disconnected::Closed),
                0 => return Err(Disconnected::Half),
                bytes => filled += bytes,
            }
        }
        Ok(())
    }
}

async fn in_time<T>(
    what: &'static str,
    step: impl Future<Output = Result<T, Disconnected>>,
) -> Result<T, Disconnected> {
    let slow = |_| Disconnected::Slow { what };
    timeout(TIME_LIMIT, step).await.map_err(slow)?
}

fn is_not_now(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests;

//! Messages over a connected seqpacket socket: sends and receives the protocol's packets.
//!
//! A seqpacket socket keeps packets whole and in order, and reports when the other process is gone, for whatever reason (unix(7)).

use crate::protocol::{
    Assembly, GREETING_BYTES, Greeting, Message, PACKET_BYTES, Violation, packets,
};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_seqpacket::UnixSeqpacket;
use zeroize::{Zeroize, Zeroizing};

/// Time limit for the other side's greeting, and for a message once it has begun. 5 s: both are microseconds of work; a process that takes longer is
/// stopped, or hostile.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect while the socket's queue is full.
const CONNECT_AGAIN: Duration = Duration::from_millis(10);

/// One connection.
pub(crate) struct Channel {
    socket: UnixSeqpacket,
    /// Zeroed after each message: it may have held secrets.
    buffer: Zeroizing<Vec<u8>>,
}

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
    #[error("the other side took longer than {} s over {what}", PATIENCE.as_secs())]
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
    /// A channel over a socket that was accepted or connected.
    pub(crate) fn new(socket: UnixSeqpacket) -> Self {
        Self {
            socket,
            buffer: Zeroizing::new(vec![0; PACKET_BYTES]),
        }
    }

    /// Connects. If the queue of connections is full, it waits: `connect` of a Unix socket then fails with EAGAIN and has not begun anything.
    pub(crate) async fn connect(path: &Path) -> Result<Self, Disconnected> {
        let deadline = Instant::now() + PATIENCE;
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        loop {
            let socket = socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )
            .map_err(io::Error::from)?;
            match connect(&socket, &address) {
                Ok(()) => return Ok(Self::new(UnixSeqpacket::try_from(socket)?)),
                Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => {
                    sleep(CONNECT_AGAIN).await;
                }
                Err(errno) => return Err(Disconnected::System(errno.into())),
            }
        }
    }

    /// Sends our greeting and receives that of the other side.
    pub(crate) async fn greet(&mut self, ours: Greeting) -> Result<Greeting, Disconnected> {
        self.send_greeting(ours).await?;
        self.greeting().await
    }

    pub(crate) async fn send_greeting(&self, greeting: Greeting) -> Result<(), Disconnected> {
        self.socket.send(&greeting.bytes()).await?;
        Ok(())
    }

    /// Receives the greeting of the other side.
    pub(crate) async fn greeting(&mut self) -> Result<Greeting, Disconnected> {
        // A later version's greeting may be longer; the rest is not needed.
        let mut packet = [0; GREETING_BYTES];
        let came = timeout(PATIENCE, self.socket.recv(&mut packet)).await;
        let length = came
            .map_err(|_| Disconnected::Slow {
                what: "its greeting",
            })??
            .bytes_read();
        if length == 0 {
            return Err(Disconnected::Closed);
        }
        Ok(Greeting::read(packet.get(..length).unwrap_or_default())?)
    }

    /// Sends a message.
    pub(crate) async fn send(&self, message: &[u8]) -> Result<(), Disconnected> {
        let sent = async {
            for packet in packets(message) {
                self.socket.send(&packet).await?;
            }
            Ok(())
        };
        let slow = |_| Disconnected::Slow {
            what: "reading a message",
        };
        timeout(PATIENCE, sent).await.map_err(slow)?
    }

    /// Waits without a limit for a message to begin, then receives it. A message of more than one packet acquires a permit of `large`.
    pub(crate) async fn receive(&mut self, large: &Semaphore) -> Result<Message, Disconnected> {
        let mut assembly = Assembly::default();
        let first = self.packet().await?;
        if let Some(message) = self.add(&mut assembly, first)? {
            return Ok(message);
        }
        let deadline = Instant::now() + PATIENCE;
        let rest = async {
            // The semaphore is never closed.
            let _place = large.acquire().await;
            loop {
                let next = self.packet().await?;
                if let Some(message) = self.add(&mut assembly, next)? {
                    return Ok(message);
                }
            }
        };
        let slow = |_| Disconnected::Slow {
            what: "sending a message",
        };
        match timeout_at(deadline, rest).await.map_err(slow)? {
            Err(Disconnected::Closed) => Err(Disconnected::Half),
            received => received,
        }
    }

    /// True if the other side is gone, or has sent data out of turn. It asks the kernel, which knows at once.
    pub(crate) fn is_over(&self) -> bool {
        let peeked = recv(
            &self.socket,
            &mut [0; 1],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        !matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Returns when the connection is over.
    pub(crate) async fn over(&self) {
        // An error ends the connection as well.
        let _ = self.socket.peek(&mut [0; 1]).await;
    }

    async fn packet(&mut self) -> Result<usize, Disconnected> {
        let came = self.socket.recv(&mut self.buffer).await?;
        match came.bytes_read() {
            0 => Err(Disconnected::Closed),
            bytes if came.truncated() => Err(Violation::Packet { bytes }.into()),
            bytes => Ok(bytes),
        }
    }

    fn add(&mut self, assembly: &mut Assembly, bytes: usize) -> Result<Option<Message>, Violation> {
        let packet = self.buffer.get_mut(..bytes).unwrap_or_default();
        let added = assembly.add(packet);
        packet.zeroize();
        added
    }
}

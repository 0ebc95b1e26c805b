//! A TCP relay to a server that can stop without closing a connection, as in a broken network: data is neither refused nor lost at once, it just
//! never arrives.

use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use xtask::failure::Failure;

/// Bytes that are passed on at a time. 16 KiB: a TLS record.
const PIECE_BYTES: usize = 16 << 10;

/// A running relay; it stops when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    open: watch::Sender<bool>,
    _accepting: AbortOnDropHandle<()>,
}

impl Relay {
    /// Starts a relay to a server.
    pub async fn start(to: SocketAddr) -> Result<Self, Failure> {
        let failed = || Failure::cannot("listen for a relay");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let (open, opened) = watch::channel(true);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(join(client, to, opened.clone()));
            }
        });
        Ok(Self {
            address,
            open,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    /// The address of the relay.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing arrives, in either direction.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Data that was sent meanwhile arrives now.
    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn join(client: TcpStream, to: SocketAddr, open: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::join!(
        pass(from_client, to_server, open.clone()),
        pass(from_server, to_client, open)
    );
}

/// Copies until one of the two ends, or the relay is dropped.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let opened = open.wait_for(|open| *open).await.is_ok();
        let Some(piece) = piece.get(..length).filter(|_| opened) else {
            return;
        };
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}

//! The other VM of `cargo xtask vm --two`: messages between two programs that run the same test.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use xtask::failure::Failure;

/// The address of the first VM.
pub const FIRST: &str = "10.0.0.1";

/// Where the first VM waits for the second.
const MEETING: &str = "10.0.0.1:7000";

/// Which VM this is.
const NUMBER: &str = "WASMOUNT_VM";

/// Timeout of each wait for the other: above the start of a Ceph.
const PATIENCE: Duration = Duration::from_secs(240);

/// Between two attempts to connect.
const LOOK: Duration = Duration::from_millis(100);

/// The other VM.
#[derive(Debug)]
pub struct Peer(BufReader<TcpStream>);

impl Peer {
    /// The number of this VM: 1 or 2.
    pub fn number() -> Result<u32, Failure> {
        let number = std::env::var(NUMBER).map_err(Failure::cannot("read WASMOUNT_VM"))?;
        number.parse().map_err(Failure::cannot("parse WASMOUNT_VM"))
    }

    /// Waits until the other is there.
    pub fn find() -> Result<Self, Failure> {
        let stream = match Self::number()? {
            1 => TcpListener::bind(MEETING)
                .and_then(|it| it.accept())
                .map(|it| it.0),
            _ => connect(),
        };
        let stream = stream.and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = stream.map_err(Failure::cannot("find the other VM"))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a message.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(message).map_err(Failure::cannot("write a message"))?;
        let sent = writeln!(self.0.get_mut(), "{text}");
        sent.map_err(Failure::cannot("send to the other VM"))
    }

    /// Waits for the next message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut text = String::new();
        let read = self.0.read_line(&mut text);
        read.map_err(Failure::cannot("hear from the other VM"))?;
        serde_json::from_str(&text).map_err(Failure::cannot("read what the other VM said"))
    }

    /// Waits until both came to the same step.
    pub fn meet(&mut self, step: u8) -> Result<(), Failure> {
        self.send(&step)?;
        match self.receive::<u8>()? {
            other if step == other => Ok(()),
            other => Err(Failure::Unexpected(format!(
                "this VM is at step {step}, and the other one at {other}"
            ))),
        }
    }
}

fn connect() -> std::io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(MEETING) {
            Err(_) if start.elapsed() < PATIENCE => thread::sleep(LOOK),
            answer => return answer,
        }
    }
}

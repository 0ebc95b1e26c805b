//! Checks whether a CSI socket accepts connections and answers.
//!
//! It sends the HTTP/2 connection preface (RFC 9113, section 3.4): a live server must answer it with its SETTINGS. No RPC is made, so no driver
//! is disturbed.

use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The client's preface and an empty SETTINGS frame: length 0, type 4, no flags, stream 0.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Type of a SETTINGS frame, at this byte of its header of 9 bytes.
const SETTINGS: u8 = 4;
const FRAME_HEADER_BYTES: usize = 9;
/// A local server answers in microseconds; kubelet's own probes time out after 1 s by default.
const TIMEOUT: Duration = Duration::from_millis(800);

/// The error says why it does not answer.
pub(super) async fn answers(path: &Path) -> Result<(), String> {
    match timeout(TIMEOUT, greet(path)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("its socket {} fails: {error}", path.display())),
        Err(_) => Err(format!(
            "its socket {} accepts but does not answer",
            path.display()
        )),
    }
}

async fn greet(path: &Path) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(PREFACE).await?;
    let mut header = [0; FRAME_HEADER_BYTES];
    stream.read_exact(&mut header).await?;
    match header {
        [_, _, _, SETTINGS, ..] => Ok(()),
        _ => Err(std::io::Error::other("it does not speak HTTP/2")),
    }
}

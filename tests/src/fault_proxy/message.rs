//! One message of HTTP/1.1 whose length its head says: what the host and the test array send.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The longest message: more than any of a test.
const LONGEST_BYTES: usize = 64 << 20;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 16 << 10;

/// A whole message, head and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Method and path of a request, without its query.
    pub(super) fn target(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let mut words = text.split([' ', '?', '\r']);
        let method = words.next().unwrap_or_default();
        format!("{method} {}", words.next().unwrap_or_default())
    }

    /// Whether the connection ends after it.
    pub(super) fn is_last(&self) -> bool {
        let text = String::from_utf8_lossy(&self.0).to_ascii_lowercase();
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        head.lines().any(|line| line == "connection: close")
    }

    /// The first half, and never all.
    pub(super) fn half(&self) -> &[u8] {
        self.0.get(..self.0.len() / 2).unwrap_or_default()
    }
}

/// Reads a message; `None` if the connection ends before, or the message is none.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Message> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if let Some(length) = length(&bytes)
            && bytes.len() >= length
        {
            bytes.truncate(length);
            return Some(Message(bytes));
        }
        let read @ 1.. = stream.read(&mut piece).await.ok()? else {
            return None;
        };
        bytes.extend_from_slice(piece.get(..read)?);
        if bytes.len() > LONGEST_BYTES {
            return None;
        }
    }
}

/// The length of the message that begins so; `None` while its head is not whole.
fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(END.len()).position(|it| it == END)? + END.len();
    let text = String::from_utf8_lossy(bytes.get(..head)?).to_ascii_lowercase();
    let body = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    Some(head + body.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_ends_where_its_head_says() {
        let one = b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        let two = b"HTTP/1.1 204 No Content\r\n\r\n";
        for (sent, read_of_it) in [(&one[..], &one[..]), (&two[..], &two[..])] {
            let mut stream = sent;
            let message = read(&mut stream).await.unwrap();
            assert_eq!(message.bytes(), read_of_it);
            assert!(message.half().len() < sent.len());
        }
    }

    #[test]
    fn a_connection_ends_after_a_message_that_says_so() {
        let is_last = |text: &str| Message::of(text.as_bytes()).is_last();
        assert!(is_last("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(!is_last("GET / HTTP/1.1\r\n\r\nconnection: close\r\n"));
    }

    #[test]
    fn a_request_is_named_by_its_method_and_path() {
        let target = |text: &str| Message::of(text.as_bytes()).target();
        assert_eq!(target("GET /a?b=c HTTP/1.1\r\n\r\n"), "GET /a");
        assert_eq!(target("POST /a HTTP/1.1\r\n\r\n"), "POST /a");
    }

    #[tokio::test]
    async fn half_a_message_is_none() {
        for sent in ["", "GET / HTTP/1.1\r\n", "A\r\ncontent-length: 3\r\n\r\nab"] {
            let mut stream = sent.as_bytes();
            assert_eq!(read(&mut stream).await, None, "{sent:?}");
        }
    }
}

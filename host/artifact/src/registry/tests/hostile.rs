//! A registry with responses that a test chooses: one connection, one response. Written by hand, since libraries would not send such responses.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener as Blocking};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// A response.
#[derive(Clone)]
pub(super) enum Reply {
    /// Status, headers, body.
    Whole(u16, Vec<(String, String)>, Vec<u8>),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, ever.
    Silent,
    /// A byte now and then.
    Dribble,
    /// Bytes without end.
    Endless,
}

#[derive(Default)]
struct Seen {
    paths: Mutex<BTreeMap<String, usize>>,
    authorizations: Mutex<Vec<String>>,
    sent: AtomicU64,
}

/// A server that runs until the test ends.
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
}

impl Reply {
    pub(super) fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200, body)
    }

    pub(super) fn status(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::Whole(status, Vec::new(), body.as_ref().to_vec())
    }

    pub(super) fn redirect(to: &str) -> Self {
        Self::status(307, b"").with("location", to)
    }

    pub(super) fn typed(self, media_type: &str) -> Self {
        self.with("content-type", media_type)
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Whole(_, headers, _) = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

impl Server {
    /// Answers each path with `answer`, and 404 where `answer` gives `None`.
    pub(super) async fn start(
        answer: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        Self::listen(None, answer).await
    }

    /// The same, but a request without any `Authorization` header is challenged.
    pub(super) async fn challenging(
        challenge: &str,
        answer: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(challenge.to_owned()), answer).await
    }

    async fn listen(
        challenge: Option<String>,
        answer: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let seen = server.seen.clone();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                let challenge = challenge.clone();
                tokio::spawn(async move {
                    // A client that has enough closes the connection.
                    let _ = serve(stream, &seen, challenge, &*answer).await;
                });
            }
        });
        server
    }

    pub(super) fn host(&self) -> String {
        self.address.to_string()
    }

    /// How often this path was requested.
    pub(super) fn request_count(&self, path: &str) -> usize {
        let paths = self.seen.paths.lock().unwrap();
        paths.get(path).copied().unwrap_or_default()
    }

    /// The `Authorization` headers, in the order of the requests that had one.
    pub(super) fn authorizations(&self) -> Vec<String> {
        self.seen.authorizations.lock().unwrap().clone()
    }

    /// How many bytes of bodies were sent.
    pub(super) fn sent(&self) -> u64 {
        self.seen.sent.load(Ordering::SeqCst)
    }
}

/// A port on which no process listens.
pub(super) fn closed_port() -> String {
    let listener = Blocking::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Sends these bytes to each client that connects, before it reads anything.
pub(super) async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(bytes).await.unwrap();
            // Closing would be a different response.
            streams.push(stream);
        }
    });
    host
}

async fn serve(
    stream: TcpStream,
    seen: &Seen,
    challenge: Option<String>,
    answer: &(impl Fn(&str) -> Option<Reply> + ?Sized),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut authorized = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? <= 2 {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            authorized = true;
            let mut shown = seen.authorizations.lock().unwrap();
            shown.push(value.trim().to_owned());
        }
    }
    let reply = match challenge.filter(|_| !authorized) {
        Some(challenge) => Reply::status(401, b"").with("www-authenticate", &challenge),
        None => {
            *seen.paths.lock().unwrap().entry(path.clone()).or_default() += 1;
            answer(&path).unwrap_or_else(|| Reply::status(404, b""))
        }
    };
    let endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    match reply {
        Reply::Whole(status, headers, body) => {
            let mut head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n",
                body.len()
            );
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
        }
        Reply::Raw(bytes) => stream.write_all(&bytes).await?,
        Reply::Silent => std::future::pending().await,
        Reply::Dribble => {
            stream.write_all(endless).await?;
            loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                sleep(Duration::from_millis(50)).await;
            }
        }
        Reply::Endless => {
            stream.write_all(endless).await?;
            let piece = vec![b' '; 64 << 10];
            loop {
                stream.write_all(&piece).await?;
                seen.sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        }
    }
    stream.flush().await?;
    stream.shutdown().await
}

//! A storage system on loopback that speaks HTTP/1.1, behaves by the path of a request, and remembers what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The system; it ends with the runtime of its test.
pub(crate) struct Array {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

/// A request, as far as an answer depends on it.
struct Request {
    line: String,
    authorization: String,
}

impl Array {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&all)));
            }
        });
        Self { address, seen }
    }

    /// Method and path of each request so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(Request {
        line,
        authorization,
    }) = read(&mut stream).await
    {
        let is_repeat = {
            let mut seen = seen.lock().unwrap();
            seen.push(line.clone());
            seen.iter().filter(|known| **known == line).count() > 1
        };
        let (status, body) = match line.split_once(' ').map(|(_, path)| path) {
            Some("/lost") => return,
            // The first attempt is executed, and the repeat meets what it made.
            Some(path) if path.starts_with("/once/") && !is_repeat => return,
            Some(path) if path.starts_with("/once/") => ("409 Conflict", "exists"),
            Some("/hang") => std::future::pending().await,
            Some("/refuse") => ("409 Conflict", "refused"),
            Some("/missing") => ("404 Not Found", "missing"),
            Some("/broken") => ("500 Internal Server Error", "broken"),
            Some("/echo") => ("200 OK", authorization.as_str()),
            _ => ("200 OK", "done"),
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next request, with its body read; none: the client has gone.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream
            .read_line(&mut line)
            .await
            .ok()
            .filter(|bytes| *bytes > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let value = |name: &str| {
        let fields = lines.iter().filter_map(|line| line.split_once(": "));
        let mut found = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    };
    if value("transfer-encoding").is_some() {
        panic!("the host sends bodies whole, with their length");
    }
    let length = value("content-length").map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    let line = lines.first()?.rsplit_once(' ')?.0.to_owned();
    let authorization = value("authorization").unwrap_or_default();
    Some(Request {
        line,
        authorization,
    })
}

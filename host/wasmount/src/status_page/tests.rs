//! The page over real connections: its answers, and the bounds of its visitors.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Longest wait for what must come: a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page at a free port, its address, and how many views were made.
struct Scene {
    address: SocketAddr,
    made: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

impl Scene {
    async fn start() -> Self {
        Self::with_filler(0).await
    }

    /// With views of at least this many bytes.
    async fn with_filler(bytes: usize) -> Self {
        let any = Some("127.0.0.1:0".parse().unwrap());
        let page = StatusPage::bind(any).await.unwrap().unwrap();
        let address = page.listener.local_addr().unwrap();
        let made = Arc::new(AtomicU64::new(0));
        let counted = made.clone();
        let source: Source = Box::new(move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let filler = " ".repeat(bytes);
            Box::pin(async move { format!("{{\"number\":{number}}}{filler}") })
        });
        let mut serving = JoinSet::new();
        serving.spawn(page.serve(source));
        Self {
            address,
            made,
            _serving: serving,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Head and body of an answer that ends.
    async fn get(&self, path: &str) -> (String, String) {
        let mut stream = self.connect().await;
        send(&mut stream, path, "localhost").await;
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
        read.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

type Answer = Lines<BufReader<TcpStream>>;

async fn send(stream: &mut TcpStream, path: &str, host: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// A request for events; its answer after the first line, and that line.
async fn looks_at(mut stream: TcpStream) -> (Answer, String) {
    send(&mut stream, "/events", "localhost").await;
    let mut lines = BufReader::new(stream).lines();
    let first = next(&mut lines).await;
    (lines, first)
}

/// A stream that has begun.
async fn looks(stream: TcpStream) -> Answer {
    let (lines, first) = looks_at(stream).await;
    assert_eq!(first, "HTTP/1.1 200 OK");
    lines
}

async fn next(lines: &mut Answer) -> String {
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap();
    line.unwrap().unwrap()
}

async fn view(lines: &mut Answer) -> String {
    loop {
        let line = next(lines).await;
        if let Some(data) = line.strip_prefix("data: ") {
            return data.to_owned();
        }
    }
}

#[tokio::test]
async fn the_page_is_served_whole_with_its_policy() {
    let scene = Scene::start().await;
    let (head, body) = scene.get("/").await;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'; "));
    assert!(head.contains("cache-control: no-store"), "{head}");
    assert_eq!(body, PAGE);
    let (head, _) = scene.get("/other").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'; "));
    assert_eq!(scene.made.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_page_of_another_name_gets_nothing() {
    let scene = Scene::start().await;
    let mut stream = scene.connect().await;
    send(&mut stream, "/events", "example.com").await;
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert_eq!(scene.made.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn views_come_while_somebody_looks() {
    let scene = Scene::start().await;
    let mut lines = looks(scene.connect().await).await;
    assert_eq!(view(&mut lines).await, "{\"number\":1}");
    assert_eq!(view(&mut lines).await, "{\"number\":2}");
}

#[tokio::test]
async fn no_view_is_made_once_nobody_looks() {
    let scene = Scene::start().await;
    drop(looks(scene.connect().await).await);
    // It is noticed with the next view or the one after.
    let end = Instant::now() + PATIENCE;
    loop {
        let before = scene.made.load(Ordering::SeqCst);
        sleep(3 * PERIOD).await;
        if scene.made.load(Ordering::SeqCst) == before {
            return;
        }
        assert!(Instant::now() < end, "{before}");
    }
}

#[tokio::test]
async fn one_stream_too_many_is_rejected_until_another_ends() {
    let scene = Scene::start().await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(looks(scene.connect().await).await);
    }
    let (head, body) = scene.get("/events").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "8 pages are open already: close one\n");
    // The page itself is still there.
    assert!(scene.get("/").await.0.starts_with("HTTP/1.1 200 "));
    open.pop();
    let end = Instant::now() + PATIENCE;
    loop {
        if looks_at(scene.connect().await).await.1 == "HTTP/1.1 200 OK" {
            return;
        }
        assert!(Instant::now() < end);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place() {
    let scene = Scene::with_filler(1 << 20).await;
    let mut slow = Vec::new();
    for _ in 0..STREAMS {
        // Much less than one view.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(scene.address).await.unwrap();
        slow.push(looks(stream).await);
    }
    let refused = looks_at(scene.connect().await).await.1;
    assert_eq!(refused, "HTTP/1.1 503 Service Unavailable");
    let end = Instant::now() + PATIENCE;
    loop {
        if looks_at(scene.connect().await).await.1 == "HTTP/1.1 200 OK" {
            return;
        }
        assert!(Instant::now() < end);
        sleep(PERIOD).await;
    }
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_disconnected() {
    let scene = Scene::start().await;
    let mut stream = scene.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut answer = Vec::new();
    // It may be told why.
    let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok());
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_that_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let refused = StatusPage::bind(Some(address)).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("--listen-status-page"), "{error}");
    assert!(StatusPage::bind(None).await.unwrap().is_none());
}

/// A policy takes one style and one script by their hashes, and no attribute that would be either.
#[test]
fn the_page_has_nothing_that_its_policy_forbids() {
    for (part, times) in [
        ("<style", 1),
        ("<script>", 1),
        ("<script", 1),
        ("style=", 0),
        ("onclick", 0),
        (" onerror", 0),
        (" onload", 0),
        ("src=", 0),
        ("http", 0),
        ("innerHTML", 0),
        ("insertAdjacentHTML", 0),
        ("document.write", 0),
        (".style", 0),
    ] {
        let found = PAGE.matches(part).count();
        assert_eq!(found, times, "{part}");
    }
}

//! Client and server over a real socket: requests arrive, and no client delays another one.

use super::*;
use crate::messages::{DriverReport, HostStatus, Swap};
use crate::{Client, ControlError, paths};
use axum::Json;
use axum::extract::Path;
use axum::routing::{get, post};
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

/// Short enough that a test can wait for it.
const SHORT: ServerLimits = ServerLimits {
    connections: 2,
    sending: Duration::from_millis(200),
    reading: Duration::from_millis(200),
};

/// Longest wait for what must come: a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    folder: TempDir,
    _server: JoinHandle<io::Result<()>>,
}

impl Bench {
    async fn start(routes: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(folder.path().join("a")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self {
            folder,
            _server: tokio::spawn(serve(listener.into(), routes, SHORT)),
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("a")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }
}

fn status() -> HostStatus {
    HostStatus {
        version: "1".to_owned(),
        node: "n".to_owned(),
        role: "all".to_owned(),
        not_ready: None,
        drivers: Vec::<DriverReport>::new(),
    }
}

fn routes() -> Router {
    Router::new()
        .route(paths::STATUS, get(async || Json(status())))
        .route(
            paths::SWAP,
            post(async |Path(driver): Path<String>, Json(swap): Json<Swap>| {
                let request = format!("{driver} {}", swap.allow_service_change);
                Refusal::new(RefusalKind::NotFound, request)
            }),
        )
}

#[tokio::test]
async fn a_route_is_told_who_sends_the_request() {
    let own = rustix::process::geteuid().as_raw();
    let who = post(async move |Extension(peer): Extension<Peer>| {
        let is_own = peer == Peer { uid: own };
        Refusal::new(RefusalKind::NotFound, is_own.to_string())
    });
    let bench = Bench::start(Router::new().route(paths::PAUSE, who)).await;
    let refused = bench.client().pause("a.b").await.unwrap_err();
    assert_eq!(refused.to_string(), "true");
}

#[tokio::test]
async fn a_request_is_answered_and_a_refusal_keeps_its_message() {
    let bench = Bench::start(routes()).await;
    assert_eq!(bench.client().status().await.unwrap(), status());
    let swap = Swap {
        allow_service_change: true,
        plugin: None,
        share: None,
    };
    let refused = bench.client().swap("a.b", &swap).await.unwrap_err();
    let ControlError::Refused(refusal) = refused else {
        panic!("{refused}");
    };
    assert_eq!(refusal, Refusal::new(RefusalKind::NotFound, "a.b true"));
}

/// The answer to this raw request: the status line and the body.
async fn answered(bench: &Bench, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(bench.socket()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn what_is_not_understood_is_refused_as_all_else_is() {
    let bench = Bench::start(routes()).await;
    let swap = paths::of(paths::SWAP, "a.b").unwrap();
    let post = |kind: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {swap} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let json = "application/json";
    for (request, status) in [
        (post(json, "{"), "400"),
        (post(json, r#"{"allowServiceChange": 3}"#), "422"),
        (post("text/plain", "{}"), "415"),
        (format!("GET {swap} HTTP/1.1\r\nhost: x\r\n\r\n"), "405"),
    ] {
        let (head, body) = answered(&bench, &request).await;
        assert_eq!(head, "HTTP/1.1 400 Bad Request", "{request}");
        let refusal: Refusal = serde_json::from_str(&body).unwrap();
        assert_eq!(refusal.kind, RefusalKind::Malformed);
        let expected_start = format!("the host does not understand the request ({status}");
        assert!(refusal.message.starts_with(&expected_start), "{refusal}");
    }
}

#[tokio::test]
async fn an_invalid_driver_name_is_not_sent() {
    let bench = Bench::start(routes()).await;
    let refused = bench.client().swap("../status", &Swap::default()).await;
    assert!(matches!(refused, Err(ControlError::NoDriver { .. })));
}

/// A change that has begun must not end halfway.
#[tokio::test]
async fn a_request_is_finished_without_its_client() {
    let (begun, go_on, done) = (Notify::new(), Notify::new(), Notify::new());
    let [begun, go_on, done] = [begun, go_on, done].map(Arc::new);
    let work = {
        let (begun, go_on, done) = (begun.clone(), go_on.clone(), done.clone());
        post(async move || {
            begun.notify_one();
            go_on.notified().await;
            done.notify_one();
            Refusal::new(RefusalKind::Busy, "")
        })
    };
    let bench = Bench::start(Router::new().route(paths::PAUSE, work)).await;
    let client = bench.client();
    let request = tokio::spawn(async move { client.pause("a.b").await });
    begun.notified().await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    // The server has seen the end of the connection when it serves the next one.
    bench.client().status().await.unwrap_err();
    go_on.notify_one();
    timeout(PATIENCE, done.notified()).await.unwrap();
}

#[tokio::test]
async fn silent_clients_do_not_block_others_for_long() {
    let bench = Bench::start(routes()).await;
    let mut silent = UnixStream::connect(bench.socket()).await.unwrap();
    let mut endless = UnixStream::connect(bench.socket()).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n",
        paths::of(paths::SWAP, "a").unwrap()
    );
    endless.write_all(head.as_bytes()).await.unwrap();
    // Both places are taken; the third connection waits until one is free.
    assert_eq!(bench.client().status().await.unwrap(), status());
    let mut response = String::new();
    endless.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    let mut nothing = String::new();
    silent
        .read_to_string(&mut nothing)
        .await
        .unwrap_or_default();
    assert!(!nothing.contains("200"), "{nothing}");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let bench = Bench::start(routes()).await;
    let mut client = UnixStream::connect(bench.socket()).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
        paths::of(paths::SWAP, "a").unwrap(),
        REQUEST_BYTES + 1
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client
        .write_all(&vec![b' '; REQUEST_BYTES + 1])
        .await
        .unwrap_or_default();
    let mut response = vec![0; 12];
    client.read_exact(&mut response).await.unwrap();
    assert_eq!(response, b"HTTP/1.1 400");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a");
    let refused = Client::new(&socket).status().await;
    assert!(matches!(refused, Err(ControlError::NotRunning { .. })));
    // A killed host leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let refused = Client::new(&socket).status().await;
    assert!(matches!(refused, Err(ControlError::NotRunning { .. })));
    for other in [folder.path().to_owned(), folder.path().join("file")] {
        if !other.exists() {
            std::fs::write(&other, "").unwrap();
        }
        let refused = Client::new(&other).status().await;
        assert!(matches!(refused, Err(ControlError::NotASocket { .. })));
    }
}

#[tokio::test]
async fn an_invalid_answer_is_reported_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0\r\n\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 64]).await;
    });
    let refused = Client::new(&socket).status().await;
    assert!(matches!(refused, Err(ControlError::Broken { .. })));
}

#[test]
fn only_root_and_the_user_of_the_host_may_connect() {
    for (uid, own, may) in [
        (0, 0, true),
        (0, 7, true),
        (7, 7, true),
        (8, 7, false),
        (7, 0, false),
    ] {
        assert_eq!(may_connect(uid, own), may, "{uid} {own}");
    }
}

#[tokio::test]
async fn a_stranger_with_a_descriptor_is_refused_whatever_is_asked() {
    let bench = Bench::start(refusing(Some(7))).await;
    let refused = bench.client().status().await;
    assert!(matches!(refused, Err(ControlError::Forbidden { .. })));
}

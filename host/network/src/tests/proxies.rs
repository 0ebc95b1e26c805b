//! Requests through a proxy: it resolves the hosts of the grant; TLS and credentials end at the storage system.

use super::server::{Authority, Server, answer};
use super::*;
use std::net::SocketAddr;
use std::sync::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A proxy that opens tunnels (RFC 9110, CONNECT) to one server, whatever host they name.
struct Tunnels {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Tunnels {
    /// `answer`: its status line to each CONNECT; a tunnel is opened after 200.
    async fn start(to: SocketAddr, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(tunnel(client, to, answer, Arc::clone(&noted)));
            }
        });
        Self {
            address,
            asked,
            _accepting: AbortOnDropHandle::new(accepting),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn tunnel(
    client: TcpStream,
    to: SocketAddr,
    answer: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let line = head.lines().next().unwrap().to_owned();
    asked.lock().unwrap().push(line);
    let answered = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
    client.write_all(answered.as_bytes()).await.unwrap();
    if answer.starts_with("200") {
        let mut server = TcpStream::connect(to).await.unwrap();
        // It ends with either side.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

/// The network of a host behind a proxy: names of the grant mean nothing here.
fn behind(proxy: SocketAddr, grant: &mut Value, values: &[(&str, &str)]) -> Endpoints {
    grant["proxy"] = json!(format!("http://{proxy}"));
    let network = Network::new(Vec::new());
    open_in(&network, json!({ "array": grant }), values).unwrap()
}

#[tokio::test]
async fn a_proxy_gets_requests_for_the_host_of_the_grant() {
    let proxy = Server::start(|_, _| answer(200, "")).await;
    let mut grant = json!({
        "hosts": ["array.invalid:8080"], "scheme": "http", "auth": { "bearer": { "token": "token" } },
    });
    let endpoints = behind(proxy.address, &mut grant, &[]);
    assert_eq!(status(&endpoints, "POST http://array/a?b=c").await, 200);
    let seen = proxy.seen().remove(0);
    assert_eq!(seen.line, "POST /a?b=c");
    assert_eq!(seen.headers["host"], "array.invalid:8080");
    assert_eq!(seen.headers["authorization"], "Bearer token");
}

#[tokio::test]
async fn a_proxy_passes_tls_on_without_reading_it() {
    let authority = Authority::new();
    let (tls, _) = authority.server("array.invalid", false);
    let server = Server::with(Some(tls), |_, _| answer(200, "")).await;
    let proxy = Tunnels::start(server.address, "200 OK").await;
    let mut grant = json!({
        "hosts": ["array.invalid:443"], "tls": { "ca": "ca" },
        "auth": { "bearer": { "token": "token" } },
    });
    let values = [("ca", authority.ca.as_str())];
    let endpoints = behind(proxy.address, &mut grant, &values);
    for _ in 0..2 {
        assert_eq!(status(&endpoints, "GET https://array/a").await, 200);
    }
    assert_eq!(proxy.asked(), ["CONNECT array.invalid:443 HTTP/1.1"]);
    assert_eq!(server.lines(), ["GET /a", "GET /a"]);
    assert_eq!(server.seen()[0].headers["authorization"], "Bearer token");
}

#[tokio::test]
async fn a_proxy_that_refuses_a_tunnel_sends_nothing() {
    let authority = Authority::new();
    let (tls, _) = authority.server("array.invalid", false);
    let server = Server::with(Some(tls), |_, _| answer(200, "")).await;
    let proxy = Tunnels::start(server.address, "403 Forbidden").await;
    let mut grant = json!({ "hosts": ["array.invalid:443"], "tls": { "ca": "ca" } });
    let values = [("ca", authority.ca.as_str())];
    let endpoints = behind(proxy.address, &mut grant, &values);
    let refused = endpoints
        .send(&scope(), request("POST https://array/a"))
        .await;
    let refused = refused.unwrap_err();
    assert!(!refused.sent(), "{refused}");
    assert!(matches!(refused, SendError::Connect { .. }), "{refused}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_down_is_named_with_the_host() {
    // Bound and not listening: each connection is refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = socket.local_addr().unwrap();
    let mut grant = json!({ "hosts": ["array.invalid:8080"], "scheme": "http" });
    let endpoints = behind(proxy, &mut grant, &[]);
    let refused = send(&endpoints, "GET http://array/a").await.unwrap_err();
    let text = refused.to_string();
    let expected = format!(
        "no connection to array.invalid:8080 through the proxy http://{proxy}: tcp connect error"
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

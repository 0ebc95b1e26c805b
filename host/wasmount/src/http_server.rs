//! Serves HTTP to clients that nobody has authenticated: one request for each connection, with bounds on their number and their time.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Time to send the headers of a request.
const SENDING: Duration = Duration::from_secs(5);
/// A client that takes no byte for this long is disconnected by the kernel (tcp(7), TCP_USER_TIMEOUT), in milliseconds.
const READING_MS: u32 = 10_000;

/// Serves at most so many connections at a time, others wait; never returns. Without a client it does nothing.
pub(crate) async fn serve(mut listener: TcpListener, routes: Router, most_connections: usize) {
    let places = Arc::new(Semaphore::new(most_connections));
    let mut connections = JoinSet::new();
    // Fails only if the semaphore is closed, which never happens.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        // Pauses when descriptors or memory are wanting.
        let (stream, _) = Listener::accept(&mut listener).await;
        let routes = routes.clone();
        connections.spawn(async move {
            converse(stream, routes).await;
            drop(place);
        });
    }
}

/// Serves one request.
async fn converse(stream: TcpStream, routes: Router) {
    // Without it a client that does not read would keep its place.
    if rustix::net::sockopt::set_tcp_user_timeout(&stream, READING_MS).is_err() {
        return;
    }
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(SENDING)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // An error has nobody to be reported to.
    let _ = connection.await;
}

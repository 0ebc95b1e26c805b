//! The status page: one HTML file, and views of the host as server-sent events while somebody looks. It is read-only and asks nobody who they
//! are; `visitor` keeps other sites' pages out.

mod visitor;

use crate::fault::Fault;
use crate::http_server;
use crate::listen_address::ListenAddress;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval};
use visitor::Visited;

/// The page: its style and its script are in it, and nothing else is loaded.
const PAGE: &str = include_str!("status_page/page.html");
/// Between two views. 1 s: a person reads no faster.
const PERIOD: Duration = Duration::from_secs(1);
/// Streams at a time: some people, each with a tab.
const STREAMS: usize = 8;
/// Connections at a time, those of streams among them: others wait.
const CONNECTIONS: usize = 2 * STREAMS;
/// Makes a view of the host, as one line of JSON.
pub(crate) type Source = Box<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// The bound page of a host that does not serve it yet.
pub(crate) struct StatusPage {
    listener: TcpListener,
    address: SocketAddr,
}

/// What all connections share.
struct Shared {
    source: Source,
    /// The newest view, for all streams.
    newest: Mutex<Option<(Instant, Arc<str>)>>,
    streams: Arc<Semaphore>,
}

impl StatusPage {
    /// Binds the address; none if the page is off.
    pub(crate) async fn bind(address: ListenAddress) -> Result<Option<Self>, Fault> {
        let Some(address) = address else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Fault::Failed(format!(
                "cannot listen for the status page on {address}: {error}; choose another --listen-status-page, or `off`"
            ))
        })?;
        if !address.ip().is_loopback() {
            tracing::warn!(
                %address,
                "the status page is reachable from other machines: whoever reaches it reads the names of volumes and their paths; a port alone is one of 127.0.0.1"
            );
        }
        Ok(Some(Self { listener, address }))
    }

    /// Serves it; never returns. Without a visitor it does nothing.
    pub(crate) async fn serve(self, source: Source) {
        let shared = Arc::new(Shared {
            source,
            newest: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
        });
        let routes = routes(shared, self.address);
        http_server::serve(self.listener, routes, CONNECTIONS).await;
    }
}

impl Shared {
    /// The newest view. One that is about to be replaced is made anew, once for all streams.
    async fn view(&self) -> Arc<str> {
        let mut newest = self.newest.lock().await;
        if let Some((at, text)) = newest.as_ref()
            && at.elapsed() < PERIOD / 2
        {
            return Arc::clone(text);
        }
        let text: Arc<str> = (self.source)().await.into();
        *newest = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

fn routes(shared: Arc<Shared>, bound: SocketAddr) -> Router {
    let visited = Visited::of_page(PAGE, bound.ip());
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .fallback(async || (StatusCode::NOT_FOUND, "the status page is at /\n"))
        .with_state(shared)
        .layer(from_fn_with_state(Arc::new(visited), visitor::guard))
}

async fn page() -> impl IntoResponse {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, html)], PAGE)
}

/// A view now, and one each second while the client reads.
async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else {
        let message = format!("{STREAMS} pages are open already: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    };
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = futures::stream::unfold(
        (ticks, shared, place),
        async |(mut ticks, shared, place)| {
            ticks.tick().await;
            let event = Event::default().data(shared.view().await);
            Some((Ok::<_, Infallible>(event), (ticks, shared, place)))
        },
    );
    Sse::new(stream).into_response()
}

#[cfg(test)]
mod tests;

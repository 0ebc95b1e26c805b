//! `/healthz` (the process and its sockets), `/readyz` (every driver is reached), `/readyz/<driver>` (it also has plugin and storage) and `/metrics`.
//!
//! A failing plugin makes its driver unready, never the host unhealthy: a restart would interrupt every other backend.

mod socket;

use crate::fault::Fault;
use crate::http_server;
use crate::listen_address::ListenAddress;
use crate::metrics::{Format, Metrics};
use crate::readiness::{DriverReport, Readiness};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use futures::future::join_all;
use std::sync::Arc;
use tokio::net::TcpListener;
use wasmount_core::names::DriverName;

/// Connections at a time. 256: far more than kubelet and Prometheus have, and few enough that idle clients, each of which is disconnected after seconds,
/// leave the files that a host may open to its drivers.
const CONNECTIONS: usize = 256;
/// What stands for the drivers while there is none.
const OBJECTS: &str = "StorageBackend objects";

/// Binds the address and serves until the process ends.
pub(crate) async fn serve(
    address: ListenAddress,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
) -> Result<(), Fault> {
    let Some(address) = address else {
        return Ok(());
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Fault::Failed(format!(
            "cannot listen for health checks on {address}: {error}; choose another --listen-health, or `off`"
        ))
    })?;
    let router = router(readiness, metrics);
    tokio::spawn(http_server::serve(listener, router, CONNECTIONS));
    Ok(())
}

fn router(readiness: Arc<Readiness>, all: Arc<Metrics>) -> Router {
    let measured = Router::new()
        .route("/metrics", get(metrics))
        .with_state(all);
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/readyz/{driver}", get(readyz_of))
        .with_state(readiness)
        .merge(measured)
}

/// A host that waits for the data directory has no sockets yet, and is healthy.
async fn healthz(State(readiness): State<Arc<Readiness>>) -> (StatusCode, String) {
    let report = readiness.report();
    let checks = report.drivers.iter().filter_map(|(name, driver)| {
        let path = driver.socket.as_deref()?;
        Some(async move { (name.to_string(), socket::answers(path).await.err()) })
    });
    answer("the process answers", join_all(checks).await)
}

/// Whether Kubernetes reaches every driver.
async fn readyz(State(readiness): State<Arc<Readiness>>) -> (StatusCode, String) {
    let report = readiness.report();
    if let Some(reason) = report.no_driver() {
        return answer("", vec![(OBJECTS.to_owned(), Some(reason))]);
    }
    let checks = report.drivers.iter().map(|(name, driver)| {
        let known = report.not_reached(driver);
        async move { (name.to_string(), or_silent(known, driver).await) }
    });
    answer("no driver is configured", join_all(checks).await)
}

/// Whether one driver can do everything that is requested of it.
async fn readyz_of(
    State(readiness): State<Arc<Readiness>>,
    Path(driver): Path<String>,
) -> (StatusCode, String) {
    let report = readiness.report();
    let name = DriverName::parse(driver.as_str()).ok();
    let Some(found) = name.and_then(|name| report.drivers.get(&name)) else {
        return (StatusCode::NOT_FOUND, "no such driver\n".to_owned());
    };
    let fault = or_silent(report.not_ready(found), found).await;
    answer("", vec![(driver, fault)])
}

/// A known fault, or else that the driver's socket does not answer: its socket file may have been removed.
async fn or_silent(known: Option<String>, driver: &DriverReport) -> Option<String> {
    match (known, &driver.socket) {
        (None, Some(path)) => socket::answers(path).await.err(),
        (known, _) => known,
    }
}

/// All metrics, in the format that the client prefers.
async fn metrics(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::negotiated(&accept.join(","));
    (
        [(CONTENT_TYPE, format.content_type())],
        metrics.text(format),
    )
}

/// One line for each driver; 503 if any has a fault.
fn answer(nothing: &str, faults: Vec<(String, Option<String>)>) -> (StatusCode, String) {
    let status = match faults.iter().any(|(_, fault)| fault.is_some()) {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::OK,
    };
    let lines = faults.into_iter().map(|(name, fault)| match fault {
        None => format!("{name}: ok\n"),
        Some(fault) => format!("{name}: {fault}\n"),
    });
    let mut body: String = lines.collect();
    if body.is_empty() {
        body = format!("{nothing}\n");
    }
    (status, body)
}

#[cfg(test)]
mod tests;

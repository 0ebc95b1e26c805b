//! Kubernetes on this machine, from pinned programs: its control plane alone, or a complete node in namespaces of its own.
//!
//! It knows Kubernetes and nothing of storage: the code that starts a cluster deploys the workload.

pub mod access;
pub mod commands;
pub mod inside;
pub mod lab;
mod node;
pub mod one_node;
pub mod parts;
pub mod programs;
pub mod supervisor;

pub use node::BUSYBOX_IMAGE;
pub use one_node::Cluster;
pub use supervisor::Service;

use crate::failure::Failure;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Timeout until a cluster has the expected state: ten seconds on an idle machine.
const READY: Duration = Duration::from_secs(180);

/// Between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Addresses that are tried before giving up: of sixteen million one is free.
const ATTEMPTS: usize = 16;

/// Polls until the check succeeds; returns the last failure after the timeout.
async fn wait(check: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        match check().await {
            Err(_) if start.elapsed() < READY => sleep(POLL_INTERVAL).await,
            outcome => return outcome,
        }
    }
}

/// Random bytes from the kernel.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Requests of up to 256 bytes are never truncated (getrandom(2)).
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes
}

/// A client with the credentials of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<Client, Failure> {
    let what = || format!("use {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).map_err(Failure::cannot(what()))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(Failure::cannot(what()))?;
    Client::try_from(config).map_err(Failure::cannot(what()))
}

/// Whether the API server reports that it is ready.
pub async fn ready(client: &Client) -> Result<(), Failure> {
    let failed = "ask the API server whether it is ready";
    let request = Request::get("/readyz")
        .body(Vec::new())
        .map_err(Failure::cannot(failed))?;
    client
        .request_text(request)
        .await
        .map(drop)
        .map_err(Failure::cannot(failed))
}

/// Addresses to try: the loopback device has all of 127.0.0.0/8 (RFC 1122 §3.2.1.3), so that clusters need not share ports.
pub fn loopback_addresses() -> impl Iterator<Item = Ipv4Addr> {
    (0..ATTEMPTS).map(|_| {
        let [a, b, c] = random();
        // The first and the last address of a network are not host addresses.
        Ipv4Addr::new(127, a, b, c.clamp(1, 254))
    })
}

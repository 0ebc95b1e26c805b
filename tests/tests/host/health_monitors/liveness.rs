//! livenessprobe v2.19: asks for the driver's name once, and then opens a connection of its own for every probe, which has 3 s.

use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use wasmount_csi::wire::csi::v1::{GetPluginInfoRequest, ProbeRequest};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;

/// `--probe-timeout`.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Between two probes.
const PERIOD: Duration = Duration::from_millis(100);

/// Until a plugin is compiled, or found to be none.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first thing that it does; without an answer it ends.
async fn begin(socket: &Path) -> String {
    let mut clients = Clients::connect(socket).await.unwrap();
    let answer = clients.identity.get_plugin_info(GetPluginInfoRequest {});
    answer.await.unwrap().into_inner().name
}

/// One `GET /healthz`: its status.
async fn healthz(socket: &Path) -> u16 {
    let probe = async {
        let mut clients = Clients::connect(socket)
            .await
            .map_err(|failure| Status::unavailable(failure.to_string()))?;
        let answer = clients.identity.probe(ProbeRequest {}).await?;
        // Absent is ready, by CSI.
        Ok::<_, Status>(answer.into_inner().ready.unwrap_or(true))
    };
    match timeout(PROBE_TIMEOUT, probe).await {
        Ok(Ok(true)) => 200,
        _ => 500,
    }
}

/// Within the failures that a livenessProbe forgives: first the plugin is tried to load.
async fn comes_alive(socket: &Path) {
    let alive = timeout(PATIENCE, async {
        while healthz(socket).await != 200 {
            tokio::time::sleep(PERIOD).await;
        }
    });
    alive.await.unwrap();
}

#[tokio::test]
async fn privileged_a_driver_is_alive_until_its_host_is_killed() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    assert_eq!(begin(host.socket()).await, "directory.wasmount.io");
    comes_alive(host.socket()).await;
    for _ in 0..3 {
        assert_eq!(healthz(host.socket()).await, 200);
    }
    host.kill_9().unwrap();
    assert_eq!(healthz(host.socket()).await, 500);
    host.restart().unwrap();
    comes_alive(host.socket()).await;
}

/// Or the node's other drivers would be restarted for it.
#[tokio::test]
async fn privileged_a_driver_without_its_plugin_is_alive() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let (document, component) =
        documents::directory_of_its_own(folder.path(), "broken.wasmount.io").unwrap();
    std::fs::write(component, "no component").unwrap();
    let host = Host::start(HostOptions {
        backends: vec![document],
        ..HostOptions::default()
    })
    .unwrap();
    assert_eq!(begin(host.socket()).await, "broken.wasmount.io");
    comes_alive(host.socket()).await;
}

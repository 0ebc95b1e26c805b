//! node-driver-registrar v2.17 beside a host that does not register (`--registration off`): it connects within 30 s, asks for the name within
//! 1 s, and kubelet then asks for the node.

use std::time::Duration;
use tokio::time::timeout;
use wasmount_csi::wire::csi::v1::{GetPluginInfoRequest, NodeGetInfoRequest};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;

/// Its own limit for the connection.
const CONNECTING: Duration = Duration::from_secs(30);
/// `--timeout`.
const ASKING: Duration = Duration::from_secs(1);

#[tokio::test]
async fn privileged_an_external_registrar_can_register() {
    needs_root();
    let host = Host::start(HostOptions {
        more: ["--registration", "off"].map(Into::into).into(),
        ..HostOptions::default()
    })
    .unwrap();
    let connecting = timeout(CONNECTING, Clients::connect(host.socket()));
    let mut clients = connecting.await.unwrap().unwrap();
    let asking = clients.identity.get_plugin_info(GetPluginInfoRequest {});
    let info = timeout(ASKING, asking).await.unwrap().unwrap();
    assert_eq!(info.get_ref().name, "directory.wasmount.io");
    // kubelet's own connection.
    let mut kubelet = host.client().await.unwrap();
    let node = kubelet.node.node_get_info(NodeGetInfoRequest {}).await;
    assert_eq!(node.unwrap().get_ref().node_id, "test-node");
    let registry = host.kubelet().join("plugins_registry");
    assert!(!registry.join("directory.wasmount.io-reg.sock").exists());
}

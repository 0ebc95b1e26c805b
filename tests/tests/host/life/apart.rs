//! A controller and a node in processes of their own over one directory, as two pods on one machine are.

use tonic::Code;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, code, patiently};
use wasmount_tests::root::needs_root;

/// Of a volume's id, which contains the SHA-256 of its name.
const DIGEST_DIGITS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_node_mounts_from_a_controllers_pool() {
    needs_root();
    namespace::enter();
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    let document = documents::hostpath_over_pool(folder.path(), &pool).unwrap();
    let start = |role| {
        let options = HostOptions {
            backends: vec![document.clone()],
            role,
            ..HostOptions::default()
        };
        Host::start(options).unwrap()
    };
    let node = start(HostRole::Node);
    // Its process has no controller service, by which an orchestrator sees whether the plugin is loaded.
    let kubelet = node.kubelet();
    let on_node = Orchestrator::connect_at_once(node.socket(), &kubelet);
    let on_node = on_node.await.unwrap();
    // A node that has looked at the pool leaves it to the controller.
    let id = format!("volume-{}", "0".repeat(DIGEST_DIGITS));
    let nowhere = on_node.place("nowhere", id).unwrap();
    let staged = patiently(&[Code::Unavailable], || on_node.stage(&nowhere)).await;
    assert_eq!(code(&staged), Code::NotFound);
    let controller = start(HostRole::Controller);
    let in_controller = controller.orchestrator().await.unwrap();
    let id = in_controller.created("v").await.unwrap().id;
    let volume = on_node.place("v", id).unwrap();
    on_node.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    on_node.unpublish(&volume).await.unwrap();
    on_node.unstage(&volume).await.unwrap();
    on_node.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    on_node.unpublish(&volume).await.unwrap();
    on_node.unstage(&volume).await.unwrap();
    in_controller.delete(&volume.id).await.unwrap();
    assert_eq!(code(&on_node.stage(&volume).await), Code::NotFound);
}

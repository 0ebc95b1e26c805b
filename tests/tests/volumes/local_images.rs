//! plugins/local-images on the real host: volumes of a node as images, which grow where they are, and which may be mounted with a pod's label.

mod growth;
mod labels;
mod lives;

use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::Kind;
use wasmount_tests::leaks::{left_behind, local_images_pool};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, Volume};
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// What a pod writes: more than a file system keeps in its own structures, and no whole number of blocks.
const CONTENT_BYTES: usize = (1 << 20) - 77;

/// In one process, or mounting in another.
const FORMS: [Option<u32>; 2] = [None, Some(0)];

/// All that the plugin makes.
const KINDS: [Kind; 4] = [
    Kind::Filesystem("ext4"),
    Kind::Filesystem("xfs"),
    Kind::Filesystem("btrfs"),
    Kind::Block,
];

async fn serving(split: Option<u32>) -> (Host, Orchestrator) {
    serving_with(HostOptions {
        split,
        ..HostOptions::default()
    })
    .await
}

async fn serving_with(options: HostOptions) -> (Host, Orchestrator) {
    needs_root();
    namespace::enter();
    let document = Workspace::locate()
        .unwrap()
        .backend_document("local-images");
    let host = Host::start(HostOptions {
        backends: vec![document],
        ..options
    });
    let host = host.unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    (host, orchestrator)
}

/// Of a class without parameters.
fn create(kind: Kind, name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: Default::default(),
        ..kind.create(name)
    }
}

async fn created(orchestrator: &Orchestrator, kind: Kind, name: &str) -> Volume {
    let (id, bytes) = orchestrator.create(create(kind, name)).await.unwrap();
    assert_eq!(bytes, kind.bytes());
    orchestrator.place(name, id).unwrap()
}

fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &local_images_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

//! csi-sanity against plugins/directory, plugins/local-images and plugins/hostpath: no spec fails, and the number of specs that run is known.
//!
//! Of hostpath's matrix each version of the suite meets images and raw block devices, and each of those meets one process and two.

use crate::storage::begin;
use std::ffi::OsString;
use std::path::Path;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::kinds::may_grow_ext4_online;
use wasmount_tests::root::needs_root;
use wasmount_tests::sanity::{SECRET, SanityOutcome, SanityRun};
use xtask::tools::{CSI_SANITY_5_4, CSI_SANITY_5_6, Tool};
use xtask::workspace::Workspace;

/// Specs of csi-sanity 5.4.0 for what plugins/directory exports.
const OFFERED: usize = 45;

/// Those for snapshots, groups, lists, attaching, clones and modification, which it does not offer.
const NOT_OFFERED: usize = 46;

/// Specs of it for what plugins/local-images exports: it grows on the node, and not by the controller.
const OFFERED_BY_IMAGES: usize = 42;

/// Those for what it does not offer.
const NOT_OFFERED_BY_IMAGES: usize = 49;

/// The one that grows a volume while it is in use.
const GROWS_IN_USE: &str = "should work if node-expand is called after node-publish";

/// All specs of csi-sanity 5.4.0: hostpath offers what each of them tests.
const ALL_OF_5_4: usize = 91;

/// All specs of csi-sanity 5.6.0.
const ALL_OF_5_6: usize = 102;

/// Specs of it for what only CSI 1.13 has, in order.
const ONLY_IN_1_13: [&str; 7] = [
    "ControllerGetVolumeHealth [Controller Server] > should fail when no volume id is provided",
    "ControllerGetVolumeHealth [Controller Server] > should return health for a valid volume",
    "ControllerListVolumeHealth [Controller Server] > should return appropriate response",
    SNAPSHOT_TOPOLOGY,
    "Node Service > NodeGetStorageHealth > should return appropriate response",
    "Node Service > NodeGetVolumeHealth > should fail when no volume id is provided",
    "Node Service > NodeGetVolumeHealth > should return health for a valid volume",
];

/// The one that no driver passes that tells where its snapshots are: it compares Go structs (`Equal`, reflect.DeepEqual), of which one was sent
/// before and keeps the size that it had on the wire. What it is about is tested in `conformance/topology.rs`.
const SNAPSHOT_TOPOLOGY: &str = "CreateSnapshot [Controller Server] > should succeed when creating a snapshot with accessibility requirements";

/// A node without any capability besides being root's, and a mounter that has the rights and the pool.
const ROOT: u32 = 0;

/// As many volumes as the suite attaches at once elsewhere, so that the limit holds in the spec that is about it only.
const VOLUMES_PER_NODE: &str = "5";

/// What a run is made with.
struct Run<'a> {
    tool: Tool,
    /// What that version does not know.
    hidden: &'a [&'a str],
    /// Further arguments of the host.
    more: &'a [&'a str],
    kind: &'a str,
    access_type: &'a str,
}

/// The version that knows CSI 1.12 without GET_SNAPSHOT.
const OF_5_4: Run<'_> = Run {
    tool: CSI_SANITY_5_4,
    hidden: &["GET_SNAPSHOT"],
    more: &[],
    kind: "image",
    access_type: "mount",
};

/// The version that knows CSI 1.13, which has no VOLUME_CONDITION.
const OF_5_6: Run<'_> = Run {
    tool: CSI_SANITY_5_6,
    hidden: &["VOLUME_CONDITION"],
    ..OF_5_4
};

/// The same, of a host that serves CSI 1.13.
const OF_5_6_AND_1_13: Run<'_> = Run {
    hidden: &["SNAPSHOT_ACCESSIBILITY_CONSTRAINTS"],
    more: &["--csi-profile", "1.13"],
    ..OF_5_6
};

impl Run<'_> {
    /// Controller and node in one process.
    async fn one_process(&self) -> SanityOutcome {
        begin();
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            any_paths: true,
            ..HostOptions::default()
        };
        let host = self.host(folder.path(), options);
        self.of(&host, None).await
    }

    /// Each process has a store of its own: what the node must know travels in contexts. One mounter has the pool for both.
    async fn controller_and_node_apart(&self) -> SanityOutcome {
        begin();
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            role: HostRole::Node,
            split: Some(ROOT),
            any_paths: true,
            ..HostOptions::default()
        };
        let mut node = self.host(folder.path(), options);
        let mounting = node.mounting().unwrap();
        let options = HostOptions {
            role: HostRole::Controller,
            mounter: Some(mounting.options.socket.clone()),
            ..HostOptions::default()
        };
        let controller = self.host(folder.path(), options);
        self.of(&node, Some(&controller)).await
    }

    fn host(&self, folder: &Path, options: HostOptions) -> Host {
        let settings = [("maxVolumesPerNode", VOLUMES_PER_NODE)];
        let pool = folder.join("pool");
        let document = documents::hostpath_with(folder, &pool, &settings, self.hidden);
        Host::start(HostOptions {
            backends: vec![document.unwrap()],
            more: self.more.iter().map(OsString::from).collect(),
            ..options
        })
        .unwrap()
    }

    async fn of(&self, node: &Host, controller: Option<&Host>) -> SanityOutcome {
        let hosts = || controller.into_iter().chain([node]);
        for host in hosts() {
            host.client().await.unwrap();
        }
        let outcome = SanityRun {
            tool: self.tool,
            endpoint: node.socket(),
            controller_endpoint: controller.map(Host::socket),
            directory: &node.paths(),
            access_type: self.access_type,
            parameters: &[("kind", self.kind)],
            mutable_parameters: &[("atime", "false")],
        }
        .run()
        .unwrap();
        for host in hosts() {
            assert!(!host.log().contains(SECRET), "a secret was logged");
        }
        outcome
    }
}

fn assert_all_passed(outcome: &SanityOutcome) {
    assert_passed(outcome, ALL_OF_5_4, 0);
}

pub(crate) fn assert_passed(outcome: &SanityOutcome, offered: usize, not_offered: usize) {
    assert!(
        outcome.failed.is_empty(),
        "{:#?}\n{}",
        outcome.failed,
        outcome.output
    );
    let counts = (outcome.passed, outcome.skipped.len());
    assert_eq!(
        counts,
        (offered, not_offered),
        "skipped: {:#?}",
        outcome.skipped
    );
}

/// All specs ran but these.
fn assert_only_skipped(outcome: &SanityOutcome, expected: &[&str]) {
    assert_passed(outcome, ALL_OF_5_6 - expected.len(), expected.len());
    let mut skipped = outcome.skipped.clone();
    skipped.sort();
    for (skipped, expected) in skipped.iter().zip(expected) {
        assert!(skipped.starts_with(expected), "{skipped}");
    }
}

async fn directory(node: &Host, controller: Option<&Host>) {
    let outcome = of_5_4(node, controller, "mount").await;
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
}

/// Of volumes without parameters.
async fn of_5_4(node: &Host, controller: Option<&Host>, access_type: &str) -> SanityOutcome {
    for host in controller.into_iter().chain([node]) {
        host.client().await.unwrap();
    }
    SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint: node.socket(),
        controller_endpoint: controller.map(Host::socket),
        directory: &node.paths(),
        access_type,
        parameters: &[],
        mutable_parameters: &[],
    }
    .run()
    .unwrap()
}

#[tokio::test]
async fn privileged_sanity_directory_one_process() {
    needs_root();
    let host = Host::start(HostOptions {
        any_paths: true,
        ..HostOptions::default()
    });
    directory(&host.unwrap(), None).await;
}

#[tokio::test]
async fn privileged_sanity_directory_controller_and_node_apart() {
    needs_root();
    let shared = tempfile::tempdir().unwrap();
    let document =
        documents::directory_over_pool(shared.path(), &shared.path().join("pool")).unwrap();
    let start = |role| {
        Host::start(HostOptions {
            backends: vec![document.clone()],
            role,
            any_paths: role == HostRole::Node,
            ..HostOptions::default()
        })
        .unwrap()
    };
    let controller = start(HostRole::Controller);
    directory(&start(HostRole::Node), Some(&controller)).await;
}

#[tokio::test]
async fn privileged_sanity_local_images() {
    begin();
    let document = Workspace::locate()
        .unwrap()
        .backend_document("local-images");
    for access_type in ["mount", "block"] {
        let host = Host::start(HostOptions {
            backends: vec![document.clone()],
            any_paths: true,
            ..HostOptions::default()
        });
        let mut outcome = of_5_4(&host.unwrap(), None, access_type).await;
        if access_type == "mount" && !may_grow_ext4_online() {
            // The image was not expanded before it is in use: so here, and only here, the kernel's answer to the unprivileged is the suite's.
            let failed: Vec<_> = outcome.failed.drain(..).collect();
            assert_eq!(failed.len(), 1, "{failed:#?}");
            for word in [GROWS_IN_USE, "CAP_SYS_RESOURCE"] {
                assert!(failed.iter().all(|it| it.contains(word)), "{failed:#?}");
            }
            outcome.passed += 1;
        }
        assert_passed(&outcome, OFFERED_BY_IMAGES, NOT_OFFERED_BY_IMAGES);
    }
}

#[tokio::test]
async fn privileged_sanity_5_4_hostpath_images_split() {
    assert_all_passed(&OF_5_4.controller_and_node_apart().await);
}

#[tokio::test]
async fn privileged_sanity_5_4_hostpath_directories_split() {
    let run = Run {
        kind: "directory",
        ..OF_5_4
    };
    assert_all_passed(&run.controller_and_node_apart().await);
}

#[tokio::test]
async fn privileged_sanity_5_4_hostpath_raw_block() {
    let run = Run {
        access_type: "block",
        ..OF_5_4
    };
    assert_all_passed(&run.one_process().await);
}

#[tokio::test]
async fn privileged_sanity_5_6_hostpath_images() {
    assert_only_skipped(&OF_5_6.one_process().await, &ONLY_IN_1_13);
}

#[tokio::test]
async fn privileged_sanity_5_6_hostpath_raw_block_split() {
    let run = Run {
        access_type: "block",
        ..OF_5_6
    };
    assert_only_skipped(&run.controller_and_node_apart().await, &ONLY_IN_1_13);
}

#[tokio::test]
async fn privileged_sanity_5_6_hostpath_images_as_csi_1_13() {
    assert_only_skipped(&OF_5_6_AND_1_13.one_process().await, &[SNAPSHOT_TOPOLOGY]);
}

#[tokio::test]
async fn privileged_sanity_5_6_hostpath_raw_block_csi_1_13_split() {
    let run = Run {
        access_type: "block",
        ..OF_5_6_AND_1_13
    };
    assert_only_skipped(&run.controller_and_node_apart().await, &[SNAPSHOT_TOPOLOGY]);
}

//! Volumes of one pod (inline ephemeral volumes): made by NodePublishVolume alone, gone with NodeUnpublishVolume, whether or not anybody
//! remembers them.

use crate::conformance::driver::{Driver, mounted_at};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::NodePublishVolumeRequest;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// Of the volume.
const SIZE: (&str, usize) = ("1Mi", 1 << 20);

/// As kubelet publishes one: no staging path, the pod's words and the host's in one context (`podInfoOnMount`).
fn inline(id: &str, target: &Path, attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
    let pod = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "web-0"),
        ("csi.storage.k8s.io/pod.namespace", "default"),
        (
            "csi.storage.k8s.io/pod.uid",
            "8d1cc1d6-0d58-4c3e-a6f6-0f4c0f3b5d3c",
        ),
        ("csi.storage.k8s.io/serviceAccount.name", "default"),
    ];
    let context = pod.iter().chain(attributes);
    NodePublishVolumeRequest {
        volume_capability: Some(Kind::Directory.capability()),
        volume_context: context
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..requests::publish(id, Path::new(""), target)
    }
}

#[tokio::test]
async fn privileged_a_pods_own_volume_lives_from_publish_to_unpublish() {
    let mut driver = Driver::serving().await;
    let id = "csi-0b2f6c1d4e8a";
    let target = driver.orchestrator.target("scratch", "first-pod").unwrap();
    let request = inline(id, &target, &[("size", SIZE.0)]);
    for _ in 0..2 {
        driver
            .orchestrator
            .publish_as(request.clone())
            .await
            .unwrap();
    }
    assert_eq!(driver.host.mounts().unwrap(), [target.as_path()]);
    assert!(mounted_at(&target).contains(" - tmpfs "));
    let content = random_bytes(SIZE.1 / 2);
    fs::write(target.join("data"), &content).unwrap();
    let full = fs::write(target.join("more"), random_bytes(SIZE.1)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    fs::remove_file(target.join("more")).unwrap();
    driver.orchestrator.stats(id, &target).await.unwrap();

    driver.kill_and_restart().await;
    driver.orchestrator.publish_as(request).await.unwrap();
    assert!(
        fs::read(target.join("data")).unwrap() == content,
        "other bytes after a restart"
    );
    for _ in 0..2 {
        driver.orchestrator.unpublish_at(id, &target).await.unwrap();
        assert!(!target.exists());
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_what_is_no_volume_of_a_pod_is_refused() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let target = orchestrator.target("scratch", "first-pod").unwrap();
    let mut not_inline = inline("csi-1", &target, &[]);
    not_inline.volume_context.clear();
    let mut block = inline("csi-1", &target, &[]);
    block.volume_capability = Some(Kind::Block.capability());
    for (what, request, expected) in [
        (
            "neither staged nor inline",
            not_inline,
            Code::FailedPrecondition,
        ),
        ("a device", block, Code::InvalidArgument),
        (
            "an unknown attribute",
            inline("csi-1", &target, &[("sizze", "1Mi")]),
            Code::InvalidArgument,
        ),
        (
            "a size that is none",
            inline("csi-1", &target, &[("size", "much")]),
            Code::InvalidArgument,
        ),
    ] {
        let refused = orchestrator.publish_as(request).await;
        assert_eq!(code(&refused), expected, "{what}: {refused:?}");
        assert!(!target.exists(), "{what}");
    }
    driver.assert_nothing_left();
}

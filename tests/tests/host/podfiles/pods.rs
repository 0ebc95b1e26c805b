//! What a pod finds, and that it is its own.

use crate::podfiles::pod::{Arrival, Pod};
use crate::podfiles::{FORMS, assert_nothing_left, serving};
use futures::future::join_all;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use tonic::Code;
use wasmount_csi::wire::csi::v1::plugin_capability::Type;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{GetPluginCapabilitiesRequest, VolumeCapability};
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// As many as a node is made for (kubelet, `maxPods`: 110), roughly.
const PODS: usize = 100;
/// Of a pod's `fsGroup`.
const GROUP: u32 = 4711;

#[tokio::test]
async fn privileged_a_pod_finds_its_identity_and_tokens() {
    for split in FORMS {
        let (host, mut clients) = serving(split).await;
        let request = GetPluginCapabilitiesRequest {};
        let offered = clients.identity.get_plugin_capabilities(request).await;
        let offered = offered.unwrap().into_inner().capabilities;
        let services = offered
            .iter()
            .filter(|it| matches!(it.r#type, Some(Type::Service(_))));
        assert_eq!(services.count(), 0, "no controller");
        for (arrival, readonly) in Arrival::BOTH.into_iter().zip([false, true]) {
            let pod = Pod::new(&host, "web-0");
            let mut request = pod.request(arrival, 1);
            request.readonly = readonly;
            clients.node.node_publish_volume(request).await.unwrap();
            for (file, content) in [
                ("pod/name", "web-0"),
                ("pod/namespace", "shop"),
                ("pod/uid", "uid-web-0"),
                ("pod/service-account", "web"),
                ("files/generation", "1"),
                ("token", &pod.token(1)),
            ] {
                assert_eq!(pod.read(file).unwrap(), content, "{file}");
            }
            assert_eq!(pod.by_paths().unwrap(), BTreeSet::from([1]));
            let mode = |file: &str| fs::metadata(pod.target.join(file)).unwrap().mode() & 0o777;
            assert_eq!((mode("pod/name"), mode("token")), (0o444, 0o400));
            let refused = File::create(pod.target.join("own")).map(drop);
            let expected = readonly.then_some(ErrorKind::ReadOnlyFilesystem);
            assert_eq!(refused.err().map(|error| error.kind()), expected);
            pod.unpublish(&clients).await.unwrap();
            assert!(!pod.target.exists());
            assert_nothing_left(&host);
        }
    }
}

#[tokio::test]
async fn privileged_tokens_are_readable_by_the_group_of_the_pod_only() {
    let (host, mut clients) = serving(None).await;
    let pod = Pod::new(&host, "grouped");
    for generation in 1..=2 {
        let mut request = pod.request(Arrival::Secret, generation);
        let mount = MountVolume {
            volume_mount_group: GROUP.to_string(),
            ..MountVolume::default()
        };
        request.volume_capability = Some(VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            ..requests::capability()
        });
        clients.node.node_publish_volume(request).await.unwrap();
        let status = fs::metadata(pod.target.join("token")).unwrap();
        let found = (status.uid(), status.gid(), status.mode() & 0o777);
        assert_eq!(found, (0, GROUP, 0o440));
    }
    pod.unpublish(&clients).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_missing_pod_info_names_the_field() {
    let (host, mut clients) = serving(None).await;
    let pod = Pod::new(&host, "unknown");
    let mut request = pod.request(Arrival::Secret, 1);
    request
        .volume_context
        .retain(|key, _| key == "file.generation");
    let refused = clients.node.node_publish_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("`podInfoOnMount: true`"),
        "{refused}"
    );
    // Of a claim, with pod info.
    let mut request = pod.request(Arrival::Secret, 1);
    request
        .volume_context
        .remove("csi.storage.k8s.io/ephemeral");
    let refused = clients.node.node_publish_volume(request).await;
    assert_eq!(code(&refused), Code::FailedPrecondition);
    let mut request = pod.request(Arrival::Secret, 1);
    request
        .volume_context
        .insert("flie.a".to_owned(), "x".to_owned());
    let refused = clients.node.node_publish_volume(request).await;
    assert_eq!(code(&refused), Code::InvalidArgument);
    assert!(!pod.target.exists());
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_hundred_pods_at_once_find_their_own_files() {
    for split in FORMS {
        let (host, clients) = serving(split).await;
        let pods: Vec<_> = (0..PODS)
            .map(|number| Pod::new(&host, &format!("pod-{number}")))
            .collect();
        for generation in 1..=2 {
            let published = pods
                .iter()
                .map(|pod| pod.publish(&clients, Arrival::Secret, generation));
            for answer in join_all(published).await {
                answer.unwrap();
            }
            for pod in &pods {
                assert_eq!(pod.read("pod/name").unwrap(), pod.name);
                assert_eq!(pod.read("token").unwrap(), pod.token(generation));
                assert_eq!(pod.at_once().unwrap(), BTreeSet::from([generation]));
            }
        }
        assert_eq!(host.mounts().unwrap().len(), PODS);
        for answer in join_all(pods.iter().map(|pod| pod.unpublish(&clients))).await {
            answer.unwrap();
        }
        assert_nothing_left(&host);
    }
}

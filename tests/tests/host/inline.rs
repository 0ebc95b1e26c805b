//! Inline volumes of pods by kubelet's own sequence of calls (`csiMountMgr.SetUpAt`, `metricsCsi`, `TearDownAt` of its `pkg/volume/csi`): no
//! stage, a publish that says whose pod it is, the same again every minute or so, figures in between, and an unpublish when the pod is gone.

use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::node_service_capability::{Type, rpc};
use wasmount_csi::wire::csi::v1::volume_capability::{AccessType, MountVolume};
use wasmount_csi::wire::csi::v1::{
    NodeGetCapabilitiesRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    VolumeCapability,
};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{hostpath_pool, left_behind, left_without_pool};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;
use xtask::workspace::Workspace;

const ID: &str = "csi-0b2f6c1d4e8a";
/// Of the pod (`fsGroup`), which kubelet leaves to a driver with VOLUME_MOUNT_GROUP.
const GROUP: u32 = 4711;
/// How often kubelet publishes in a test: at first, and for each minute.
const ROUNDS: u32 = 3;
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// A plugin with volumes of pods, by its own document.
#[derive(Debug, Clone, Copy)]
struct Plugin {
    name: &'static str,
    /// Of the volume in the pod.
    attribute: (&'static str, &'static str),
    /// Its CSIDriver object has `tokenRequests` and `serviceAccountTokenInSecrets`.
    has_tokens: bool,
    /// What the group owns.
    grouped: &'static str,
}

const PLUGINS: [Plugin; 2] = [
    Plugin {
        name: "podfiles",
        attribute: ("file.app.conf", "level = info"),
        has_tokens: true,
        grouped: "token",
    },
    Plugin {
        name: "hostpath",
        attribute: ("size", "1Mi"),
        has_tokens: false,
        grouped: "",
    },
];

/// One pod, its node, and kubelet's part.
struct Node {
    plugin: Plugin,
    host: Host,
    clients: Clients,
    target: PathBuf,
}

impl Node {
    async fn serving(plugin: Plugin) -> Self {
        needs_root();
        namespace::enter();
        let document = Workspace::locate().unwrap().backend_document(plugin.name);
        let host = Host::start(HostOptions {
            backends: vec![document],
            ..HostOptions::default()
        });
        let host = host.unwrap();
        let clients = host.client().await.unwrap();
        let above = host
            .kubelet()
            .join("pods/8d1cc1d6/volumes/kubernetes.io~csi/inline");
        fs::create_dir_all(&above).unwrap();
        Self {
            plugin,
            host,
            clients,
            target: above.join("mount"),
        }
    }

    /// With `podInfoOnMount`, and in the round of this number.
    fn request(&self, round: u32) -> NodePublishVolumeRequest {
        let pod = [
            ("csi.storage.k8s.io/ephemeral", "true"),
            ("csi.storage.k8s.io/pod.name", "web-0"),
            ("csi.storage.k8s.io/pod.namespace", "shop"),
            ("csi.storage.k8s.io/pod.uid", "8d1cc1d6"),
            ("csi.storage.k8s.io/serviceAccount.name", "web"),
            self.plugin.attribute,
        ];
        let mount = MountVolume {
            volume_mount_group: GROUP.to_string(),
            ..MountVolume::default()
        };
        let tokens = format!(r#"{{"":{{"token":"{}"}}}}"#, token(round));
        let tokens = (TOKENS.to_owned(), tokens);
        NodePublishVolumeRequest {
            volume_capability: Some(VolumeCapability {
                access_type: Some(AccessType::Mount(mount)),
                ..requests::capability()
            }),
            volume_context: pod
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            secrets: self
                .plugin
                .has_tokens
                .then_some(tokens)
                .into_iter()
                .collect(),
            ..requests::publish(ID, Path::new(""), &self.target)
        }
    }

    async fn publish_as(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        let mut node = self.clients.clone().node;
        node.node_publish_volume(request).await?;
        Ok(())
    }

    async fn publish(&self, round: u32) {
        self.publish_as(self.request(round)).await.unwrap();
        assert_eq!(self.host.mounts().unwrap(), [self.target.as_path()]);
        let owner = fs::metadata(self.target.join(self.plugin.grouped)).unwrap();
        assert_eq!(owner.gid(), GROUP, "{}", self.plugin.name);
        if self.plugin.has_tokens {
            let found = fs::read_to_string(self.target.join("token")).unwrap();
            assert_eq!(found, token(round));
        }
    }

    async fn stats(&self) -> Result<NodeGetVolumeStatsResponse, Status> {
        let mut node = self.clients.clone().node;
        let answer = node.node_get_volume_stats(requests::stats(ID, &self.target));
        Ok(answer.await?.into_inner())
    }

    /// In use, and well.
    async fn assert_well(&self) {
        let stats = self.stats().await.unwrap();
        assert!(stats.usage.iter().all(|usage| usage.total > 0), "{stats:?}");
        assert_eq!(stats.usage.len(), 2, "bytes and inodes: {stats:?}");
        let condition = stats.volume_condition.unwrap();
        assert!(!condition.abnormal, "{condition:?}");
    }

    async fn unpublish(&self) -> Result<(), Status> {
        let mut node = self.clients.clone().node;
        let request = requests::unpublish(ID, &self.target);
        node.node_unpublish_volume(request).await?;
        Ok(())
    }

    async fn restart(&mut self) {
        self.host.kill_9().unwrap();
        self.host.restart().unwrap();
        self.clients = self.host.client().await.unwrap();
    }

    fn assert_nothing_left(&self) {
        let left = match self.plugin.name {
            "hostpath" => left_behind(&self.host, &hostpath_pool(&self.host)),
            _ => left_without_pool(&self.host),
        };
        let left = left.unwrap();
        assert!(left.is_empty(), "{left:#?}");
    }
}

fn token(round: u32) -> String {
    format!("eyJhbGciOiJSUzI1NiJ9.token-of-round.{round}")
}

#[tokio::test]
async fn privileged_an_inline_volume_has_a_full_lifecycle() {
    for plugin in PLUGINS {
        let mut node = Node::serving(plugin).await;
        for round in 0..ROUNDS {
            node.publish(round).await;
            node.assert_well().await;
        }
        // The host is upgraded under the pod.
        node.restart().await;
        node.assert_well().await;
        node.publish(ROUNDS).await;
        // The pod is gone; kubelet may ask twice, and after it was restarted itself.
        for _ in 0..2 {
            node.unpublish().await.unwrap();
            assert!(!node.target.exists());
        }
        assert_eq!(code(&node.stats().await), Code::NotFound);
        node.restart().await;
        node.unpublish().await.unwrap();
        node.assert_nothing_left();
    }
}

#[tokio::test]
async fn privileged_a_lost_inline_volume_returns_with_republish() {
    for plugin in PLUGINS {
        let node = Node::serving(plugin).await;
        node.publish(0).await;
        unmount(&node.target, UnmountFlags::DETACH).unwrap();
        // As kubelet takes it: a condition without usage is an event of the pod, an error is not.
        let lost = node.stats().await.unwrap();
        assert!(lost.usage.is_empty(), "{lost:?}");
        assert!(lost.volume_condition.unwrap().abnormal);
        node.publish(1).await;
        node.assert_well().await;
        node.unpublish().await.unwrap();
        node.assert_nothing_left();
    }
}

#[tokio::test]
async fn privileged_missing_pod_info_names_csi_driver_and_field() {
    for plugin in PLUGINS {
        let node = Node::serving(plugin).await;
        let object = format!("CSIDriver object `{}.wasmount.io`", plugin.name);
        let mut unknown = node.request(0);
        let is_own = |key: &String, _: &mut String| *key == plugin.attribute.0;
        unknown.volume_context.retain(is_own);
        let mut without_tokens = node.request(0);
        without_tokens.secrets = BTreeMap::new();
        let tokens = plugin
            .has_tokens
            .then_some((without_tokens, "tokenRequests"));
        for (request, field) in [(unknown, "podInfoOnMount: true")]
            .into_iter()
            .chain(tokens)
        {
            let refused = node.publish_as(request).await;
            assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
            let said = refused.unwrap_err().message().to_owned();
            assert!(said.contains(&object) && said.contains(field), "{said}");
            assert!(!node.target.exists());
        }
        node.assert_nothing_left();
    }
}

/// Else kubelet changes the owner of all files itself, which it cannot where they are read-only or change.
#[tokio::test]
async fn privileged_plugins_with_inline_volumes_take_the_pods_group() {
    for plugin in PLUGINS {
        let node = Node::serving(plugin).await;
        let request = NodeGetCapabilitiesRequest {};
        let answer = node
            .clients
            .clone()
            .node
            .node_get_capabilities(request)
            .await;
        let offered = answer.unwrap().into_inner().capabilities;
        let takes = offered.iter().any(|it| {
            matches!(&it.r#type, Some(Type::Rpc(it)) if it.r#type() == rpc::Type::VolumeMountGroup)
        });
        assert!(takes, "{}", plugin.name);
    }
}

//! The native twin of plugins/hostpath (`tests/native-twin`) beside the host that runs the component: it answers alike, and is measured with it.

use super::{Bench, assert_nothing_is_left_in, begin, text, wait_until};
use std::path::{Path, PathBuf};
use tonic::Status;
use wasmount_csi::wire::csi::v1::{
    ControllerGetCapabilitiesRequest, CreateVolumeRequest, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest, Volume,
};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{below, hostpath_pool};
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;
use xtask::clients::Clients;
use xtask::place::{self, Place};
use xtask::process::Process;
use xtask::workspace::Workspace;

/// The prefix of the twin's directories, by which a later run removes those of a killed run.
const PLACE: &str = "wasmount-twin-";
/// The node of both, as [`HostOptions`] has it: it is part of a volume's topology.
const NODE: &str = "test-node";

/// A twin that serves.
struct Twin {
    process: Process,
    place: Place,
}

impl Twin {
    /// With the document of the component, and volumes in the same directory of kubelet.
    fn start(kubelet: &Path) -> Self {
        let workspace = Workspace::locate().unwrap();
        place::sweep(PLACE);
        let place = Place::create(PLACE).unwrap();
        let mut command = Process::command();
        command
            .arg(workspace.native_twin_program())
            .args(["--node-id", NODE]);
        for (flag, path) in [
            ("--backend", &workspace.backend_document("hostpath")),
            ("--data-dir", &place.data()),
            ("--run-dir", &place.run()),
            ("--kubelet-dir", &kubelet.to_owned()),
            ("--socket", &socket_in(&place)),
        ] {
            command.arg(flag).arg(path);
        }
        let process = Process::start(command, &place.log()).unwrap();
        let twin = Self { process, place };
        wait_until("the twin serves", || twin.socket().exists());
        twin
    }

    fn socket(&self) -> PathBuf {
        socket_in(&self.place)
    }

    /// Its pool.
    fn pool(&self) -> PathBuf {
        self.place.data().join("pools/hostpath")
    }

    /// Records of staged volumes, and content of volumes, in the trash too.
    fn left(&self) -> Vec<PathBuf> {
        let records = [self.place.run(), self.place.data().join("mounts")];
        let records = records.iter().flat_map(|it| below(it).unwrap());
        let records = records.filter(|path| !path.is_dir());
        let content = below(&self.pool()).unwrap().into_iter();
        let content = content.filter(|path| text(path).contains("/volume-"));
        records.chain(content).collect()
    }
}

fn socket_in(place: &Place) -> PathBuf {
    place.sockets().join("csi.sock")
}

/// A host that runs the component, and the twin.
async fn both() -> (Host, Twin) {
    begin();
    let host = Host::start(HostOptions {
        backends: vec![Workspace::locate().unwrap().backend_document("hostpath")],
        node_id: Some(NODE.to_owned()),
        ..HostOptions::default()
    });
    let host = host.unwrap();
    host.orchestrator().await.unwrap();
    let twin = Twin::start(&host.kubelet());
    (host, twin)
}

/// What a driver says of itself.
async fn description(clients: &mut Clients) -> String {
    let identity = &mut clients.identity;
    let info = identity.get_plugin_info(GetPluginInfoRequest {});
    let info = info.await.unwrap().into_inner();
    let plugin = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {});
    let plugin = plugin.await.unwrap().into_inner();
    let request = ControllerGetCapabilitiesRequest {};
    let controller = clients.controller.controller_get_capabilities(request);
    let controller = controller.await.unwrap().into_inner();
    let node = &mut clients.node;
    let capabilities = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
    let capabilities = capabilities.await.unwrap().into_inner();
    let node = node.node_get_info(NodeGetInfoRequest {}).await;
    let node = node.unwrap().into_inner();
    format!("{info:#?} {plugin:#?} {controller:#?} {capabilities:#?} {node:#?}")
}

async fn create(clients: &mut Clients, request: &CreateVolumeRequest) -> Result<Volume, Status> {
    let created = clients.controller.create_volume(request.clone()).await?;
    Ok(created.into_inner().volume.unwrap())
}

#[tokio::test]
async fn privileged_the_native_twin_answers_as_the_component() {
    let (host, twin) = both().await;
    let mut component = Clients::connect(host.socket()).await.unwrap();
    let mut native = Clients::connect(&twin.socket()).await.unwrap();
    let described = description(&mut component).await;
    assert_eq!(described, description(&mut native).await);
    assert!(described.contains("hostpath.wasmount.io"), "{described}");

    // Ids are made of names.
    let mut request = requests::create("volume", VOLUME_BYTES);
    let volume = create(&mut component, &request).await.unwrap();
    assert_eq!(create(&mut native, &request).await.unwrap(), volume);
    assert_eq!(create(&mut native, &request).await.unwrap(), volume);
    assert!(twin.pool().join(&volume.volume_id).exists());
    assert_eq!(twin.left().len(), 1);

    request.parameters = [("kind".to_owned(), "directory".to_owned())].into();
    let refused = create(&mut component, &request).await.unwrap_err();
    let also = create(&mut native, &request).await.unwrap_err();
    assert_eq!(
        (also.code(), also.message()),
        (refused.code(), refused.message())
    );
}

#[tokio::test]
async fn privileged_the_native_twin_is_measured_and_leaves_nothing() {
    let (host, twin) = both().await;
    let (socket, kubelet) = (twin.socket(), host.kubelet());
    let arguments = [
        "--compare",
        text(&socket),
        "-n",
        "8",
        "-c",
        "2",
        "--rounds",
        "2",
        "--parameter",
        "kind=directory",
        "--kubelet-dir",
        text(&kubelet),
    ];
    let (code, report) = Bench::start(host.socket(), &arguments).end();
    assert_eq!(code, 0, "{report:#}");
    for (target, id) in [(0, host.id()), (1, twin.process.id())] {
        let target = &report["targets"][target];
        assert_eq!(
            (&target["repetitions"], &target["failed"]),
            (&8.into(), &0.into())
        );
        assert_eq!(target["server"]["known"]["pids"][0], id);
    }
    assert_nothing_is_left_in(&host, &hostpath_pool(&host), &kubelet);
    assert_eq!(twin.place.mounts().unwrap(), [""; 0].map(PathBuf::from));
    wait_until("the twin has removed all", || twin.left().is_empty());
}

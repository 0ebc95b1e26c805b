//! Volumes of an array on two kernels (`cargo xtask vm --two`): the first one has the array, and both are nodes, each with a host and an initiator of its
//! own.

mod forced;
mod moved;
mod shared;

use super::{Node, Playground, assert_node_is_free, host, prepare_node};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use tempfile::TempDir;
use tonic::Code;
use wasmount_tests::array::Protocol;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_without_pool;
use wasmount_tests::orchestrator::Volume;
use wasmount_tests::peer::{FIRST, Peer};

/// The node on the second kernel.
pub(super) const SECOND_NODE: &str = "second-node";

/// What a node is answered that asks for a volume of another one.
const REFUSED: Code = Code::FailedPrecondition;

/// What ControllerPublishVolume told a node.
type Context = BTreeMap<String, String>;

/// The host on the second kernel.
struct Second {
    host: Host,
    _folder: TempDir,
}

impl Second {
    /// Before the array that the other kernel tells of.
    fn start(peer: &mut Peer, protocol: &Protocol) -> Self {
        prepare_node();
        let array: SocketAddr = peer.receive().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let document = documents::array_with(folder.path(), array, protocol).unwrap();
        let options = HostOptions {
            any_paths: true,
            node_id: Some(SECOND_NODE.to_owned()),
            ..HostOptions::default()
        };
        Self {
            host: host(&document, options),
            _folder: folder,
        }
    }

    async fn node(&self) -> Node {
        Node::of(&self.host, SECOND_NODE, &[]).await
    }

    /// Ends it; nothing is left on this node.
    fn end(mut self) {
        assert_eq!(left_without_pool(&self.host).unwrap(), [""; 0]);
        assert_node_is_free();
        assert!(self.host.terminate().unwrap().success());
    }
}

fn iscsi() -> Protocol {
    Protocol::Iscsi(vec![SocketAddr::new(first(), 3260)])
}

fn nvme() -> Protocol {
    Protocol::NvmeTcp(vec![SocketAddr::new(first(), 4420)])
}

fn first() -> IpAddr {
    FIRST.parse().unwrap()
}

/// The array and the host on the first kernel, once the other kernel knows of them.
async fn start_first(protocol: Protocol) -> (Playground, Peer) {
    let options = HostOptions {
        any_paths: true,
        ..HostOptions::default()
    };
    let playground = Playground::start_at(first(), protocol, options).await;
    let mut peer = Peer::find().unwrap();
    peer.send(&playground.array().address()).unwrap();
    playground.wait_until_known(SECOND_NODE);
    (playground, peer)
}

fn write(volume: &Volume, text: &str) -> std::io::Result<()> {
    let mut file = File::create(volume.target.join("data"))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn read(volume: &Volume) -> String {
    volume.read_at(&volume.target).unwrap()
}

/// A volume of the second node that another node made.
fn placed(node: &Node, id: String) -> Volume {
    node.orchestrator.place("pvc", id).unwrap()
}

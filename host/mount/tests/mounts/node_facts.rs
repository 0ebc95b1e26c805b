//! Facts of the node by the mounter: files as packages leave them, the network of the machine and one without hardware.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use wasmount_core::document::Grants;
use wasmount_core::mounter::{MountError, Mounter};
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::NodeFact;
use wasmount_mount::{LocalMounter, MounterConfig};

const ALL: [NodeFact; 4] = [
    NodeFact::Iqn,
    NodeFact::Nqn,
    NodeFact::Addresses,
    NodeFact::Multipath,
];

struct Scene {
    mounter: LocalMounter,
    folder: TempDir,
}

impl Scene {
    /// With these facts for the node service, and those for the controller.
    fn new(own: &[NodeFact], of_nodes: &[NodeFact]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let grants = Grants {
            node_facts: own.iter().copied().collect::<BTreeSet<_>>(),
            nodes: of_nodes.iter().copied().collect(),
            ..Grants::default()
        };
        let config = MounterConfig {
            roots: Vec::new(),
            own: Vec::new(),
            run_dir: folder.path().join("run"),
            state_dir: folder.path().join("state"),
            grants: BTreeMap::from([(driver(), grants)]),
            threads_per_driver: 2,
            node_root: Some(folder.path().to_owned()),
        };
        fs::create_dir(folder.path().join("etc")).unwrap();
        Self {
            mounter: LocalMounter::new(config).unwrap(),
            folder,
        }
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.folder.path().join("etc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    async fn get(&self, fact: NodeFact) -> Result<Vec<String>, MountError> {
        let values = self.mounter.node_fact(driver(), fact).await;
        values.map(|values| values.into_vec())
    }
}

fn driver() -> DriverName {
    DriverName::parse("facts.test").unwrap()
}

#[tokio::test]
async fn names_of_initiators_are_read_whenever_they_are_asked_for() {
    let scene = Scene::new(&[NodeFact::Iqn], &[NodeFact::Nqn]);
    for fact in [NodeFact::Iqn, NodeFact::Nqn] {
        assert_eq!(scene.get(fact).await, Ok(Vec::new()));
    }
    scene.write("nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:1\n");
    for name in ["iqn.2004-10.com.example:1", "iqn.2004-10.com.example:2"] {
        scene.write(
            "iscsi/initiatorname.iscsi",
            &format!("InitiatorName={name}\n"),
        );
        assert_eq!(scene.get(NodeFact::Iqn).await, Ok(vec![name.to_owned()]));
    }
    let nqn = vec!["nqn.2014-08.org.nvmexpress:uuid:1".to_owned()];
    assert_eq!(scene.get(NodeFact::Nqn).await, Ok(nqn));
    scene.write("iscsi/initiatorname.iscsi", "InitiatorName=the node\n");
    let refused = scene.get(NodeFact::Iqn).await.unwrap_err().to_string();
    assert!(
        refused.contains("write one as `iscsi-iname` does"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_fact_is_for_drivers_that_are_granted_it() {
    let scene = Scene::new(&[NodeFact::Iqn], &[]);
    for fact in [NodeFact::Nqn, NodeFact::Addresses, NodeFact::Multipath] {
        let refused = scene.get(fact).await.unwrap_err();
        assert!(
            matches!(refused, MountError::NotGranted { .. }),
            "{refused}"
        );
    }
    // Of an instance the mounter knows the config drive only.
    let scene = Scene::new(&[NodeFact::Zone], &[]);
    let refused = scene.get(NodeFact::Zone).await.unwrap_err();
    assert!(matches!(refused, MountError::Unsupported(_)), "{refused}");
}

#[tokio::test]
async fn addresses_are_those_of_the_hardware_of_this_machine() {
    let scene = Scene::new(&ALL, &[]);
    let names = fs::read_dir("/sys/class/net").unwrap();
    let names = names.map(|entry| entry.unwrap().path());
    let hardware: Vec<_> = names.filter(|path| path.join("device").exists()).collect();
    let told = scene.get(NodeFact::Addresses).await;
    if hardware.is_empty() {
        assert!(told.unwrap_err().to_string().contains("hostNetwork"));
        return;
    }
    let told = told.unwrap();
    for address in hardware.iter().flat_map(|path| global_v4_addresses(path)) {
        assert!(told.contains(&address), "{address}: {told:?}");
    }
    assert!(!told.iter().any(|it| it.starts_with("127.")), "{told:?}");
}

/// As `ip` shows them.
fn global_v4_addresses(interface: &Path) -> Vec<String> {
    let name = interface.file_name().unwrap();
    let shown = Command::new("ip")
        .args(["-4", "-o", "address", "show", "scope", "global", "dev"])
        .arg(name)
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let addresses = shown.lines().map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "inet");
        words.nth(1).unwrap().split('/').next().unwrap().to_owned()
    });
    addresses.collect()
}

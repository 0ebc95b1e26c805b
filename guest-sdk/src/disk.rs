//! Disks that a storage system shows to nodes. The controller puts one into the publish context of its volume, and the node takes it out and records
//! it in the plan.
//!
//! ```
//! use wasmount_guest::*;
//!
//! fn publish(disk: Disk) -> Attributes {
//!     vec![disk.into_pair(false)]
//! }
//!
//! fn stage(context: &Attributes, plan: &Plan) -> Result<(), Error> {
//!     let disk = Disk::of(context)?.ok_or_else(|| Error::failed_precondition("publish it first"))?;
//!     plan.disk(&disk, 1, 10_000)
//! }
//!
//! testing::reset();
//! let context = publish(Disk {
//!     protocol: DiskProtocol::Iscsi,
//!     portals: vec!["192.0.2.1:3260".to_owned()],
//!     target: "iqn.2026-01.example:a".to_owned(),
//!     lun: 7,
//!     wwid: "naa.6001405".to_owned(),
//!     readonly: false,
//! });
//! let plan = testing::record(|plan| stage(&context, plan)).unwrap();
//! assert!(matches!(plan.source, testing::Source::Iscsi(disk) if disk.wwid == "naa.6001405"));
//! ```

use crate::attributes::{Attributes, AttributesExt};
use crate::error::Error;
use crate::imports::node_nvme;
use crate::nodes;
use crate::plan::{IscsiPath, Plan};
use crate::secrets::{self, Scope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The key of a disk in a publish context.
const KEY: &str = "connection";

/// The secrets of the document with which nodes log in to iSCSI targets, if they must.
const CHAP: [&str; 2] = ["chap-user", "chap-password"];

/// The secrets of the document with the keys by which nodes and NVMe subsystems prove who they are, if they must.
const DHCHAP: [&str; 2] = ["dhchap-key", "dhchap-controller-key"];

/// A disk that a storage system shows to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// How the node reaches it.
    pub protocol: DiskProtocol,
    /// Address and port of each portal.
    pub portals: Vec<String>,
    /// The name of the target (IQN) or of the subsystem (NQN), the same behind each portal.
    pub target: String,
    /// The number of the logical unit there. NVMe finds the namespace by its identity.
    pub lun: u16,
    /// The identity of the disk: see [`Plan::iscsi`] and [`Plan::nvme`].
    pub wwid: String,
    /// Nodes mount it for reading only: what [`Disk::into_pair`] was told.
    #[serde(default)]
    pub readonly: bool,
}

/// How nodes reach the disks of a storage system: usable as a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskProtocol {
    /// iSCSI.
    Iscsi,
    /// NVMe over TCP.
    NvmeTcp,
    /// Not at all: a storage system without a data path, such as one for tests.
    None,
}

impl Disk {
    /// The disk as a pair of a publish context. `readonly`: ControllerPublishVolume asks for reading only.
    pub fn into_pair(self, readonly: bool) -> (String, String) {
        let disk = Self { readonly, ..self };
        (KEY.to_owned(), serde_json::json!(disk).to_string())
    }

    /// The disk in a publish context; `invalid-argument` if it cannot be read.
    pub fn of(publish_context: &Attributes) -> Result<Option<Self>, Error> {
        let read = |text| {
            let disk = serde_json::from_str(text);
            disk.map_err(|error| Error::invalid_argument(format!("`{KEY}` is no disk: {error}")))
        };
        publish_context.value(KEY).map(read).transpose()
    }
}

impl DiskProtocol {
    /// The name of a node's initiator, under the name of its fact ([`crate::nodes`]), which the document must grant: what a storage system must know
    /// of the node. `failed-precondition` if the node has no initiator.
    pub fn initiator(self, node: &str) -> Result<BTreeMap<&'static str, String>, Error> {
        let (fact, program) = match self {
            Self::Iscsi => ("iqn", "open-iscsi"),
            Self::NvmeTcp => ("nqn", "nvme-cli"),
            Self::None => return Ok(BTreeMap::new()),
        };
        let name = nodes::facts(node, fact)?.into_iter().next();
        let missing = || format!("node `{node}` has no {fact}: install {program} there");
        let name = name.ok_or_else(|| Error::failed_precondition(missing()))?;
        Ok(BTreeMap::from([(fact, name)]))
    }
}

impl Plan {
    /// Source: a disk that a storage system shows to this node, by [`Plan::iscsi`] or [`Plan::nvme`]. iSCSI with CHAP, if the document has the secrets
    /// `chap-user` and `chap-password`; NVMe with DH-HMAC-CHAP, if it has `dhchap-key`, and `dhchap-controller-key` for the controller's own.
    pub fn disk(&self, disk: &Disk, minimum_paths: u32, wait_ms: u32) -> Result<(), Error> {
        let Disk { target, wwid, .. } = disk;
        if disk.readonly {
            self.mount_options(&["ro"])?;
        }
        match disk.protocol {
            DiskProtocol::None => Err(Error::invalid_argument("the disk has no data path")),
            DiskProtocol::NvmeTcp => {
                node_nvme::nvme(&disk.portals, target, wwid, minimum_paths, wait_ms)?;
                let [host, controller] =
                    DHCHAP.map(|key| Some(key).filter(|key| secrets::has(Scope::Backend, key)));
                host.map_or(Ok(()), |key| self.dhchap(Scope::Backend, key, controller))
            }
            DiskProtocol::Iscsi => {
                let path = |portal: &String| IscsiPath {
                    portal: portal.clone(),
                    target: target.clone(),
                    lun: disk.lun,
                };
                let paths: Vec<_> = disk.portals.iter().map(path).collect();
                self.iscsi(&paths, wwid, minimum_paths, wait_ms)?;
                match CHAP {
                    [user, password] if secrets::has(Scope::Backend, user) => {
                        self.chap(Scope::Backend, user, password)
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing::{self, Source};

    fn disk(protocol: DiskProtocol) -> Disk {
        Disk {
            protocol,
            portals: vec!["192.0.2.1:1".to_owned(), "192.0.2.2:1".to_owned()],
            target: "target".to_owned(),
            lun: 7,
            wwid: "identity".to_owned(),
            readonly: false,
        }
    }

    fn staged(protocol: DiskProtocol) -> Result<Source, Error> {
        let context = vec![disk(protocol).into_pair(false)];
        let found = Disk::of(&context)?.unwrap();
        assert_eq!(found, disk(protocol));
        testing::record(|plan| plan.disk(&found, 2, 5000)).map(|plan| plan.source)
    }

    #[test]
    fn a_disk_has_a_path_through_each_of_its_portals() {
        testing::reset();
        let Ok(Source::Iscsi(iscsi)) = staged(DiskProtocol::Iscsi) else {
            panic!("the plan has another source")
        };
        let paths = iscsi.paths.iter();
        let paths: Vec<_> = paths
            .map(|it| (it.portal.as_str(), it.target.as_str(), it.lun))
            .collect();
        let expected = ["192.0.2.1:1", "192.0.2.2:1"].map(|portal| (portal, "target", 7));
        assert_eq!(paths, expected);
        assert_eq!(
            (iscsi.wwid.as_str(), iscsi.minimum_paths, iscsi.wait_ms),
            ("identity", 2, 5000)
        );
        let Ok(Source::Nvme(nvme)) = staged(DiskProtocol::NvmeTcp) else {
            panic!("the plan has another source")
        };
        assert_eq!(nvme.addresses, disk(DiskProtocol::NvmeTcp).portals);
        assert_eq!(
            (nvme.subsystem.as_str(), nvme.namespace_id.as_str()),
            ("target", "identity")
        );
        assert_eq!((nvme.minimum_paths, nvme.wait_ms), (2, 5000));
    }

    #[test]
    fn a_disk_for_reading_only_is_mounted_so() {
        testing::reset();
        for (readonly, options) in [(false, &[][..]), (true, &["ro"])] {
            let context = vec![disk(DiskProtocol::NvmeTcp).into_pair(readonly)];
            let disk = Disk::of(&context).unwrap().unwrap();
            let plan = testing::record(|plan| plan.disk(&disk, 1, 0)).unwrap();
            assert_eq!(plan.mount_options, options);
        }
    }

    #[test]
    fn chap_is_used_if_the_document_has_its_secrets() {
        for is_there in [false, true] {
            testing::reset();
            for name in CHAP.into_iter().filter(|_| is_there) {
                testing::set_secret(Scope::Backend, name, "twelve-bytes");
            }
            let Ok(Source::Iscsi(iscsi)) = staged(DiskProtocol::Iscsi) else {
                panic!("the plan has another source")
            };
            let chap = iscsi.chap.map(|it| (it.scope, it.user, it.password));
            let [user, password] = CHAP.map(str::to_owned);
            let expected = (Scope::Backend, user, password);
            assert_eq!(chap, is_there.then_some(expected));
        }
    }

    #[test]
    fn dhchap_is_used_if_the_document_has_its_secrets() {
        for count in 0..=DHCHAP.len() {
            testing::reset();
            for name in DHCHAP.into_iter().take(count) {
                testing::set_secret(Scope::Backend, name, "DHHC-1:00:…:");
            }
            let Ok(Source::Nvme(nvme)) = staged(DiskProtocol::NvmeTcp) else {
                panic!("the plan has another source")
            };
            let keys = nvme
                .dhchap
                .map(|it| (it.scope, it.host_key, it.controller_key));
            let [host, controller] = DHCHAP.map(str::to_owned);
            let controller = (count == 2).then_some(controller);
            let expected = (Scope::Backend, host, controller);
            assert_eq!(keys, (count > 0).then_some(expected));
        }
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        testing::reset();
        let none = staged(DiskProtocol::None).map_err(|error| error.code);
        assert_eq!(none, Err(Code::InvalidArgument));
        assert_eq!(Disk::of(&Vec::new()), Ok(None));
        let damaged = vec![(KEY.to_owned(), "{}".to_owned())];
        let refused = Disk::of(&damaged).map_err(|error| error.code);
        assert_eq!(refused, Err(Code::InvalidArgument));
    }

    #[test]
    fn a_node_is_known_by_the_initiator_of_the_protocol() {
        testing::reset();
        testing::set_fact_of_node("a", "iqn", &["iqn.a"]);
        testing::set_fact_of_node("a", "nqn", &["nqn.a"]);
        testing::set_fact_of_node("bare", "iqn", &[]);
        for (protocol, known_as) in [
            (DiskProtocol::Iscsi, vec![("iqn", "iqn.a".to_owned())]),
            (DiskProtocol::NvmeTcp, vec![("nqn", "nqn.a".to_owned())]),
            (DiskProtocol::None, Vec::new()),
        ] {
            let initiator = protocol.initiator("a").unwrap();
            assert_eq!(initiator, BTreeMap::from_iter(known_as));
        }
        let bare = DiskProtocol::Iscsi.initiator("bare");
        let message = "node `bare` has no iqn: install open-iscsi there";
        assert_eq!(bare, Err(Error::failed_precondition(message)));
    }
}

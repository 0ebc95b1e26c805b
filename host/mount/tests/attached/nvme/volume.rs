//! A host that is granted the subsystem, and its volumes.

use super::target::{NQN, Target};
use crate::host::{self, Host};
use std::path::Path;
use wasmount_core::document::{AttachGrant, AttachProtocol, Portals};
use wasmount_core::plan::attached::{Dhchap, SecretScope, option};
use wasmount_core::plan::{Nvme, Source};
use wasmount_core::secrets::SecretOptions;

/// The NQN and the id of the node.
pub(crate) const HOST_NQN: &str =
    "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555";
/// The driver, and what is in the place of the files of its node.
const DRIVER: &str = "nvme.test";
const ETC: [(&str, &str); 1] = [("nvme/hostnqn", HOST_NQN)];
/// Addresses that nobody answers for.
const SILENT: &str = "192.0.2.0/24:4420";
/// How long a volume waits for its namespace.
const WAIT_MS: u32 = 3000;

/// What a volume is.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) minimum_paths: u32,
    pub(crate) is_raw: bool,
    pub(crate) is_read_only: bool,
    /// The host's, and the controller's.
    pub(crate) keys: [Option<&'static str>; 2],
}

impl Volume {
    /// A file system on the namespace with this number, at the first address.
    pub(crate) fn of(number: u32) -> Self {
        Self {
            name: format!("v{number}"),
            uuid: uuid(number),
            addresses: vec![Target::address(0)],
            minimum_paths: 1,
            is_raw: false,
            is_read_only: false,
            keys: [None, None],
        }
    }
}

impl host::Volume for Volume {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> Source {
        let [host, controller] = self.keys;
        let dhchap = host.map(|_| Dhchap {
            scope: SecretScope::Request,
            host_key: "host".to_owned(),
            controller_key: controller.map(|_| "controller".to_owned()),
        });
        Source::Nvme(Nvme {
            addresses: self.addresses.clone(),
            subsystem: NQN.to_owned(),
            namespace_id: self.uuid.clone(),
            minimum_paths: self.minimum_paths,
            wait_ms: WAIT_MS,
            dhchap,
        })
    }

    fn secrets(&self) -> SecretOptions {
        let names = [option::HOST_KEY, option::CONTROLLER_KEY];
        let pairs = names.into_iter().zip(self.keys);
        let pairs = pairs.filter_map(|(name, key)| Some((name.to_owned(), key?.to_owned())));
        pairs.collect()
    }

    fn is_raw(&self) -> bool {
        self.is_raw
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

/// The identity of a namespace.
pub(crate) fn uuid(number: u32) -> String {
    format!("11111111-2222-4333-8444-{number:012}")
}

pub(crate) fn host() -> Host {
    Host::of(DRIVER, grant(), &ETC)
}

/// A host in a directory that may have been another one's.
pub(crate) fn host_at(folder: &Path) -> Host {
    Host::at(folder, DRIVER, grant(), &ETC)
}

fn grant() -> AttachGrant {
    let [one, two] = [0, 1].map(Target::address);
    AttachGrant {
        protocol: AttachProtocol::NvmeTcp,
        portals: [one.as_str(), two.as_str(), SILENT]
            .map(|portals| Portals::parse(portals).unwrap())
            .into(),
        targets: vec![NQN.to_owned()],
        mount_options: Vec::new(),
    }
}

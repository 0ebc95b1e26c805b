//! Facts that the node's files, kernel and network interfaces tell. Each is read anew whenever it is asked for: an administrator may change it.

mod addresses;

use crate::failure::io;
use crate::initiator::InitiatorFiles;
use crate::node::Node;
use addresses::own_addresses;
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{FactValues, NodeFact};

/// multipathd's socket, in the abstract namespace, which belongs to the network namespace (multipath-tools, `DEFAULT_SOCKET`).
const MULTIPATHD: &str = "@/org/kernel/linux/storage/multipathd";

/// Where the node tells of itself.
#[derive(Debug)]
pub(crate) struct FactSources {
    initiator: InitiatorFiles,
    sys: PathBuf,
    proc: PathBuf,
}

impl Node {
    /// The values of a fact; none: this node has no such fact.
    pub(crate) fn node_fact(
        &self,
        driver: &DriverName,
        fact: NodeFact,
    ) -> Result<FactValues, MountError> {
        if !self.grants_of(driver).facts().contains(&fact) {
            let name = fact.name();
            let reason = format!(
                "the mounter's document of driver {driver} has `{name}` neither in `grants.nodeFacts` nor in `grants.nodes`; add it"
            );
            let blame = Blame::Of(Owner::Administrator);
            return Err(MountError::not_granted("node-facts", reason, blame));
        }
        let what = || format!("the fact `{}` of the node", fact.name());
        let sources = FactSources::of(self.node_root.as_deref());
        let values = match fact {
            NodeFact::Iqn => sources.initiator.iqn()?.into_iter().collect(),
            NodeFact::Nqn => sources.initiator.nqn()?.into_iter().collect(),
            NodeFact::Addresses => own_addresses(&sources.sys, &sources.proc)?,
            NodeFact::Multipath => sources.multipath()?,
            NodeFact::InstanceId | NodeFact::Zone => {
                return Err(MountError::unsupported(what(), "OpenStack tells it"));
            }
        };
        FactValues::try_from(values).map_err(|invalid| MountError::unusable(what(), invalid))
    }
}

impl FactSources {
    /// Those of a node, whose root directory is another one than ours in a container.
    pub(crate) fn of(node_root: Option<&Path>) -> Self {
        Self {
            initiator: InitiatorFiles::of(node_root),
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }

    /// `dm`: the kernel has dm-multipath, and multipathd runs. `nvme`: the kernel joins paths of NVMe by itself.
    fn multipath(&self) -> Result<Vec<String>, MountError> {
        let mut found = Vec::new();
        if self.joins_paths()? {
            found.push("dm".to_owned());
        }
        // Absent: the module is not loaded, or was built without it.
        let native = fs::read_to_string(self.sys.join("module/nvme_core/parameters/multipath"));
        if native.is_ok_and(|value| value.trim() == "Y") {
            found.push("nvme".to_owned());
        }
        Ok(found)
    }

    /// Whether dm-multipath joins the paths to a disk.
    pub(crate) fn joins_paths(&self) -> Result<bool, MountError> {
        Ok(self.sys.join("module/dm_multipath").exists() && self.has_multipathd()?)
    }

    fn has_multipathd(&self) -> Result<bool, MountError> {
        let sockets = self.proc.join("net/unix");
        let listed = fs::read_to_string(&sockets);
        let listed = listed.map_err(|error| io("read", sockets.display(), &error))?;
        if listed.lines().any(is_of_multipathd) {
            return Ok(true);
        }
        // Elsewhere than on the node's network the socket is not seen.
        addresses::ensure_node_network(&self.sys).map(|()| false)
    }
}

/// A line of `/proc/net/unix`: its last column is the name (proc_net(5)).
fn is_of_multipathd(line: &str) -> bool {
    line.split_whitespace().next_back() == Some(MULTIPATHD)
}

#[cfg(test)]
mod tests;

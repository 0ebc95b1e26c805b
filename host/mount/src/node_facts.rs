//! Facts that the node's files, kernel and network interfaces tell. Each is read anew whenever it is asked for: an administrator may change it.

mod addresses;

use crate::confine::{open_resolved, small_file};
use crate::failure::{io, kernel};
use crate::node::Node;
use addresses::own_addresses;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{FactValues, NodeFact};

/// Where open-iscsi keeps the name of the initiator (iscsid(8)), below `/etc`.
const INITIATOR_NAME: &str = "iscsi/initiatorname.iscsi";
/// Where nvme-cli keeps the name of the host (nvme-connect(1)), below `/etc`.
const HOST_NQN: &str = "nvme/hostnqn";
/// Largest of these files, in bytes. 64 KiB: some lines of comments and one name.
const NAME_FILE_BYTES: u64 = 64 << 10;
/// Longest name, in bytes (RFC 7143, 4.2.7.1; NVM Express Base Specification, "NVMe Qualified Names").
const NAME_BYTES: usize = 223;
/// The formats of an iSCSI name (RFC 7143, 4.2.7.3 to 4.2.7.5).
const ISCSI_FORMATS: [&str; 3] = ["iqn.", "eui.", "naa."];
/// multipathd's socket, in the abstract namespace, which belongs to the network namespace (multipath-tools, `DEFAULT_SOCKET`).
const MULTIPATHD: &str = "@/org/kernel/linux/storage/multipathd";

/// Directories of the node.
#[derive(Debug, Clone)]
pub(crate) struct FactSources {
    etc: PathBuf,
    sys: PathBuf,
    proc: PathBuf,
}

/// Why a file does not tell a name, with what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum InvalidName {
    #[error("it has two names; keep one")]
    Two,
    #[error(
        "its name does not begin with `iqn.`, `eui.` or `naa.`, is longer than {NAME_BYTES} bytes, or has other characters than letters, digits, `-`, `.` and `:`; write one as `iscsi-iname` does"
    )]
    Iscsi,
    #[error(
        "its name does not begin with `nqn.`, is longer than {NAME_BYTES} bytes, or has blanks; write one as `nvme gen-hostnqn` does"
    )]
    Nvme,
}

impl Node {
    /// The values of a fact; none: this node has no such fact.
    pub(crate) fn node_fact(
        &self,
        driver: &DriverName,
        fact: NodeFact,
        sources: &FactSources,
    ) -> Result<FactValues, MountError> {
        if !self.grants_of(driver).facts().contains(&fact) {
            let name = fact.name();
            let reason = format!(
                "the mounter's document of driver {driver} has `{name}` neither in `grants.nodeFacts` nor in `grants.nodes`; add it"
            );
            let blame = Blame::Of(Owner::Administrator);
            return Err(MountError::not_granted("node-facts", reason, blame));
        }
        let values = match fact {
            NodeFact::Iqn => sources.name(INITIATOR_NAME, initiator_name)?,
            NodeFact::Nqn => sources.name(HOST_NQN, host_nqn)?,
            NodeFact::Addresses => own_addresses(&sources.sys, &sources.proc)?,
            NodeFact::Multipath => sources.multipath()?,
            NodeFact::InstanceId | NodeFact::Zone => {
                let what = format!("the fact `{}` of the node", fact.name());
                return Err(MountError::unsupported(what, "OpenStack tells it"));
            }
        };
        let what = || format!("the fact `{}` of the node", fact.name());
        FactValues::try_from(values).map_err(|invalid| MountError::unusable(what(), invalid))
    }
}

impl FactSources {
    /// Those of a node, whose root directory is another one than ours in a container.
    pub(crate) fn of(node_root: Option<&Path>) -> Self {
        Self {
            etc: node_root.unwrap_or(Path::new("/")).join("etc"),
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }

    /// The name in a file below `etc`, which no link leaves; empty: there is no file, or no name in it.
    fn name(
        &self,
        path: &str,
        parse: fn(&str) -> Result<Option<&str>, InvalidName>,
    ) -> Result<Vec<String>, MountError> {
        let what = || self.etc.join(path).display().to_string();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let etc = openat(CWD, &self.etc, flags, Mode::empty())
            .map_err(|errno| kernel("open", self.etc.display(), errno))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match open_resolved(&etc, path, flags, resolve) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(Errno::XDEV) => {
                let reason = "a link of it leads out of that directory; put the file itself there";
                return Err(MountError::unusable(what(), reason));
            }
            Err(errno) => return Err(kernel("open", what(), errno)),
        };
        let content = small_file(file, NAME_FILE_BYTES, what)?;
        let text = content.and_then(|content| String::from_utf8(content).ok());
        let text = text.ok_or_else(|| {
            let reason = format!("it is no text of at most {NAME_FILE_BYTES} bytes");
            MountError::unusable(what(), reason)
        })?;
        let name = parse(&text).map_err(|invalid| MountError::unusable(what(), invalid))?;
        Ok(name.map(str::to_owned).into_iter().collect())
    }

    /// `dm`: the kernel has dm-multipath, and multipathd runs. `nvme`: the kernel joins paths of NVMe by itself.
    fn multipath(&self) -> Result<Vec<String>, MountError> {
        let modules = self.sys.join("module");
        let mut found = Vec::new();
        if modules.join("dm_multipath").exists() && self.has_multipathd()? {
            found.push("dm".to_owned());
        }
        // Absent: the module is not loaded, or was built without it.
        let native = fs::read_to_string(modules.join("nvme_core/parameters/multipath"));
        if native.is_ok_and(|value| value.trim() == "Y") {
            found.push("nvme".to_owned());
        }
        Ok(found)
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

/// `InitiatorName=…` in a file of open-iscsi.
fn initiator_name(text: &str) -> Result<Option<&str>, InvalidName> {
    let lines = text.lines().map(str::trim);
    let mut names = lines.filter_map(|line| {
        let (key, name) = line.split_once('=')?;
        (key.trim_end() == "InitiatorName").then(|| name.trim_start())
    });
    let Some(name) = names.next() else {
        return Ok(None);
    };
    // open-iscsi takes the first one; which one was meant is not known.
    if names.next().is_some() {
        return Err(InvalidName::Two);
    }
    let is_allowed = |c: char| c.is_alphanumeric() || ['-', '.', ':'].contains(&c);
    let is_name = ISCSI_FORMATS.iter().any(|format| name.starts_with(format))
        && name.len() <= NAME_BYTES
        && name.chars().all(is_allowed);
    is_name.then_some(Some(name)).ok_or(InvalidName::Iscsi)
}

/// The only line of a file of nvme-cli.
fn host_nqn(text: &str) -> Result<Option<&str>, InvalidName> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(name) = lines.next() else {
        return Ok(None);
    };
    if lines.next().is_some() {
        return Err(InvalidName::Two);
    }
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    let is_name =
        name.starts_with("nqn.") && name.len() <= NAME_BYTES && name.chars().all(is_plain);
    is_name.then_some(Some(name)).ok_or(InvalidName::Nvme)
}

/// A line of `/proc/net/unix`: its last column is the name (proc_net(5)).
fn is_of_multipathd(line: &str) -> bool {
    line.split_whitespace().next_back() == Some(MULTIPATHD)
}

#[cfg(test)]
mod tests;

//! Who the node is for storage systems: its names as an initiator, in the files of open-iscsi and nvme-cli, so that all programs of the node have one
//! identity. The kernel refuses a second id for one NQN, and arrays give namespaces to NQNs.

use crate::confine::{open_resolved, small_file};
use crate::failure::kernel;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use uuid::{Builder, Uuid};
use wasmount_core::mounter::MountError;

/// Where open-iscsi keeps the name of the initiator (iscsid(8)), below `/etc`.
const INITIATOR_NAME: &str = "iscsi/initiatorname.iscsi";
/// Where nvme-cli keeps the name and the id of the host (nvme-connect(1)), below `/etc`.
const HOST_NQN: &str = "nvme/hostnqn";
const HOST_ID: &str = "nvme/hostid";
/// The id of the machine (machine-id(5)), below `/etc`.
const MACHINE_ID: &str = "machine-id";
/// Largest of these files, in bytes. 64 KiB: some lines of comments and one name.
const FILE_BYTES: u64 = 64 << 10;
/// Longest name, in bytes (RFC 7143, 4.2.7.1; NVM Express Base Specification 2.0, 4.5).
pub(crate) const NAME_BYTES: usize = 223;
/// The formats of an iSCSI name (RFC 7143, 4.2.7.3 to 4.2.7.5).
pub(crate) const ISCSI_FORMATS: [&str; 3] = ["iqn.", "eui.", "naa."];
/// An NQN that is made of a UUID (NVM Express Base Specification 2.0, 4.5).
const UUID_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// The machine's id is confidential, so what is derived of it is hashed with this (machine-id(5)).
const PURPOSE: &str = "nqn of wasmount.io";

/// The node's files.
#[derive(Debug, Clone)]
pub(crate) struct InitiatorFiles {
    etc: PathBuf,
}

/// The node as a host of NVMe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NvmeHost {
    pub(crate) nqn: String,
    pub(crate) id: Uuid,
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
        "its name does not begin with `nqn.`, is longer than {NAME_BYTES} bytes, or has blanks or commas; write one as `nvme gen-hostnqn` does"
    )]
    Nvme,
    #[error("it has no UUID; write one")]
    Id,
}

impl InitiatorFiles {
    /// Those of a node, whose root directory is another one than ours in a container.
    pub(crate) fn of(node_root: Option<&Path>) -> Self {
        Self {
            etc: node_root.unwrap_or(Path::new("/")).join("etc"),
        }
    }

    /// The name for iSCSI. `None`: the node has none.
    pub(crate) fn iqn(&self) -> Result<Option<String>, MountError> {
        self.read(INITIATOR_NAME, initiator_name)
    }

    /// The name for NVMe. A missing one is made from the machine's id, which differs between clones of one image: always the same. `None`: the node has
    /// neither.
    pub(crate) fn nqn(&self) -> Result<Option<String>, MountError> {
        match self.read(HOST_NQN, host_nqn)? {
            Some(nqn) => Ok(Some(nqn)),
            None => Ok(self.of_machine()?.map(|id| format!("{UUID_NQN}{id}"))),
        }
    }

    /// The names for NVMe with which the kernel connects. One that was made is kept from now on, so that others can read it.
    pub(crate) fn nvme_host(&self) -> Result<NvmeHost, MountError> {
        let nqn = self.nqn()?.ok_or_else(|| self.no_machine())?;
        if self.read(HOST_NQN, host_nqn)?.is_none() {
            self.keep(&nqn)?;
        }
        let id = match self.read(HOST_ID, host_id)? {
            Some(id) => id,
            // As nvme-cli does.
            None => match nqn.strip_prefix(UUID_NQN).and_then(|it| it.parse().ok()) {
                Some(id) => id,
                None => self.of_machine()?.ok_or_else(|| self.no_machine())?,
            },
        };
        Ok(NvmeHost { nqn, id })
    }

    /// What a file below `/etc` says, which no link leaves. `None`: there is no file, or nothing in it.
    fn read<T>(
        &self,
        path: &str,
        parse: fn(&str) -> Result<Option<T>, InvalidName>,
    ) -> Result<Option<T>, MountError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let etc = openat(CWD, &self.etc, flags, Mode::empty())
            .map_err(|errno| kernel("open", self.etc.display(), errno))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match open_resolved(&etc, path, flags, resolve) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::XDEV) => {
                let reason = "a link of it leads out of that directory; put the file itself there";
                return Err(self.unusable(path, reason));
            }
            Err(errno) => return Err(kernel("open", self.name(path), errno)),
        };
        let content = small_file(file, FILE_BYTES, || self.name(path))?;
        let text = content.and_then(|content| String::from_utf8(content).ok());
        let text = text.ok_or_else(|| {
            let reason = format!("it is no text of at most {FILE_BYTES} bytes");
            self.unusable(path, reason)
        })?;
        parse(&text).map_err(|invalid| self.unusable(path, invalid))
    }

    /// Writes the NQN whole or not at all, and durably: arrays are told of it.
    fn keep(&self, nqn: &str) -> Result<(), MountError> {
        let path = self.etc.join(HOST_NQN);
        let unfinished = path.with_extension("unfinished");
        let written = fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| {
            fs::write(&unfinished, format!("{nqn}\n"))?;
            fs::File::open(&unfinished)?.sync_all()?;
            fs::rename(&unfinished, &path)
        });
        written.map_err(|error| {
            let reason = format!(
                "the node has no NQN yet, and {nqn} cannot be written there ({error}); install nvme-cli, which makes one, or write this one"
            );
            self.unusable(HOST_NQN, reason)
        })
    }

    /// A UUID that only this machine has: always the same. `None`: it has no id.
    fn of_machine(&self) -> Result<Option<Uuid>, MountError> {
        let id = self.read(MACHINE_ID, |text| Ok(Uuid::parse_str(text.trim()).ok()))?;
        Ok(id.map(|id| {
            let mut hash = Sha256::new();
            hash.update(id.as_bytes());
            hash.update(PURPOSE);
            let hash = hash.finalize();
            let bytes = hash.first_chunk().copied().unwrap_or_default();
            Builder::from_custom_bytes(bytes).into_uuid()
        }))
    }

    fn no_machine(&self) -> MountError {
        self.unusable(
            MACHINE_ID,
            "it has no machine id, of which the node's NQN and id would be made; write both to /etc/nvme/hostnqn and /etc/nvme/hostid, as nvme-cli does",
        )
    }

    fn unusable(&self, path: &str, reason: impl fmt::Display) -> MountError {
        MountError::unusable(self.name(path), reason)
    }

    fn name(&self, path: &str) -> String {
        self.etc.join(path).display().to_string()
    }
}

/// `InitiatorName=…` in a file of open-iscsi.
fn initiator_name(text: &str) -> Result<Option<String>, InvalidName> {
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
    is_name
        .then(|| Some(name.to_owned()))
        .ok_or(InvalidName::Iscsi)
}

/// An NQN that one option of the kernel can contain.
fn host_nqn(text: &str) -> Result<Option<String>, InvalidName> {
    let Some(name) = only_line(text)? else {
        return Ok(None);
    };
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != ',';
    let is_name =
        name.starts_with("nqn.") && name.len() <= NAME_BYTES && name.chars().all(is_plain);
    is_name
        .then(|| Some(name.to_owned()))
        .ok_or(InvalidName::Nvme)
}

fn host_id(text: &str) -> Result<Option<Uuid>, InvalidName> {
    let line = only_line(text)?;
    line.map(|id| id.parse().map_err(|_| InvalidName::Id))
        .transpose()
}

/// The only line of a file of nvme-cli.
fn only_line(text: &str) -> Result<Option<&str>, InvalidName> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next();
    match lines.next() {
        Some(_) => Err(InvalidName::Two),
        None => Ok(line),
    }
}

#[cfg(test)]
mod tests;

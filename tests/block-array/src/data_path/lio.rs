//! iSCSI by the kernel's own target, LIO, through configfs (Linux, Documentation/target/). Each portal is a target portal group of its own, so that each
//! can be switched off. A volume is a loop device over its file, so that it can grow; each host sees only what is attached to it.

use super::{DataPath, ID_DIGITS};
use crate::configfs;
use crate::loops;
use crate::records::{Attachment, Connection, Host, Target};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::files;

/// Where LIO is configured.
const ISCSI: &str = "/sys/kernel/config/target/iscsi";
const CORE: &str = "/sys/kernel/config/target/core";

/// The kernel's modules, for kernels that have them apart.
const MODULES: [&str; 4] = [
    "loop",
    "target_core_mod",
    "target_core_iblock",
    "iscsi_target_mod",
];

/// What all names of targets begin with (RFC 7143 §4.2.7.4).
const NAME: &str = "iqn.2026-01.io.wasmount:array";

/// What the WWIDs of LIO's disks begin with: NAA type 6 and the company id of OpenFabrics (SPC-4 §7.8.6). 25 digits of the serial number follow.
const WWID: &str = "naa.6001405";
const DIGITS: usize = 25;

/// The name of a link to a volume.
const LINK: &str = "volume";

/// The target of one array.
#[derive(Debug)]
pub(crate) struct Lio {
    name: String,
    /// The host bus adapter of all volumes: no other array has this one.
    adapter: PathBuf,
    portals: Vec<SocketAddr>,
    contents: PathBuf,
}

impl Lio {
    /// The target of the array with this id; `contents` holds the files of its volumes.
    pub(crate) fn new(id: &str, portals: Vec<SocketAddr>, contents: PathBuf) -> Self {
        let short: String = id.chars().take(ID_DIGITS).collect();
        // The kernel numbers adapters by 32 bits.
        let number = u32::from_str_radix(id.get(..7).unwrap_or_default(), 16).unwrap_or_default();
        Self {
            name: format!("{NAME}-{short}"),
            adapter: Path::new(CORE).join(format!("iblock_{number}")),
            portals,
            contents,
        }
    }

    fn target(&self) -> PathBuf {
        Path::new(ISCSI).join(&self.name)
    }

    /// The portal group of a portal; the kernel counts from one.
    fn group(&self, index: usize) -> PathBuf {
        self.target().join(format!("tpgt_{}", index + 1))
    }

    fn groups(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.portals.len()).map(|index| self.group(index))
    }
}

impl DataPath for Lio {
    fn start(&self) -> Result<(), Failure> {
        configfs::mount(&MODULES)?;
        // The directory appears when the module of iSCSI is asked for by its name.
        configfs::make(Path::new(ISCSI)).map_err(|failure| {
            Failure::missing(
                format!("the kernel's iSCSI target ({failure})"),
                "load the module iscsi_target_mod, or start with `--protocol none`",
            )
        })?;
        self.stop()?;
        configfs::make(&self.target())?;
        for (index, portal) in self.portals.iter().enumerate() {
            let group = self.group(index);
            configfs::make(&group)?;
            // Only hosts that are known log in; which of them need a password is said for each.
            configfs::write(&group.join("attrib/generate_node_acls"), "0")?;
            configfs::write(&group.join("attrib/authentication"), "0")?;
            configfs::make(&group.join("np").join(portal.to_string()))?;
        }
        Ok(())
    }

    fn initiator<'a>(&self, host: &'a Host) -> Option<&'a str> {
        host.iqn.as_deref()
    }

    fn admit(&self, initiator: &str, host: &Host) -> Result<(), Failure> {
        let chap = host.chap.as_ref();
        for group in self.groups() {
            let host = group.join("acls").join(initiator);
            configfs::make(&host)?;
            let required = host.join("attrib/authentication");
            if let Some(chap) = chap {
                // Linux 6.0 and later.
                if !required.exists() {
                    return Err(Failure::missing(
                        "CHAP for single hosts",
                        "use Linux 6.0 or later, or a host without `chap`",
                    ));
                }
                configfs::write_secret(&host.join("auth/userid"), &chap.user)?;
                configfs::write_secret(&host.join("auth/password"), chap.password.reveal())?;
            }
            if required.exists() {
                let value = if chap.is_some() { "1" } else { "0" };
                configfs::write(&required, value)?;
            }
        }
        Ok(())
    }

    fn dismiss(&self, initiator: &str) -> Result<(), Failure> {
        for group in self.groups() {
            configfs::remove(&group.join("acls").join(initiator))?;
        }
        Ok(())
    }

    fn attach(&self, file: &Path, attachment: &Attachment<'_>) -> Result<(), Failure> {
        let disk = self.adapter.join(attachment.id);
        if !disk.exists() {
            let device = loops::attach(file)?;
            configfs::make(&self.adapter)?;
            configfs::make(&disk)?;
            configfs::write(&disk.join("control"), &format!("udev_path={device}"))?;
            configfs::write(&disk.join("wwn/vpd_unit_serial"), attachment.serial)?;
            configfs::write(&disk.join("enable"), "1")?;
        }
        let name = format!("lun_{}", attachment.lun);
        for group in self.groups() {
            let lun = group.join("lun").join(&name);
            configfs::make(&lun)?;
            configfs::link(&disk, &lun.join(LINK))?;
            let seen = group.join("acls").join(attachment.initiator);
            let seen = seen.join(&name);
            configfs::make(&seen)?;
            configfs::link(&lun, &seen.join(LINK))?;
            let protect = if attachment.readonly { "1" } else { "0" };
            configfs::write(&seen.join("write_protect"), protect)?;
        }
        Ok(())
    }

    fn detach(&self, id: &str, lun: u16, is_last: bool) -> Result<(), Failure> {
        let name = format!("lun_{lun}");
        for group in self.groups() {
            for host in configfs::directories(&group.join("acls"))? {
                configfs::remove(&host.join(&name))?;
            }
            configfs::remove(&group.join("lun").join(&name))?;
        }
        if !is_last {
            return Ok(());
        }
        configfs::remove(&self.adapter.join(id))?;
        loops::detach(&self.contents.join(id))
    }

    fn grow(&self, id: &str) -> Result<(), Failure> {
        loops::grow(&self.contents.join(id))
    }

    fn connection(&self, _id: &str, serial: &str, lun: u16) -> Connection {
        let digits: String = serial.chars().take(DIGITS).collect();
        Connection {
            protocol: Target::Iscsi,
            portals: self.portals.clone(),
            target: self.name.clone(),
            lun,
            wwid: format!("{WWID}{digits}"),
        }
    }

    fn portals(&self) -> usize {
        self.portals.len()
    }

    fn set_portal(&self, index: usize, is_up: bool) -> Result<(), Failure> {
        let enable = self.group(index).join("enable");
        let value = if is_up { "1" } else { "0" };
        // The kernel refuses what is so already.
        let now = files::read(&enable)?;
        match now.trim_ascii() == value.as_bytes() {
            true => Ok(()),
            false => configfs::write(&enable, value),
        }
    }

    /// Also removes what an array with other portals left.
    fn stop(&self) -> Result<(), Failure> {
        for group in configfs::directories(&self.target())? {
            if !group.join("enable").exists() {
                continue;
            }
            // Ends all sessions; it fails if none could begin yet.
            let _ = configfs::write(&group.join("enable"), "0");
            for part in ["acls", "lun", "np"] {
                for entry in configfs::directories(&group.join(part))? {
                    configfs::remove(&entry)?;
                }
            }
            configfs::remove(&group)?;
        }
        configfs::remove(&self.target())?;
        for disk in configfs::directories(&self.adapter)? {
            configfs::remove(&disk)?;
        }
        configfs::remove(&self.adapter)?;
        loops::detach_all(&self.contents)
    }
}

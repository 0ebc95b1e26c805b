//! The steps `iscsi`, `nvme` and `rbd`: checks where a disk is attached from, and that a grant covers every way to it.
//!
//! The attachment of a recorded plan is read again at teardown, without grants and without secrets.

mod rbd;

pub(crate) use rbd::{CephName, RbdImage, wwid};

use super::device::{CheckedDevice, RequestedFacts, checked_wait, invalid};
use super::matches;
use crate::failure::shown;
use crate::initiator::{ISCSI_FORMATS, NAME_BYTES};
use std::net::SocketAddr;
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{AttachGrant, AttachProtocol, DeviceGrant, Grants, Portals};
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::attached::PATHS;
use wasmount_core::plan::{Iscsi, Nvme, Source};

/// Largest number of a logical unit: that of peripheral device addressing (SAM-5, 4.7.7.2). Storage systems write larger ones in different ways, and only
/// a scan for all of them would show which.
const LUN_MAX: u16 = (1 << 8) - 1;

/// How a disk comes to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attachment {
    Iscsi(IscsiDisk),
    Nvme(NvmeNamespace),
    Rbd(RbdImage),
}

/// A disk behind iSCSI targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IscsiDisk {
    /// Never empty, in the order of preference.
    pub(crate) paths: Vec<IscsiPath>,
    /// As sysfs shows it.
    pub(crate) wwid: String,
    /// At least 1, and at most as many as there are paths.
    pub(crate) minimum_paths: usize,
    /// How long to wait for the disk after the login.
    pub(crate) wait: Duration,
}

/// One way to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IscsiPath {
    pub(crate) portal: SocketAddr,
    pub(crate) target: TargetName,
    /// The number of the logical unit. Up to [`LUN_MAX`], storage system and kernel count alike (`scsilun_to_int`, drivers/scsi/scsi_common.c).
    pub(crate) lun: u16,
}

/// The name of an iSCSI target or an NVMe subsystem: no part of a path, and no word of an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TargetName(String);

/// A namespace of an NVMe subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NvmeNamespace {
    /// Never empty.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) subsystem: TargetName,
    /// UUID or NGUID.
    pub(crate) id: Uuid,
    /// At least 1, and at most as many as there are addresses.
    pub(crate) minimum_paths: usize,
    /// How long to wait for the namespace after the connect.
    pub(crate) wait: Duration,
}

/// Checks a step. The device that is attached is then searched by its identity, and covered by what covers the attachment.
pub(super) fn check(source: &Source, grants: &Grants) -> Result<CheckedDevice, MountError> {
    let step = source.step();
    let attachment = Attachment::of(source)?.ok_or_else(|| {
        MountError::unsupported(format!("step `{step}`"), "no disk is attached for it")
    })?;
    let covering = covering(step, &attachment, &grants.attach)?;
    let alternatives = attachment.facts();
    let mut device_grants = Vec::new();
    for grant in covering {
        device_grants.extend(alternatives.iter().map(|facts| DeviceGrant {
            facts: facts.clone(),
            rescan: false,
            mount_options: grant.mount_options.clone(),
        }));
    }
    Ok(CheckedDevice {
        step,
        rescan: false,
        wait: attachment.wait(),
        grants: device_grants,
        alternatives,
    })
}

/// The grants that cover all ways to the disk.
fn covering<'g>(
    step: &str,
    attachment: &Attachment,
    grants: &'g [AttachGrant],
) -> Result<Vec<&'g AttachGrant>, MountError> {
    let protocol = attachment.protocol();
    let ways = attachment.ways();
    let covers = |grant: &&AttachGrant| {
        let has = |(portal, target): &(SocketAddr, &str)| {
            let mut patterns = grant.targets.iter();
            grant.has_portal(*portal) && patterns.any(|pattern| matches(pattern, target))
        };
        grant.protocol == protocol && ways.iter().all(has)
    };
    let covering: Vec<_> = grants.iter().filter(covers).collect();
    if !covering.is_empty() {
        return Ok(covering);
    }
    let quoted = |texts: Vec<String>| {
        let mut texts: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.join(", ")
    };
    let portals = ways.iter().map(|(it, _)| Portals::of(*it).to_string());
    let targets = ways.iter().map(|(_, it)| (*it).to_owned());
    let [portals_key, targets_key] = protocol.keys();
    let reason = format!(
        "no entry of `grants.attach` of the backend document covers all of its paths; add `{{ protocol: {}, {portals_key}: [{}], {targets_key}: [{}] }}`, or an entry with ranges and patterns",
        protocol.name(),
        quoted(portals.collect()),
        quoted(targets.collect()),
    );
    let words = ways
        .iter()
        .flat_map(|(portal, target)| [Portals::of(*portal).to_string(), (*target).to_owned()]);
    let blame = Blame::argument(words.collect::<Vec<_>>().join(" "));
    Err(MountError::not_granted(step, reason, blame))
}

impl Attachment {
    /// The attachment of a source. `None`: nothing is attached for it.
    pub(crate) fn of(source: &Source) -> Result<Option<Self>, MountError> {
        match source {
            Source::Iscsi(iscsi) => IscsiDisk::of(iscsi).map(|disk| Some(Self::Iscsi(disk))),
            Source::Nvme(nvme) => NvmeNamespace::of(nvme).map(|it| Some(Self::Nvme(it))),
            Source::Rbd(rbd) => RbdImage::of(rbd).map(|image| Some(Self::Rbd(image))),
            _ => Ok(None),
        }
    }

    /// Whether both lead to one disk, or to one place at which there is one disk.
    pub(crate) fn shares_disk_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Iscsi(one), Self::Iscsi(other)) => {
                let is_at = |path: &IscsiPath, other: &IscsiPath| {
                    path.target == other.target && path.lun == other.lun
                };
                let mut paths = one.paths.iter();
                one.wwid == other.wwid
                    || paths.any(|path| other.paths.iter().any(|other| is_at(path, other)))
            }
            (Self::Nvme(one), Self::Nvme(other)) => one.id == other.id,
            (Self::Rbd(one), Self::Rbd(other)) => one.is_same_image(other),
            _ => false,
        }
    }

    /// Whether both are namespaces of one subsystem, which have their connections in common.
    pub(crate) fn shares_subsystem_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nvme(one), Self::Nvme(other)) => one.subsystem == other.subsystem,
            _ => false,
        }
    }

    /// The facts by which its device is found: each set by itself.
    fn facts(&self) -> Vec<RequestedFacts> {
        let fact = |fact, value: String| RequestedFacts::from([(fact, value)]);
        match self {
            Self::Iscsi(disk) => vec![fact(DeviceFact::Wwid, disk.wwid.clone())],
            // The kernel shows a UUID in the identifier if there is one (`wwid_show` of drivers/nvme/host/sysfs.c).
            Self::Nvme(namespace) => vec![
                fact(DeviceFact::Wwid, format!("uuid.{}", namespace.id)),
                fact(DeviceFact::Nguid, namespace.id.to_string()),
            ],
            Self::Rbd(image) => vec![fact(DeviceFact::Wwid, image.wwid())],
        }
    }

    fn wait(&self) -> Duration {
        match self {
            Self::Iscsi(disk) => disk.wait,
            Self::Nvme(namespace) => namespace.wait,
            // It is there when the kernel has mapped it.
            Self::Rbd(_) => Duration::ZERO,
        }
    }

    fn protocol(&self) -> AttachProtocol {
        match self {
            Self::Iscsi(_) => AttachProtocol::Iscsi,
            Self::Nvme(_) => AttachProtocol::NvmeTcp,
            Self::Rbd(_) => AttachProtocol::Rbd,
        }
    }

    fn ways(&self) -> Vec<(SocketAddr, &str)> {
        match self {
            Self::Iscsi(disk) => {
                let paths = disk.paths.iter();
                let ways = paths.map(|path| (path.portal, path.target.as_str()));
                ways.collect()
            }
            Self::Nvme(namespace) => {
                let addresses = namespace.addresses.iter();
                let subsystem = namespace.subsystem.as_str();
                addresses.map(|it| (*it, subsystem)).collect()
            }
            Self::Rbd(image) => {
                let monitors = image.monitors.iter();
                monitors.map(|it| (*it, image.place.as_str())).collect()
            }
        }
    }
}

impl IscsiDisk {
    fn of(iscsi: &Iscsi) -> Result<Self, MountError> {
        const STEP: &str = "iscsi";
        let minimum_paths = checked_minimum(STEP, iscsi.minimum_paths, iscsi.paths.len())?;
        let paths = iscsi.paths.iter().map(|path| {
            if path.lun > LUN_MAX {
                let reason = format!(
                    "{} is more than {LUN_MAX}; map the disk at a smaller number",
                    path.lun
                );
                return Err(invalid(STEP, "lun", reason, Blame::Of(Owner::Request)));
            }
            Ok(IscsiPath {
                portal: portal(STEP, &path.portal)?,
                target: TargetName::parse(STEP, &path.target, &ISCSI_FORMATS)?,
                lun: path.lun,
            })
        });
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let wwid = &iscsi.wwid;
        let is_of_page = ["naa.", "eui.", "t10."]
            .iter()
            .any(|it| wwid.starts_with(it));
        let checked = DeviceFact::Wwid.check_value(wwid);
        let checked = checked.and(is_of_page.then_some(()).ok_or(
            "must be an identity of VPD page 83 as the kernel shows it: `naa.`, `eui.` or `t10.`, and what follows",
        ));
        checked.map_err(|fault| {
            let reason = format!("`{}` {fault}", shown(wwid));
            invalid(STEP, "wwid", reason, Blame::argument(wwid))
        })?;
        Ok(Self {
            paths,
            wwid: wwid.clone(),
            minimum_paths,
            wait: checked_wait(STEP, iscsi.wait_ms)?,
        })
    }
}

impl NvmeNamespace {
    fn of(nvme: &Nvme) -> Result<Self, MountError> {
        const STEP: &str = "nvme";
        let minimum_paths = checked_minimum(STEP, nvme.minimum_paths, nvme.addresses.len())?;
        let addresses = nvme.addresses.iter().map(|text| portal(STEP, text));
        let id = &nvme.namespace_id;
        // Others are not in the form that sysfs shows, by which the device is found.
        let parsed = Uuid::try_parse(id).ok().filter(|it| it.to_string() == *id);
        let id = parsed.ok_or_else(|| {
            let reason = format!(
                "`{}` must be a UUID in lower case, or an NGUID in the form of one, such as `00253858-0000-0000-0000-000000000001`",
                shown(id)
            );
            invalid(STEP, "namespace-id", reason, Blame::argument(id))
        })?;
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            subsystem: TargetName::parse(STEP, &nvme.subsystem, &["nqn."])?,
            id,
            minimum_paths,
            wait: checked_wait(STEP, nvme.wait_ms)?,
        })
    }
}

impl IscsiPath {
    /// The way to a target by its logical unit 0, which every target has (SAM-5, 4.7.4). `None`: the name is none of iSCSI.
    pub(crate) fn to_target(portal: SocketAddr, target: &str) -> Option<Self> {
        Some(Self {
            portal,
            target: TargetName::parse("iscsi", target, &ISCSI_FORMATS).ok()?,
            lun: 0,
        })
    }

    /// Whether both are by one session.
    pub(crate) fn shares_session_with(&self, other: &Self) -> bool {
        self.portal == other.portal && self.target == other.target
    }
}

impl TargetName {
    /// The characters of an iSCSI name (RFC 7143, 4.2.7.2), and of the NQNs that vendors use: those of UUIDs and of serial numbers.
    pub(crate) fn parse(step: &str, name: &str, starts: &[&str]) -> Result<Self, MountError> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
        let is_valid = name.len() <= NAME_BYTES
            && name.chars().all(is_of_name)
            && starts.iter().any(|start| name.starts_with(start));
        if is_valid {
            return Ok(Self(name.to_owned()));
        }
        let reason = format!(
            "`{}` is no name of a target: it begins with `{}`, has at most {NAME_BYTES} bytes, and letters, digits, `-`, `.`, `:` and `_` alone",
            shown(name),
            starts.join("`, `"),
        );
        Err(invalid(step, "target", reason, Blame::argument(name)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text of a path for messages.
impl std::fmt::Display for IscsiPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (lun, target) = (self.lun, self.target.as_str());
        write!(f, "LUN {lun} of target {target} at {}", self.portal)
    }
}

fn portal(step: &str, text: &str) -> Result<SocketAddr, MountError> {
    let parsed = text.parse::<SocketAddr>().ok();
    parsed.filter(|portal| portal.port() != 0).ok_or_else(|| {
        let reason = format!(
            "`{}` is no address with a port, such as `10.1.1.5:3260` or `[fd00::5]:3260`",
            shown(text)
        );
        invalid(step, "address", reason, Blame::argument(text))
    })
}

fn checked_minimum(step: &str, minimum: u32, paths: usize) -> Result<usize, MountError> {
    if paths == 0 || paths > PATHS {
        let reason = format!("there are {paths}, and 1 to {PATHS} are possible");
        let blame = match paths {
            0 => Blame::Of(Owner::Plugin),
            _ => Blame::Size(PATHS),
        };
        return Err(invalid(step, "paths", reason, blame));
    }
    let minimum = usize::try_from(minimum).ok();
    minimum
        .filter(|minimum| (1..=paths).contains(minimum))
        .ok_or_else(|| {
            let reason = format!("it must be 1 to {paths}, the number of paths");
            let blame = Blame::Of(Owner::Request);
            invalid(step, "minimum-paths", reason, blame)
        })
}

#[cfg(test)]
mod tests;

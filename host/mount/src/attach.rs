//! Disks of storage systems that come to the node only when the mounter connects to the system, one file for each protocol.
//!
//! A protocol has these functions: `attach` makes the device appear and compares its identity, `detach` removes it and ends connections that have no
//! other device, `rescan` has the kernel read its size again, `end_unrecorded` removes devices and connections that no record of a volume names; and `bounded`, if the
//! kernel does not bound how long requests wait. Each can be repeated. The first three are given an [`Attachment`] without secrets, so teardown and recovery
//! work from the journal alone. Only connections that the mounter made are ever changed.

mod iscsi;
mod nvme;
mod rbd;

use crate::block::{DeviceNumber, node_device};
use crate::exclusive::{Claim, Claims};
use crate::journal::Entry;
use crate::mountinfo;
use crate::node::{Node, describe_volume};
use crate::plan::attach::Attachment;
use crate::tools::ToolCall;
use rustix::fs::fsync;
use std::ffi::OsString;
use std::fmt::Display;
use std::time::{Duration, Instant};
use wasmount_core::document::Grants;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::secrets::SecretOptions;

/// Targets whose connections are being changed, each with its driver.
static CHANGING: Claims<String> = Claims::new();
/// How long a call waits for another one that changes the connections of a target: the other one ends in less than this time.
const TURN_TIME: Duration = Duration::from_secs(60);
/// Pause between two looks at something that another call or the kernel changes.
const PAUSE: Duration = Duration::from_millis(50);

/// Whose disk it is.
pub(crate) struct Owner<'a> {
    node: &'a Node,
    /// Connections by iSCSI and mapped images of Ceph belong to a driver, and are not shared with others. Connections by NVMe are.
    driver: &'a DriverName,
}

impl Owner<'_> {
    /// Makes the device appear. Afterwards it has the identity of the attachment, and all paths that are needed.
    pub(crate) fn attach(
        &self,
        attachment: &Attachment,
        secrets: &SecretOptions,
    ) -> Result<(), MountError> {
        match attachment {
            Attachment::Iscsi(disk) => iscsi::attach(self, disk, secrets),
            Attachment::Nvme(namespace) => nvme::attach(self, namespace, secrets),
            Attachment::Rbd(image) => rbd::attach(self, image, secrets),
        }
    }

    /// Removes the device, which has no user any more, and the connections that have no other device. What is gone already is a success.
    /// `is_last`: no other volume is on the same subsystem.
    fn detach(
        &self,
        attachment: &Attachment,
        is_last: impl Fn() -> bool,
    ) -> Result<(), MountError> {
        match attachment {
            Attachment::Iscsi(disk) => iscsi::detach(self, disk),
            Attachment::Nvme(namespace) => nvme::detach(self, namespace, is_last),
            Attachment::Rbd(image) => rbd::detach(self, image),
        }
    }

    /// Does work that may wait for the device, such as an unmount. What waits for a device without a path fails after a while.
    fn bounded<T>(&self, attachment: &Attachment, work: impl FnOnce() -> T) -> T {
        match attachment {
            Attachment::Iscsi(disk) => iscsi::bounded(self, disk, work),
            // The kernel bounds it.
            Attachment::Nvme(_) | Attachment::Rbd(_) => work(),
        }
    }

    /// Has the kernel read the size of the device again.
    pub(crate) fn rescan(&self, attachment: &Attachment) -> Result<(), MountError> {
        match attachment {
            Attachment::Iscsi(disk) => iscsi::rescan(self, disk),
            Attachment::Nvme(namespace) => nvme::rescan(namespace),
            Attachment::Rbd(image) => rbd::rescan(self, image),
        }
    }

    /// Whether this driver's mounter attached a device, or may have by its grants, as the kernel shows it.
    pub(crate) fn has_attached(&self, grants: &Grants, number: DeviceNumber) -> bool {
        iscsi::has_attached(self, number)
            || nvme::is_granted(&grants.attach, number)
            || rbd::has_attached(self, number)
    }

    /// A run of a program of the node: in its root directory, since the program must be of one version with its daemon.
    fn node_program(
        &self,
        program: &'static str,
        arguments: &[&str],
        object: String,
        deadline: Duration,
    ) -> ToolCall {
        ToolCall {
            program,
            root: self.node.node_root.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            object,
            deadline,
        }
    }

    /// The right to change the connections of a target: one call at a time decides whether a connection is needed.
    fn turn(&self, target: &str) -> Result<Claim<'static, String>, MountError> {
        turn(format!("{} {target}", self.driver), target)
    }
}

/// The same for connections that drivers share.
fn turn(key: String, target: &str) -> Result<Claim<'static, String>, MountError> {
    let end = Instant::now() + TURN_TIME;
    loop {
        if let Some(claim) = CHANGING.claim(key.clone()) {
            return Ok(claim);
        }
        if Instant::now() >= end {
            let what = format!("a login to {target} or a logout of another volume");
            return Err(MountError::under_way(what));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Refuses a device that no record names, and that a mount shows: the node of a raw block volume, which its pod need not have open at the moment.
fn refuse_shown(number: DeviceNumber) -> Result<(), MountError> {
    let table = mountinfo::read()?;
    let mut lines = table.iter();
    match lines.find(|line| line.shown_device() == Some(number)) {
        None => Ok(()),
        Some(line) => Err(MountError::in_use(
            format!("device {number}"),
            format!("the mount at {}", line.mount_point.display()),
        )),
    }
}

/// Checks that a device has no user, and writes out what was written to it.
fn flush_unused(number: DeviceNumber, disk: &dyn Display) -> Result<(), MountError> {
    if let Some(claim) = node_device::claim_unused(number)?
        && let Err(errno) = fsync(&claim)
    {
        tracing::warn!(%disk, %errno, "a disk that is removed cannot be flushed");
    }
    Ok(())
}

impl Node {
    /// The owner of what is attached for the volumes of a driver.
    pub(crate) fn owner<'k>(&'k self, driver: &'k DriverName) -> Owner<'k> {
        Owner { node: self, driver }
    }

    /// Attaches the disk of a volume, unless another volume has it.
    #[tracing::instrument(level = "debug", skip_all, name = "attach disk")]
    pub(crate) fn attach(
        &self,
        key: &VolumeKey,
        attachment: &Attachment,
        secrets: &SecretOptions,
    ) -> Result<(), MountError> {
        // A raw block volume makes no exclusive claim on its disk, so only the journal knows its user.
        let has_it = |other: &Attachment| attachment.shares_disk_with(other);
        let others = self.users(has_it, |user, _| user != key);
        for other in &others {
            self.read_identity(other);
        }
        match others.first() {
            Some(other) => Err(MountError::in_use(
                format!("the disk of {}", describe_volume(key)),
                format!("{}; unstage that one first", describe_volume(&other.key)),
            )),
            None => self.owner(&key.driver).attach(attachment, secrets),
        }
    }

    /// Has the kernel read again which disk a volume has, whose place the storage system may have given to another one. If so, its requests fail from now
    /// on. Namespaces of NVMe the kernel checks itself when the storage system announces a change.
    fn read_identity(&self, user: &Entry) {
        let attachments = user
            .paths()
            .filter_map(|at| Attachment::of(&at.plan.source).ok()?);
        for attachment in attachments {
            if matches!(attachment, Attachment::Iscsi(_))
                && let Err(error) = self.owner(&user.key.driver).rescan(&attachment)
            {
                tracing::warn!(volume = describe_volume(&user.key), %error, "the disk of a volume cannot be used any more");
            }
        }
    }

    /// Does work of a teardown that may wait for the disk of a volume. `plan` is that of a path of the volume, if it has one.
    pub(crate) fn bounded<T>(
        &self,
        key: &VolumeKey,
        plan: Option<&Plan>,
        work: impl FnOnce() -> T,
    ) -> T {
        let attachment = plan.and_then(|plan| Attachment::of(&plan.source).ok().flatten());
        match attachment {
            Some(attachment) => self.owner(&key.driver).bounded(&attachment, work),
            None => work(),
        }
    }

    /// Detaches the disk of a path of a volume that is torn down, unless another path or another volume has it. `plan` is that of the path.
    pub(crate) fn detach(
        &self,
        key: &VolumeKey,
        plan: &Plan,
        path: &str,
    ) -> Result<(), MountError> {
        let Some(attachment) = Attachment::of(&plan.source)? else {
            return Ok(());
        };
        let is_alone = |shares: fn(&Attachment, &Attachment) -> bool| {
            let has_it = |other: &Attachment| shares(&attachment, other);
            let others = self.users(has_it, |user, at| user != key || at != path);
            others.is_empty()
        };
        match is_alone(Attachment::shares_disk_with) {
            true => self
                .owner(&key.driver)
                .detach(&attachment, || is_alone(Attachment::shares_subsystem_with)),
            false => Ok(()),
        }
    }

    /// Removes disks and connections that the mounter made for a driver and that no record names, unless something on them is in use. Connections by NVMe
    /// are of all drivers.
    pub(crate) fn end_unrecorded_connections(&self, driver: &DriverName) {
        let owner = self.owner(driver);
        iscsi::end_unrecorded(&owner, || {
            let entries = self.journal.entries(|entry| entry.key.driver == *driver);
            let paths = entries.iter().flat_map(Entry::paths);
            let disks = paths.filter_map(|at| match Attachment::of(&at.plan.source) {
                Ok(Some(Attachment::Iscsi(disk))) => Some(disk),
                _ => None,
            });
            disks.collect()
        });
        rbd::end_unrecorded(&owner, |mapped| {
            let has_it = |other: &Attachment| match other {
                Attachment::Rbd(image) => rbd::is_of(mapped, image),
                Attachment::Iscsi(_) | Attachment::Nvme(_) => false,
            };
            let users = self.users(has_it, |user, _| user.driver == *driver);
            !users.is_empty()
        });
        self.end_unrecorded_nvme();
    }

    /// The same for those by NVMe.
    pub(crate) fn end_unrecorded_nvme(&self) {
        nvme::end_unrecorded(&self.connections, |nqn| {
            let has_it = |other: &Attachment| match other {
                Attachment::Nvme(namespace) => namespace.subsystem.as_str() == nqn,
                Attachment::Iscsi(_) | Attachment::Rbd(_) => false,
            };
            !self.users(has_it, |_, _| true).is_empty()
        });
    }

    /// Records of volumes with a path that has such an attachment, and counts.
    fn users(
        &self,
        has_it: impl Fn(&Attachment) -> bool,
        counts: impl Fn(&VolumeKey, &str) -> bool,
    ) -> Vec<Entry> {
        let has_it = |source: &Source| {
            let other = Attachment::of(source).ok().flatten();
            other.is_some_and(|other| has_it(&other))
        };
        self.journal.entries(|entry| {
            let mut paths = entry.paths();
            paths.any(|at| counts(&entry.key, at.path) && has_it(&at.plan.source))
        })
    }
}

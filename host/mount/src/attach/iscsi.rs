//! iSCSI by the node's open-iscsi: sessions that this driver's mounter makes, and the disks behind them.
//!
//! A session does not scan by itself (`node.session.scan = manual`), so that the node sees only the disks of its own volumes. What exists is read from
//! sysfs, not from names of udev, which may be late or of an earlier disk. `iscsid` keeps the sessions; they outlive the mounter.

mod scsi;
mod tool;

use super::{Owner, PAUSE};
use crate::block::{DeviceNumber, node_device};
use crate::plan::attach::{IscsiDisk, IscsiPath};
use rustix::fs::fsync;
use scsi::{Disk, Interface, Scsi, Session};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_core::secrets::SecretOptions;

/// After this time no further path is tried. 40 s: two portals that do not answer, and a call's default budget is 60 s.
const PATHS_TIME: Duration = Duration::from_secs(40);
/// Interval between two scans for a disk that the storage system has not mapped yet.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Attaches the disk by the first path that leads to it. A path that has it already is the first.
pub(super) fn attach(
    owner: &Owner<'_>,
    disk: &IscsiDisk,
    secrets: &SecretOptions,
) -> Result<(), MountError> {
    let scsi = Scsi::default();
    let interface = Interface::of(owner.driver);
    let credentials = tool::Credentials::parse(secrets)?;
    let end = Instant::now() + PATHS_TIME;
    let is_missing = |path: &&IscsiPath| {
        let session = scsi.session(&interface, path);
        !session.is_some_and(|session| scsi.has(&session.disk(path.lun)))
    };
    let mut paths: Vec<&IscsiPath> = disk.paths.iter().collect();
    paths.sort_by_key(is_missing);
    let mut failures = Vec::new();
    for path in paths {
        if !failures.is_empty() && Instant::now() >= end {
            break;
        }
        let _turn = owner.turn(path.target.as_str())?;
        let was_missing = is_missing(&path);
        let attached = attach_path(owner, &scsi, disk, path, &credentials);
        let Err(failure) = attached else {
            return Ok(());
        };
        // A disk that was there may have users, be it by a session that is not connected at the moment.
        if was_missing && let Err(left) = detach_path(owner, &scsi, path) {
            tracing::warn!(%path, %left, "a path that failed is not removed; it is when the volume is unstaged");
        }
        failures.push(failure);
    }
    match (failures.pop(), failures.is_empty()) {
        (Some(last), false) => {
            failures.push(last);
            let each: Vec<_> = failures.iter().map(ToString::to_string).collect();
            let (tried, all) = (each.len(), disk.paths.len());
            Err(MountError::unusable(
                format!("disk {}", disk.wwid),
                format!("{tried} of its {all} paths were tried: {}", each.join("; ")),
            ))
        }
        (Some(only), true) => Err(only),
        (None, _) => Ok(()),
    }
}

/// Removes the disk from all sessions of the driver.
pub(super) fn detach(owner: &Owner<'_>, disk: &IscsiDisk) -> Result<(), MountError> {
    let scsi = Scsi::default();
    for path in &disk.paths {
        let _turn = owner.turn(path.target.as_str())?;
        detach_path(owner, &scsi, path)?;
    }
    Ok(())
}

/// Has the kernel read size and identity of the disk again.
pub(super) fn rescan(owner: &Owner<'_>, disk: &IscsiDisk) -> Result<(), MountError> {
    let scsi = Scsi::default();
    let interface = Interface::of(owner.driver);
    for path in &disk.paths {
        let Some(session) = scsi.session(&interface, path) else {
            continue;
        };
        let found = session.disk(path.lun);
        if scsi.has(&found) {
            ensure_connected(&session, path)?;
            scsi.rescan(&found)?;
        }
    }
    Ok(())
}

/// Whether a device is behind a session of the driver.
pub(super) fn has_attached(owner: &Owner<'_>, number: DeviceNumber) -> bool {
    Scsi::default().has_attached(&Interface::of(owner.driver), number)
}

fn attach_path(
    owner: &Owner<'_>,
    scsi: &Scsi,
    wanted: &IscsiDisk,
    path: &IscsiPath,
    credentials: &tool::Credentials,
) -> Result<(), MountError> {
    let interface = Interface::of(owner.driver);
    let session = match scsi.session(&interface, path) {
        Some(session) => session,
        None => {
            tool::login(owner, &interface, path, credentials)?;
            let session = scsi.session(&interface, path);
            session.ok_or_else(|| lost(path, "the session ended right after its login"))?
        }
    };
    ensure_connected(&session, path)?;
    let disk = session.disk(path.lun);
    if scsi.has(&disk) {
        // The storage system may have given its number to another disk since: only now the kernel reads the identity again.
        scsi.rescan(&disk)?;
        if scsi.wwid(&disk).as_deref() == Some(&wanted.wwid) {
            return Ok(());
        }
        tracing::info!(%path, "a disk that the storage system replaced is removed");
        remove(scsi, &disk)?;
    }
    find(scsi, wanted, path, &disk)
}

/// Scans for the disk alone, until it is there with its identity.
fn find(scsi: &Scsi, wanted: &IscsiDisk, path: &IscsiPath, disk: &Disk) -> Result<(), MountError> {
    let end = Instant::now() + wanted.wait;
    loop {
        scsi.scan(disk)?;
        let next = (Instant::now() + SCAN_INTERVAL).min(end);
        loop {
            match scsi.wwid(disk) {
                Some(wwid) if wwid != wanted.wwid => {
                    remove(scsi, disk)?;
                    return Err(MountError::unusable(
                        path.to_string(),
                        format!(
                            "it is disk {}, and the volume is disk {}; nothing was read or written; look which disk the storage system maps there",
                            crate::failure::shown(&wwid),
                            wanted.wwid
                        ),
                    ));
                }
                Some(_) if scsi.number(disk).is_some() => return Ok(()),
                _ => {}
            }
            if Instant::now() >= next {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        if Instant::now() >= end {
            let waited = wanted.wait.as_millis();
            return Err(MountError::not_found(format!(
                "{path} (waited {waited} ms; it is mapped to another initiator, or not yet)"
            )));
        }
    }
}

fn detach_path(owner: &Owner<'_>, scsi: &Scsi, path: &IscsiPath) -> Result<(), MountError> {
    let interface = Interface::of(owner.driver);
    let Some(session) = scsi.session(&interface, path) else {
        return Ok(());
    };
    let disk = session.disk(path.lun);
    let is_last = scsi.disks(&session).iter().all(|it| *it == disk);
    if scsi.has(&disk) {
        match session.is_connected() || !is_last {
            true => remove(scsi, &disk)?,
            // Nothing can be written any more. The end of the session removes the disk at once, and not after the kernel has given up.
            false => drop(unused(scsi, &disk)?),
        }
    }
    if is_last {
        tool::logout(owner, &interface, &session, path)?;
    }
    Ok(())
}

/// Removes a disk that nobody uses. What was written to it is written out before.
fn remove(scsi: &Scsi, disk: &Disk) -> Result<(), MountError> {
    let claim = unused(scsi, disk)?;
    if let Some(claim) = &claim
        && let Err(errno) = fsync(claim)
    {
        tracing::warn!(%disk, %errno, "a disk that is removed cannot be flushed");
    }
    drop(claim);
    scsi.delete(disk)
}

/// Checks that the disk has no user.
fn unused(scsi: &Scsi, disk: &Disk) -> Result<Option<std::os::fd::OwnedFd>, MountError> {
    match scsi.number(disk) {
        Some(number) => node_device::claim_unused(number),
        None => Ok(None),
    }
}

fn ensure_connected(session: &Session, path: &IscsiPath) -> Result<(), MountError> {
    match session.is_connected() {
        true => Ok(()),
        false => Err(lost(
            path,
            "its session is not connected at the moment, and iscsid tries to reconnect",
        )),
    }
}

fn lost(path: &IscsiPath, state: &str) -> MountError {
    let what = format!("target {} at {}", path.target.as_str(), path.portal);
    MountError::hung(
        what,
        format!("{state}; look at the network and at the target"),
    )
}

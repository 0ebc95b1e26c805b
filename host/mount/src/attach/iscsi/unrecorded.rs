//! Sessions and disks of a driver that no record names: the run directory was lost, or a login or a scan ended after its mounter was killed.

use super::scsi::{Disk, Interface, Scsi, Session};
use super::{leave_map, remove, tool};
use crate::attach::{Owner, refuse_shown};
use crate::block::node_device;
use crate::plan::attach::{IscsiDisk, IscsiPath};
use wasmount_core::mounter::MountError;

/// Ends the sessions, if their disks have no user, and removes such disks from the other ones. What cannot be removed keeps nothing else.
/// `recorded`: the disks of the driver that records name at the moment.
pub(in crate::attach) fn end_unrecorded(owner: &Owner<'_>, recorded: impl Fn() -> Vec<IscsiDisk>) {
    let scsi = Scsi::default();
    for path in scsi.paths(&Interface::of(owner.driver)) {
        if let Err(error) = clean(owner, &scsi, &path, &recorded) {
            let (target, portal) = (path.target.as_str(), path.portal);
            tracing::warn!(target, %portal, %error, "a session without a record stays; it is used when a volume of it is staged, and otherwise ended at a later start");
        }
    }
}

/// Ends a session, or removes the disks on it that no record names by now. The caller of a stage writes its record before it waits for its turn.
fn clean(
    owner: &Owner<'_>,
    scsi: &Scsi,
    path: &IscsiPath,
    recorded: impl Fn() -> Vec<IscsiDisk>,
) -> Result<(), MountError> {
    let _turn = owner.turn(path.target.as_str())?;
    let interface = Interface::of(owner.driver);
    let Some(session) = scsi.session(&interface, path) else {
        return Ok(());
    };
    let disks = scsi.disks(&session);
    let recorded = recorded();
    let mut paths = recorded.iter().flat_map(|it| &it.paths);
    if !paths.any(|it| it.shares_session_with(path)) {
        return end(owner, scsi, &session, path, &disks);
    }
    // A target that is away would be waited for.
    if session.is_connected() {
        let is_named = |disk: &&Disk| is_named(scsi, &recorded, &session, path, disk);
        for disk in disks.iter().filter(|disk| !is_named(disk)) {
            match refuse_used(scsi, disk).and_then(|()| remove(owner, scsi, disk)) {
                Ok(()) => tracing::info!(%disk, "a disk without a record is removed"),
                Err(error) => {
                    tracing::warn!(%disk, %error, "a disk without a record stays; it is used when its volume is staged, and otherwise removed at a later start");
                }
            }
        }
    }
    Ok(())
}

/// Whether a record has a disk: by its number on this session, or by the identity that the kernel read.
fn is_named(
    scsi: &Scsi,
    recorded: &[IscsiDisk],
    session: &Session,
    path: &IscsiPath,
    disk: &Disk,
) -> bool {
    let wwid = scsi.wwid(disk);
    recorded.iter().any(|named| {
        let mut paths = named.paths.iter();
        paths.any(|it| it.shares_session_with(path) && session.disk(it.lun) == *disk)
            || wwid.as_ref() == Some(&named.wwid)
    })
}

fn end(
    owner: &Owner<'_>,
    scsi: &Scsi,
    session: &Session,
    path: &IscsiPath,
    disks: &[Disk],
) -> Result<(), MountError> {
    for disk in disks {
        refuse_used(scsi, disk)?;
        // A multipath map that nobody uses claims the disk, too.
        leave_map(owner, scsi, disk)?;
        if let Some(number) = scsi.number(disk) {
            node_device::claim_unused(number)?;
        }
    }
    // Without a connection, the end of the session removes them at once.
    if session.is_connected() {
        disks
            .iter()
            .try_for_each(|disk| remove(owner, scsi, disk))?;
    }
    tool::logout(owner, &Interface::of(owner.driver), session, path)?;
    tracing::info!(
        target = path.target.as_str(),
        portal = %path.portal,
        "a session without a record is ended"
    );
    Ok(())
}

/// Refuses a disk that a pod's raw volume shows: its node is that of the disk, or of the map of its paths.
fn refuse_used(scsi: &Scsi, disk: &Disk) -> Result<(), MountError> {
    let map = scsi.block(disk).and_then(|block| scsi.map_on(&block));
    let numbers = [scsi.number(disk), map.and_then(|map| map.number())];
    numbers.into_iter().flatten().try_for_each(refuse_shown)
}

//! Sessions of a driver that no record names: the run directory was lost, or a login ended after its mounter was killed.

use super::scsi::{Interface, Scsi};
use super::{leave_map, remove, tool};
use crate::attach::{Owner, refuse_shown};
use crate::block::node_device;
use crate::plan::attach::IscsiPath;
use wasmount_core::mounter::MountError;

/// Ends them, if their disks have no user. One that cannot be ended keeps no other.
pub(in crate::attach) fn end_unrecorded(
    owner: &Owner<'_>,
    is_recorded: impl Fn(&IscsiPath) -> bool,
) {
    let scsi = Scsi::default();
    for path in scsi.paths(&Interface::of(owner.driver)) {
        let (target, portal) = (path.target.as_str(), path.portal);
        match end(owner, &scsi, &path, &is_recorded) {
            Ok(false) => {}
            Ok(true) => tracing::info!(target, %portal, "a session without a record is ended"),
            Err(error) => {
                tracing::warn!(target, %portal, %error, "a session without a record stays; it is used when a volume of it is staged, and otherwise ended at a later start");
            }
        }
    }
}

/// Ends a session, unless a record names it by now. The caller of a stage writes its record before it waits for its turn.
fn end(
    owner: &Owner<'_>,
    scsi: &Scsi,
    path: &IscsiPath,
    is_recorded: impl Fn(&IscsiPath) -> bool,
) -> Result<bool, MountError> {
    let _turn = owner.turn(path.target.as_str())?;
    let interface = Interface::of(owner.driver);
    let Some(session) = scsi.session(&interface, path) else {
        return Ok(false);
    };
    if is_recorded(path) {
        return Ok(false);
    }
    let disks = scsi.disks(&session);
    for disk in &disks {
        // The node of a raw block volume is that of the disk, or of the map of its paths.
        let map = scsi.block(disk).and_then(|block| scsi.map_on(&block));
        let numbers = [scsi.number(disk), map.and_then(|map| map.number())];
        numbers.into_iter().flatten().try_for_each(refuse_shown)?;
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
    tool::logout(owner, &interface, &session, path)?;
    Ok(true)
}

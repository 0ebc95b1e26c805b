//! Sessions and disks of a driver that no record names: the run directory was lost, or a login or a scan ended after its mounter was killed.

use super::scsi::{Disk, Session};
use super::{Sessions, tool};
use crate::attach::{Owner, refuse_shown};
use crate::plan::attach::{IscsiDisk, IscsiPath};
use wasmount_core::mounter::MountError;

impl Sessions<'_> {
    /// Ends a session, or removes the disks on it that no record names by now. The caller of a stage writes its record before it waits for its turn.
    fn clean(
        &self,
        path: &IscsiPath,
        recorded: impl Fn() -> Vec<IscsiDisk>,
    ) -> Result<(), MountError> {
        let _turn = self.owner.turn(path.target.as_str())?;
        let Some(session) = self.scsi.session(path) else {
            return Ok(());
        };
        let disks = self.scsi.disks(&session);
        let recorded = recorded();
        let mut paths = recorded.iter().flat_map(|it| &it.paths);
        if !paths.any(|it| it.shares_session_with(path)) {
            return self.end(&session, path, &disks);
        }
        // A target that is away would be waited for.
        if session.is_connected() {
            let is_named = |disk: &&Disk| self.is_named(&recorded, &session, path, disk);
            for disk in disks.iter().filter(|disk| !is_named(disk)) {
                match self.refuse_used(disk).and_then(|()| self.remove(disk)) {
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
        &self,
        recorded: &[IscsiDisk],
        session: &Session,
        path: &IscsiPath,
        disk: &Disk,
    ) -> bool {
        let wwid = self.scsi.wwid(disk);
        recorded.iter().any(|named| {
            let mut paths = named.paths.iter();
            paths.any(|it| it.shares_session_with(path) && session.disk(it.lun) == *disk)
                || wwid.as_ref() == Some(&named.wwid)
        })
    }

    fn end(&self, session: &Session, path: &IscsiPath, disks: &[Disk]) -> Result<(), MountError> {
        for disk in disks {
            self.refuse_used(disk)?;
            // A multipath map that nobody uses claims the disk, too.
            self.ensure_unused(disk)?;
        }
        // Without a connection, the end of the session removes them at once.
        if session.is_connected() {
            disks.iter().try_for_each(|disk| self.remove(disk))?;
        }
        tool::logout(self.owner, &self.scsi.interface, session, path)?;
        tracing::info!(
            target = path.target.as_str(),
            portal = %path.portal,
            "a session without a record is ended"
        );
        Ok(())
    }

    /// Refuses a disk that a pod's raw volume shows: its node is that of the disk, or of the map of its paths.
    fn refuse_used(&self, disk: &Disk) -> Result<(), MountError> {
        let map = self.scsi.map_over(disk);
        let numbers = [self.scsi.number(disk), map.and_then(|map| map.number())];
        numbers.into_iter().flatten().try_for_each(refuse_shown)
    }
}

/// Ends the sessions, if their disks have no user, and removes such disks from the other ones. What cannot be removed keeps nothing else.
/// `recorded`: the disks of the driver that records name at the moment.
pub(in crate::attach) fn end_unrecorded(owner: &Owner<'_>, recorded: impl Fn() -> Vec<IscsiDisk>) {
    let sessions = Sessions::of(owner);
    for path in sessions.scsi.paths() {
        if let Err(error) = sessions.clean(&path, &recorded) {
            let (target, portal) = (path.target.as_str(), path.portal);
            tracing::warn!(target, %portal, %error, "a session without a record stays; it is used when a volume of it is staged, and otherwise ended at a later start");
        }
    }
}

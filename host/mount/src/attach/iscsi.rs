//! iSCSI by the node's open-iscsi: sessions that this driver's mounter makes, and the disks behind them.
//!
//! A session does not scan by itself (`node.session.scan = manual`), so that the node sees only the disks of its own volumes. What exists is read from
//! sysfs, not from names of udev, which may be late or of an earlier disk. `iscsid` keeps the sessions; they outlive the mounter. Several paths to a disk
//! are joined by the node's `multipathd`, if it runs.

mod multipathd;
mod scsi;
mod tool;
mod unrecorded;

pub(super) use unrecorded::end_unrecorded;

use super::{Owner, PAUSE, flush_unused};
use crate::block::{DeviceNumber, node_device};
use crate::failure::shown;
use crate::node_facts::FactSources;
use crate::plan::attach::{IscsiDisk, IscsiPath};
use multipathd::Multipathd;
use scsi::{Disk, Scsi, Session};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_core::secrets::SecretOptions;

/// After this time no further path is tried. 40 s: two portals that do not answer, and a call's default budget is 60 s.
const PATHS_TIME: Duration = Duration::from_secs(40);
/// Interval between two scans for a disk that the storage system has not mapped yet.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// The sessions of a driver, and the disks behind them.
struct Sessions<'a> {
    owner: &'a Owner<'a>,
    scsi: Scsi,
}

/// One attach.
struct Attach<'a> {
    sessions: Sessions<'a>,
    disk: &'a IscsiDisk,
    credentials: tool::Credentials,
}

/// Attaches the disk: by all paths, if it has several and the node joins them, else by the first one that leads to it.
pub(super) fn attach(
    owner: &Owner<'_>,
    disk: &IscsiDisk,
    secrets: &SecretOptions,
) -> Result<(), MountError> {
    let attach = Attach {
        sessions: Sessions::of(owner),
        disk,
        credentials: tool::Credentials::parse(secrets)?,
    };
    let has_several = disk.paths.len() > 1;
    if has_several && FactSources::of(owner.node.node_root.as_deref()).joins_paths()? {
        return attach.by_all_paths();
    }
    match disk.minimum_paths {
        1 => attach.by_first_path(),
        minimum => Err(MountError::unusable(
            format!("disk {}", disk.wwid),
            format!(
                "at least {minimum} paths at a time are wanted, and this node does not join paths; start multipathd on it (`systemctl enable --now multipathd`), or ask for 1"
            ),
        )),
    }
}

/// Removes the disk from all sessions of the driver, and its map before.
pub(super) fn detach(owner: &Owner<'_>, disk: &IscsiDisk) -> Result<(), MountError> {
    let sessions = Sessions::of(owner);
    let scsi = &sessions.scsi;
    let own = disk.paths.iter().filter_map(|path| {
        let session = scsi.session(path)?;
        scsi.block(&session.disk(path.lun))
    });
    let own: Vec<_> = own.collect();
    // One with paths of others stays theirs, and is left path by path.
    if let Some(map) = scsi.map(&disk.wwid)
        && map.paths().iter().all(|path| own.contains(path))
    {
        Multipathd::new(&sessions, &disk.wwid).remove(&map)?;
    }
    for path in &disk.paths {
        let _turn = owner.turn(path.target.as_str())?;
        sessions.detach_path(path)?;
    }
    Ok(())
}

/// Does work that may wait for the disk.
pub(super) fn bounded<T>(owner: &Owner<'_>, disk: &IscsiDisk, work: impl FnOnce() -> T) -> T {
    let sessions = Sessions::of(owner);
    match sessions.scsi.map(&disk.wwid) {
        Some(map) => Multipathd::new(&sessions, &disk.wwid).bounded(&map, work),
        // The end of the session bounds it.
        None => work(),
    }
}

/// Has the kernel read size and identity of the disk again, by each path, and gives its map the new size.
pub(super) fn rescan(owner: &Owner<'_>, disk: &IscsiDisk) -> Result<(), MountError> {
    let sessions = Sessions::of(owner);
    let scsi = &sessions.scsi;
    for path in &disk.paths {
        let Some(session) = scsi.session(path) else {
            continue;
        };
        let found = session.disk(path.lun);
        if !scsi.has(&found) {
            continue;
        }
        ensure_connected(&session, path)?;
        scsi.rescan(&found)?;
        let Some(wwid) = scsi.wwid(&found).filter(|wwid| *wwid != disk.wwid) else {
            continue;
        };
        let error = replaced(path, &wwid, disk);
        match scsi.map_over(&found) {
            Some(map) if map.paths().len() > 1 => {
                tracing::warn!(%error, "a path to a disk is removed");
                sessions.remove(&found)?;
            }
            _ => {
                stop_requests(scsi, &found)?;
                return Err(error);
            }
        }
    }
    match scsi.map(&disk.wwid) {
        Some(map) => Multipathd::new(&sessions, &disk.wwid).resize(&map),
        None => Ok(()),
    }
}

/// Whether a device is behind a session of the driver.
pub(super) fn has_attached(owner: &Owner<'_>, number: DeviceNumber) -> bool {
    Scsi::of(owner.driver).has_attached(number)
}

impl Attach<'_> {
    /// A path that has the disk already is the first.
    fn by_first_path(&self) -> Result<(), MountError> {
        let mut paths: Vec<&IscsiPath> = self.disk.paths.iter().collect();
        paths.sort_by_key(|path| self.is_missing(path));
        let end = Instant::now() + PATHS_TIME;
        let mut failures = Vec::new();
        for path in paths {
            if !failures.is_empty() && Instant::now() >= end {
                break;
            }
            match self.by_path(path) {
                Ok(()) => return Ok(()),
                Err(failure) => failures.push(failure),
            }
        }
        match <[_; 1]>::try_from(failures) {
            Ok([only]) => Err(only),
            Err(failures) => {
                let (tried, all) = (failures.len(), self.disk.paths.len());
                Err(self.unusable(&format!("{tried} of its {all} paths were tried"), &failures))
            }
        }
    }

    /// The device of the disk is the map of its paths.
    fn by_all_paths(&self) -> Result<(), MountError> {
        let disk = self.disk;
        let end = Instant::now() + PATHS_TIME;
        let mut failures = Vec::new();
        for path in &disk.paths {
            let attached = match failures.is_empty() || Instant::now() < end {
                true => self.by_path(path),
                false => Err(MountError::hung(
                    path,
                    "not tried, since others took too long",
                )),
            };
            failures.extend(attached.err());
        }
        let running: Vec<_> = disk
            .paths
            .iter()
            .filter_map(|it| self.running(it))
            .collect();
        let (usable, all) = (running.len(), disk.paths.len());
        if usable < disk.minimum_paths {
            let minimum = disk.minimum_paths;
            let problem = format!(
                "{usable} of its {all} paths carry requests, and {minimum} are wanted; look at the kernel's log for those that do not"
            );
            return Err(self.unusable(&problem, &failures));
        }
        Multipathd::new(&self.sessions, &disk.wwid).join(disk, &running)?;
        if !failures.is_empty() {
            let failures = described(&failures);
            tracing::warn!(disk = disk.wwid, %failures, "a volume has fewer paths than its plan; the missing ones are attached at the next stage");
        }
        Ok(())
    }

    /// Attaches by one path. Nothing is left of one that fails.
    fn by_path(&self, path: &IscsiPath) -> Result<(), MountError> {
        let _turn = self.sessions.owner.turn(path.target.as_str())?;
        let was_missing = self.is_missing(path);
        let attached = self.connect(path);
        // A disk that was there may have users, be it by a session that is not connected at the moment.
        if attached.is_err()
            && was_missing
            && let Err(left) = self.sessions.detach_path(path)
        {
            tracing::warn!(%path, %left, "a path that failed is not removed; it is when the volume is unstaged");
        }
        attached
    }

    fn connect(&self, path: &IscsiPath) -> Result<(), MountError> {
        let Sessions { owner, scsi } = &self.sessions;
        let session = match scsi.session(path) {
            Some(session) => session,
            None => {
                tool::login(owner, &scsi.interface, path, &self.credentials)?;
                let session = scsi.session(path);
                session.ok_or_else(|| lost(path, "the session ended right after its login"))?
            }
        };
        ensure_connected(&session, path)?;
        let found = session.disk(path.lun);
        if scsi.has(&found) {
            // The storage system may have given its number to another disk since: only now the kernel reads the identity again.
            scsi.rescan(&found)?;
            if scsi.wwid(&found).as_deref() == Some(&self.disk.wwid) {
                return Ok(());
            }
            tracing::info!(%path, "a disk that the storage system replaced is removed");
            if let Err(error) = self.sessions.remove(&found) {
                stop_requests(scsi, &found)?;
                return Err(error);
            }
        }
        self.sessions.find(self.disk, path, &found)
    }

    fn is_missing(&self, path: &IscsiPath) -> bool {
        let scsi = &self.sessions.scsi;
        let session = scsi.session(path);
        !session.is_some_and(|session| scsi.has(&session.disk(path.lun)))
    }

    /// The kernel's name of the disk by a path that carries requests.
    fn running(&self, path: &IscsiPath) -> Option<String> {
        let scsi = &self.sessions.scsi;
        let session = scsi.session(path)?;
        let found = session.disk(path.lun);
        let is_running = session.is_connected() && scsi.is_running(&found);
        is_running.then(|| scsi.block(&found)).flatten()
    }

    fn unusable(&self, problem: &str, failures: &[MountError]) -> MountError {
        let reason = format!("{problem}: {}", described(failures));
        MountError::unusable(format!("disk {}", self.disk.wwid), reason)
    }
}

impl<'a> Sessions<'a> {
    fn of(owner: &'a Owner<'a>) -> Self {
        let scsi = Scsi::of(owner.driver);
        Self { owner, scsi }
    }

    /// Scans for the disk alone, until it is there with its identity.
    fn find(&self, wanted: &IscsiDisk, path: &IscsiPath, disk: &Disk) -> Result<(), MountError> {
        let end = Instant::now() + wanted.wait;
        loop {
            self.scsi.scan(disk)?;
            let next = (Instant::now() + SCAN_INTERVAL).min(end);
            loop {
                match self.scsi.wwid(disk) {
                    Some(wwid) if wwid != wanted.wwid => {
                        self.remove(disk)?;
                        return Err(replaced(path, &wwid, wanted));
                    }
                    Some(_) if self.scsi.number(disk).is_some() => return Ok(()),
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

    fn detach_path(&self, path: &IscsiPath) -> Result<(), MountError> {
        let Some(session) = self.scsi.session(path) else {
            return Ok(());
        };
        let disk = session.disk(path.lun);
        let is_last = self.scsi.disks(&session).iter().all(|it| *it == disk);
        if self.scsi.has(&disk) {
            match session.is_connected() || !is_last {
                true => self.remove(&disk)?,
                // Nothing can be written any more. The end of the session removes the disk at once, and not after the kernel has given up.
                false => self.ensure_unused(&disk)?,
            }
        }
        if is_last {
            tool::logout(self.owner, &self.scsi.interface, &session, path)?;
        }
        Ok(())
    }

    /// Removes a disk that nobody uses. What was written to it is written out before.
    fn remove(&self, disk: &Disk) -> Result<(), MountError> {
        self.leave_map(disk)?;
        if let Some(number) = self.scsi.number(disk) {
            flush_unused(number, disk)?;
        }
        self.scsi.delete(disk)
    }

    /// Checks that nobody uses a disk.
    fn ensure_unused(&self, disk: &Disk) -> Result<(), MountError> {
        self.leave_map(disk)?;
        if let Some(number) = self.scsi.number(disk) {
            node_device::claim_unused(number)?;
        }
        Ok(())
    }

    /// Takes the disk out of a multipath map, which may be that of another disk that had its place.
    fn leave_map(&self, disk: &Disk) -> Result<(), MountError> {
        match self.scsi.block(disk) {
            Some(block) => Multipathd::new(self, disk).leave(&block),
            None => Ok(()),
        }
    }
}

/// Stops a disk whose number the storage system gave to another one, while something here still uses it, such as a volume that was taken from this node
/// by force: what is read and written there would be the other disk's.
fn stop_requests(scsi: &Scsi, disk: &Disk) -> Result<(), MountError> {
    if !scsi.has(disk) {
        return Ok(());
    }
    scsi.set_offline(disk)?;
    tracing::error!(%disk, "a disk in use has become another one at the storage system; its requests fail from now on; end the pods of its volume");
    Ok(())
}

/// The error of a disk with another identity.
fn replaced(path: &IscsiPath, found: &str, wanted: &IscsiDisk) -> MountError {
    let reason = format!(
        "it is disk {}, and the volume is disk {}; nothing was read or written; look which disk the storage system maps there",
        shown(found),
        wanted.wwid
    );
    MountError::unusable(path, reason)
}

fn described(failures: &[MountError]) -> String {
    let each: Vec<_> = failures.iter().map(ToString::to_string).collect();
    each.join("; ")
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

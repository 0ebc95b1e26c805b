//! Volumes of drivers that no document names: nobody asks for their recovery, so the mounter does it by itself when it starts.

use crate::node::{Node, describe_volume};
use crate::threads::unbudgeted;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::task::{JoinHandle, JoinSet};
use wasmount_core::mounter::{MountError, MounterRequest as Request, VolumeKey};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;

/// How many volumes in use a line of the log names.
const NAMED: usize = 10;

/// Volumes that are still to be recovered.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<BTreeSet<VolumeKey>>);

impl Pending {
    /// Refuses a call on a volume until it is recovered: its client may have a document that this mounter does not have.
    pub(crate) fn refuse(&self, request: &Request) -> Result<(), MountError> {
        match volume(request).filter(|key| lock(&self.0).contains(key)) {
            None => Ok(()),
            Some(key) => {
                let what = format!("the recovery of {}", describe_volume(key));
                Err(MountError::under_way(what))
            }
        }
    }
}

/// Finishes or undoes what an earlier process left of drivers that are not `documented`, in the background: maps, disks and connections go that their
/// records name and that no mount uses. Volumes that are staged or published stay, and the log names them.
pub(crate) fn recover(
    node: Arc<Node>,
    pending: Arc<Pending>,
    documented: &BTreeSet<DriverName>,
) -> JoinHandle<()> {
    let is_meant = |driver: &DriverName| !documented.contains(driver);
    let entries = node.journal.entries(|entry| is_meant(&entry.key.driver));
    let drivers: BTreeSet<_> = entries.into_iter().map(|entry| entry.key.driver).collect();
    let mut left: Vec<Vec<VolumeKey>> = Vec::new();
    for driver in &drivers {
        let key = |volume| VolumeKey {
            driver: driver.clone(),
            volume,
        };
        match node.unsettled(driver) {
            Ok(volumes) => left.push(volumes.into_iter().map(key).collect()),
            Err(error) => {
                tracing::error!(%driver, %error, "unfinished work of a driver without a document cannot be read; the next start tries again");
            }
        }
    }
    // Now, and not in the background: no request may be faster.
    lock(&pending.0).extend(left.iter().flatten().cloned());
    // Otherwise the start of a driver that has one ends them.
    let ends_connections = documented.is_empty();
    tokio::spawn(async move {
        // Side by side: storage of one driver that does not answer must not delay the volumes of others.
        let mut recoveries = JoinSet::new();
        for keys in left {
            let (node, pending) = (node.clone(), pending.clone());
            recoveries.spawn(async move {
                for key in keys {
                    recover_volume(&node, &key).await;
                    lock(&pending.0).remove(&key);
                }
            });
        }
        recoveries.join_all().await;
        let work = move || {
            if ends_connections {
                node.end_unrecorded_nvme();
            }
            drivers.iter().try_for_each(|driver| report(&node, driver))
        };
        if let Err(error) = unbudgeted(work).await {
            tracing::warn!(%error, "volumes of drivers without a document cannot be looked at");
        }
    })
}

async fn recover_volume(node: &Arc<Node>, key: &VolumeKey) {
    let (recovering, own) = (node.clone(), key.clone());
    let lane = node.budgets.of(&key.driver).tear_down;
    let volume = describe_volume(key);
    match lane.run(move || recovering.recover(&own)).await {
        Ok(()) => tracing::info!(volume, "recovered, without a document of its driver"),
        Err(error) => {
            tracing::warn!(volume, %error, "a volume of a driver without a document is not recovered; the next start tries again");
        }
    }
}

/// Says which volumes stay, and what to do.
fn report(node: &Node, driver: &DriverName) -> Result<(), MountError> {
    let in_use = node.volumes_in_use(driver)?;
    if in_use.is_empty() {
        return Ok(());
    }
    let named: Vec<_> = in_use.iter().take(NAMED).map(|it| &it.volume).collect();
    tracing::warn!(
        %driver,
        count = in_use.len(),
        volumes = ?named,
        "volumes of a driver without a document stay with their disks, since they are staged or published; serve its document again, then delete their pods"
    );
    Ok(())
}

/// The volume that a call changes, or asks about before a change.
fn volume(request: &Request) -> Option<&VolumeKey> {
    match request {
        Request::Staged(it) => Some(&it.key),
        Request::Stage(it) => Some(&it.key),
        Request::Unstage(it) => Some(&it.key),
        Request::Publish(it) => Some(&it.key),
        Request::Unpublish(it) => Some(&it.key),
        Request::Expand(it) => Some(&it.key),
        Request::Notes(key) | Request::Recover(key) => Some(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::names::VolumeId;

    fn key(volume: &str) -> VolumeKey {
        VolumeKey {
            driver: DriverName::parse("a.test").unwrap(),
            volume: VolumeId::parse("volume_id", volume).unwrap(),
        }
    }

    #[test]
    fn a_call_is_refused_until_its_volume_is_recovered() {
        let pending = Pending::default();
        lock(&pending.0).insert(key("v"));
        let recover = |volume| pending.refuse(&Request::Recover(key(volume)));
        assert!(matches!(recover("v"), Err(MountError::UnderWay(_))));
        assert_eq!(recover("w"), Ok(()));
        let driver = Request::Unsettled(key("v").driver);
        assert_eq!(pending.refuse(&driver), Ok(()));
        lock(&pending.0).remove(&key("v"));
        assert_eq!(recover("v"), Ok(()));
    }
}

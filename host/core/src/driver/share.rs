//! A new version serves a share of the volumes; the one before serves the others, and every call that is about no volume.
//!
//! A volume has a place from 0 to 99 and belongs to the share if its place is below the percentage: while a share grows, volumes only join it. The
//! place is a hash of the volume's id. CreateVolume knows only the name: a volume that is created during a share keeps the place of its name, by a
//! record of the host if that of its id differs.

use super::calls::RunningCalls;
use super::plugin::Plugin;
use super::service::read_record;
use super::{Driver, ServingPolicy};
use crate::backend::Backend;
use crate::call::Incoming;
use crate::claims::{Claim, ClaimKey};
use crate::error::Error;
use crate::mutex::lock;
use crate::names::{RequestedName, VolumeId};
use crate::rpc::Rpc;
use crate::state::Expect;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// How many places there are: a share is a percentage.
const PLACES: u64 = 100;
/// Begins the keys of the records of places in the host's keyspace.
const PREFIX: &str = "share/";

/// The version that serves the share, and its size in percent.
pub(super) struct Share {
    plugin: Arc<Plugin>,
    percent: u8,
}

/// The volume that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About<'a> {
    /// A volume that is created, by its name.
    Name(&'a str),
    /// A volume by its id.
    Id(&'a str),
}

/// The places of volumes whose name has another place than their id.
#[derive(Default)]
pub(super) struct Places {
    /// By the hash of the id.
    of_ids: Mutex<HashMap<u64, u8>>,
    /// Records are removed by one task at a time, and not while a share may read them.
    turn: tokio::sync::Mutex<()>,
    in_use: AtomicBool,
}

impl Places {
    fn of(&self, about: About<'_>) -> u8 {
        match about {
            About::Name(name) => place(hash(name)),
            About::Id(id) => {
                let hash = hash(id);
                let recorded = lock(&self.of_ids).get(&hash).copied();
                recorded.unwrap_or_else(|| place(hash))
            }
        }
    }
}

impl Driver {
    /// Reads which volumes have a place by record. To be called before a share begins.
    pub async fn recall_places(&self) -> Result<(), Error> {
        let _turn = self.places.turn.lock().await;
        self.places.in_use.store(true, Ordering::SeqCst);
        let mut recorded = HashMap::new();
        for entry in self.records(PREFIX).await? {
            let hash = entry.key.strip_prefix(PREFIX);
            if let Some(hash) = hash.and_then(|hash| u64::from_str_radix(hash, 16).ok()) {
                recorded.insert(hash, read_record(&entry.value)?);
            }
        }
        *lock(&self.places.of_ids) = recorded;
        Ok(())
    }

    /// Directs new calls about this percentage of the volumes to another backend.
    pub fn begin_share(&self, backend: Arc<dyn Backend>, policy: ServingPolicy, percent: u8) {
        let plugin = self.plugin_with(backend, policy);
        let _swaps = lock(&self.retired);
        self.share.store(Some(Arc::new(Share { plugin, percent })));
        self.health.forget_all();
    }

    /// Gives the share another size.
    pub fn grow_share(&self, percent: u8) {
        let _swaps = lock(&self.retired);
        if let Some(share) = self.share.load_full() {
            let plugin = Arc::clone(&share.plugin);
            self.share.store(Some(Arc::new(Share { plugin, percent })));
            self.health.forget_all();
        }
    }

    /// The version of the share serves everything. Returns the calls of the version before.
    pub fn promote_share(&self) -> Option<RunningCalls> {
        let mut retired = lock(&self.retired);
        let plugin = Arc::clone(&self.share.load_full()?.plugin);
        let offer = plugin.backend.offer().clone();
        // In this order no volume of the share meets the version before again.
        let before = self.plugin.swap(Some(plugin));
        self.share.store(None);
        let calls = before.map(|before| before.calls.clone());
        self.share_ended(&mut retired, calls.clone());
        self.offered.send_replace(Some(offer));
        calls
    }

    /// The version that serves the rest serves everything. Returns the calls of the version of the share; none: there was no share.
    pub fn end_share(&self) -> Option<RunningCalls> {
        let mut retired = lock(&self.retired);
        let calls = self.share.swap(None)?.plugin.calls.clone();
        self.share_ended(&mut retired, Some(calls.clone()));
        Some(calls)
    }

    fn share_ended(&self, retired: &mut Vec<RunningCalls>, calls: Option<RunningCalls>) {
        self.retire(retired, calls);
        self.places.in_use.store(false, Ordering::SeqCst);
    }

    /// As [`Driver::calls_answered`], of the version of the share.
    pub fn calls_answered_in_share(&self) -> u64 {
        let share = self.share.load();
        let answered = |share: &Arc<Share>| share.plugin.answered.load(Ordering::Relaxed);
        share.as_ref().map_or(0, answered)
    }

    /// A volume that is created during a share keeps the place of its name, also after a restart.
    pub(super) async fn keep_place(
        &self,
        name: &RequestedName,
        id: &VolumeId,
    ) -> Result<(), Error> {
        if self.share.load().is_none() {
            return Ok(());
        }
        let place = self.places.of(About::Name(name.as_str()));
        if self.places.of(About::Id(id.as_str())) == place {
            return Ok(());
        }
        let hash = hash(id.as_str());
        let key = format!("{PREFIX}{hash:016x}");
        self.keep_record(&key, &place).await?;
        lock(&self.places.of_ids).insert(hash, place);
        Ok(())
    }

    /// Removes the records of places after the end of a share. It stops when the next one is about to begin.
    pub async fn forget_places(&self) -> Result<(), Error> {
        loop {
            let records = self.records(PREFIX).await?;
            if records.is_empty() {
                return Ok(());
            }
            for entry in records {
                let _turn = self.places.turn.lock().await;
                if self.places.in_use.load(Ordering::SeqCst) {
                    return Ok(());
                }
                let space = self.own_keys();
                self.state.remove(&space, &entry.key, Expect::Any).await?;
            }
        }
    }

    /// The plugin that serves calls about this volume, or about none.
    pub(super) fn plugin_of(&self, about: Option<About<'_>>) -> Option<Arc<Plugin>> {
        if let Some(about) = about
            && let Some(share) = self.share.load().as_ref()
            && self.places.of(about) < share.percent
        {
            return Some(Arc::clone(&share.plugin));
        }
        self.plugin.load_full()
    }

    pub(super) fn calls_of_share(&self) -> Option<RunningCalls> {
        let share = self.share.load();
        share.as_ref().map(|share| share.plugin.calls.clone())
    }
}

/// The volume that a call is about; none: it is about no volume, about several, or about a snapshot.
pub(super) fn about<'a>(
    rpc: Rpc,
    incoming: &'a Incoming,
    claims: &'a [Claim],
) -> Option<About<'a>> {
    let subject = incoming.subject.as_deref();
    match rpc {
        Rpc::CreateVolume => subject.map(About::Name),
        Rpc::DeleteVolume
        | Rpc::ControllerPublishVolume
        | Rpc::ControllerUnpublishVolume
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ControllerGetVolumeHealth
        | Rpc::ControllerExpandVolume
        | Rpc::ControllerGetVolume
        | Rpc::ControllerModifyVolume
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeExpandVolume
        | Rpc::NodeGetVolumeHealth => subject.map(About::Id),
        // Its subject is the name of the snapshot; it is the volume that it reads.
        Rpc::CreateSnapshot => claims.iter().find_map(|(key, _)| match key {
            ClaimKey::Volume(id) => Some(About::Id(id.as_str())),
            _ => None,
        }),
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ListVolumes
        | Rpc::ControllerListVolumeHealth
        | Rpc::GetCapacity
        | Rpc::ControllerGetCapabilities
        | Rpc::DeleteSnapshot
        | Rpc::ListSnapshots
        | Rpc::GetSnapshot
        | Rpc::GroupControllerGetCapabilities
        | Rpc::CreateVolumeGroupSnapshot
        | Rpc::DeleteVolumeGroupSnapshot
        | Rpc::GetVolumeGroupSnapshot
        | Rpc::GetMetadataAllocated
        | Rpc::GetMetadataDelta
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::NodeGetStorageHealth
        | Rpc::RegisterNode
        | Rpc::UnregisterNode => None,
    }
}

/// The same for every build of the host: records and places outlive a process.
fn hash(text: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn place(hash: u64) -> u8 {
    // Less than 100.
    (hash % PLACES) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Subject, claims};

    /// The first eight bytes of `printf pvc-1 | sha256sum`.
    const PVC_1: u64 = 0xf286_8e1a_a7ca_b669;

    fn in_share(percent: u8) -> Vec<u32> {
        let places = Places::default();
        let id = |number: &u32| format!("pvc-{number}");
        let belongs = |number: &u32| places.of(About::Id(&id(number))) < percent;
        (0..10_000).filter(belongs).collect()
    }

    #[test]
    fn a_share_only_gains_volumes_while_it_grows() {
        let mut before = in_share(0);
        assert!(before.is_empty());
        for percent in [1, 10, 50, 99] {
            let now = in_share(percent);
            assert!(before.iter().all(|number| now.contains(number)));
            // Four standard deviations of 10,000 draws are at most 200.
            let exact = u32::from(percent) * 100;
            let found = u32::try_from(now.len()).unwrap();
            assert!(found.abs_diff(exact) <= 200, "{percent} %: {found}");
            before = now;
        }
        assert_eq!(in_share(100).len(), 10_000);
    }

    #[test]
    fn the_bound_of_a_share_is_exact() {
        let ids: Vec<_> = (0..10_000).map(|number| format!("pvc-{number}")).collect();
        let places = Places::default();
        let at = |wanted: u8| {
            let found = ids.iter().find(|id| places.of(About::Id(id)) == wanted);
            found.unwrap().as_str()
        };
        let belongs = |id, percent| places.of(About::Id(id)) < percent;
        assert!(belongs(at(9), 10));
        assert!(!belongs(at(10), 10));
        assert!(belongs(at(99), 100));
    }

    #[test]
    fn the_place_of_a_volume_is_the_same_in_every_build() {
        assert_eq!(hash("pvc-1"), PVC_1);
        let places = Places::default();
        assert_eq!(places.of(About::Id("pvc-1")), (PVC_1 % 100) as u8);
        assert_eq!(
            places.of(About::Name("pvc-1")),
            places.of(About::Id("pvc-1"))
        );
    }

    #[test]
    fn a_recorded_place_counts_for_its_id_only() {
        let places = Places::default();
        let id = About::Id("pvc-1");
        let other = (places.of(id) + 1) % 100;
        lock(&places.of_ids).insert(hash("pvc-1"), other);
        assert_eq!(places.of(id), other);
        assert_ne!(places.of(About::Name("pvc-1")), other);
    }

    #[test]
    fn a_call_is_about_a_volume_or_about_none() {
        let incoming = Incoming {
            subject: Some("x".to_owned()),
            ..Incoming::default()
        };
        let id = VolumeId::parse("id", "source").unwrap();
        let subject = Subject {
            volume: Some(&id),
            ..Subject::default()
        };
        for (rpc, expected) in [
            (Rpc::CreateVolume, Some(About::Name("x"))),
            (Rpc::DeleteVolume, Some(About::Id("x"))),
            (Rpc::NodeStageVolume, Some(About::Id("x"))),
            (Rpc::CreateSnapshot, Some(About::Id("source"))),
            (Rpc::DeleteSnapshot, None),
            (Rpc::ListVolumes, None),
            (Rpc::GetCapacity, None),
        ] {
            let claims = claims(rpc, subject);
            assert_eq!(about(rpc, &incoming, &claims), expected, "{rpc}");
        }
    }
}

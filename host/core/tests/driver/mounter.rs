//! A mount room without mounts: it remembers what is staged and records what it was asked.

use crate::script::Script;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use wasmount_core::mounter::{
    ExpandVolume, MountError, Mounter, PublishVolume, StageVolume, Staged, StagedQuery, StatVolume,
    UnpublishVolume, UnstageVolume, Usage, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::pool::{PoolCall, PoolReply};

type Result<T> = std::result::Result<T, MountError>;

#[derive(Default)]
pub(crate) struct FakeMounter {
    pub(crate) script: Script,
    pub(crate) staged: Mutex<BTreeSet<VolumeId>>,
    pub(crate) notes: Mutex<BTreeMap<String, String>>,
    pub(crate) unsettled: Mutex<Vec<VolumeId>>,
    pub(crate) published: Mutex<Vec<PublishVolume>>,
}

pub(crate) const USAGE: VolumeStats = VolumeStats {
    bytes: Usage {
        total: 3,
        used: Some(1),
        available: Some(2),
    },
    inodes: None,
};

impl FakeMounter {
    async fn at(&self, name: &'static str, key: &VolumeKey) -> Result<()> {
        let done = self.script.call(name, key.volume.as_str(), None).await;
        done.map_err(|error| MountError::Unreachable {
            reason: error.to_string(),
        })
    }
}

#[async_trait]
impl Mounter for FakeMounter {
    async fn staged(&self, query: StagedQuery) -> Result<Staged> {
        let staged = self.staged.lock().unwrap().contains(&query.key.volume);
        Ok(if staged { Staged::AsWanted } else { Staged::No })
    }
    async fn stage(&self, request: StageVolume) -> Result<()> {
        self.at("stage", &request.key).await?;
        self.staged.lock().unwrap().insert(request.key.volume);
        Ok(())
    }
    async fn notes(&self, key: VolumeKey) -> Result<BTreeMap<String, String>> {
        self.at("notes", &key).await?;
        Ok(self.notes.lock().unwrap().clone())
    }
    async fn unstage(&self, request: UnstageVolume) -> Result<()> {
        self.at("unstage", &request.key).await?;
        self.staged.lock().unwrap().remove(&request.key.volume);
        Ok(())
    }
    async fn publish(&self, request: PublishVolume) -> Result<()> {
        self.at("publish", &request.key).await?;
        self.published.lock().unwrap().push(request);
        Ok(())
    }
    async fn unpublish(&self, request: UnpublishVolume) -> Result<()> {
        self.at("unpublish", &request.key).await
    }
    async fn health(
        &self,
        _: wasmount_core::mounter::HealthQuery,
    ) -> Result<Vec<wasmount_core::health::Health>> {
        Ok(Vec::new())
    }

    async fn stats(&self, request: StatVolume) -> Result<VolumeStats> {
        self.at("stats", &request.key).await?;
        Ok(USAGE)
    }
    async fn expand(&self, request: ExpandVolume) -> Result<u64> {
        self.at("expand", &request.key).await?;
        Ok(request.required_bytes.unwrap_or_default())
    }
    async fn unsettled(&self, _: DriverName) -> Result<Vec<VolumeId>> {
        Ok(self.unsettled.lock().unwrap().clone())
    }
    async fn unshared_roots(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    async fn recover(&self, key: VolumeKey) -> Result<()> {
        self.at("recover", &key).await
    }
    async fn pool(&self, _: DriverName, _: PoolCall) -> Result<PoolReply> {
        Ok(PoolReply::Done)
    }
}

//! A mount room without mounts: it remembers what is staged and records what it was asked.

use crate::script::Script;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use wasmount_core::health::Health;
use wasmount_core::mounter::{
    ExpandVolume, HealthQuery, MountError, Mounter, PublishVolume, StageVolume, Staged,
    StagedQuery, StatVolume, UnpublishVolume, UnstageVolume, Usage, VolumeInUse, VolumeKey,
    VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::pool::{PoolCall, PoolReply, PoolUsage};

type Result<T> = std::result::Result<T, MountError>;

pub(crate) struct FakeMounter {
    pub(crate) script: Script,
    pub(crate) staged: Mutex<BTreeSet<VolumeId>>,
    pub(crate) notes: Mutex<BTreeMap<String, String>>,
    pub(crate) unsettled: Mutex<Vec<VolumeId>>,
    pub(crate) published: Mutex<Vec<PublishVolume>>,
    /// What every volume suffers from here; absent: no volume is here.
    pub(crate) health: Mutex<Option<Vec<Health>>>,
    pub(crate) pools: Mutex<Vec<String>>,
}

impl Default for FakeMounter {
    fn default() -> Self {
        Self {
            script: Script::default(),
            staged: Mutex::default(),
            notes: Mutex::default(),
            unsettled: Mutex::default(),
            published: Mutex::default(),
            health: Mutex::new(Some(Vec::new())),
            pools: Mutex::default(),
        }
    }
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
    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>> {
        self.at("health", &query.key).await?;
        let health = self.health.lock().unwrap().clone();
        health.ok_or_else(|| MountError::NotFound {
            what: query.key.volume.to_string(),
        })
    }
    async fn stats(&self, request: StatVolume) -> Result<VolumeStats> {
        self.at("stats", &request.key).await?;
        Ok(USAGE)
    }
    async fn expand(&self, request: ExpandVolume) -> Result<u64> {
        self.at("expand", &request.key).await?;
        if request.grows_object {
            self.at("grow", &request.key).await?;
        }
        Ok(request.required_bytes.unwrap_or_default())
    }
    async fn unsettled(&self, _: DriverName) -> Result<Vec<VolumeId>> {
        Ok(self.unsettled.lock().unwrap().clone())
    }
    async fn volumes_in_use(&self, _: DriverName) -> Result<Vec<VolumeInUse>> {
        Ok(Vec::new())
    }
    async fn unshared_roots(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    async fn recover(&self, key: VolumeKey) -> Result<()> {
        self.at("recover", &key).await
    }
    /// A pool hangs or fails as the script says under its own name.
    async fn pool(&self, _: DriverName, call: PoolCall) -> Result<PoolReply> {
        match call {
            PoolCall::Capacity { pool } => {
                let name = if pool == "slow" { "slow" } else { "pool" };
                let done = self.script.call(name, &pool, None).await;
                done.map_err(|error| MountError::NotFound {
                    what: error.to_string(),
                })?;
                Ok(PoolReply::Capacity(PoolUsage {
                    total_bytes: 2,
                    available_bytes: 1,
                }))
            }
            _ => Ok(PoolReply::Names(self.pools.lock().unwrap().clone())),
        }
    }
}

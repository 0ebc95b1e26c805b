//! A mounter without mounts: it remembers staged volumes and records its requests.

use crate::script::Script;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use wasmount_core::health::Health;
use wasmount_core::mounter::{
    MountError, Mounter, MounterRequest, MounterResponse, MounterStatus, PublishVolume, Staged,
    Usage, VolumeKey, VolumeStats,
};
use wasmount_core::names::VolumeId;
use wasmount_core::pool::{PoolCall, PoolReply, PoolUsage};

type Result<T> = std::result::Result<T, MountError>;

pub(crate) struct FakeMounter {
    pub(crate) script: Script,
    pub(crate) staged: Mutex<BTreeSet<VolumeId>>,
    pub(crate) notes: Mutex<BTreeMap<String, String>>,
    pub(crate) unsettled: Mutex<Vec<VolumeId>>,
    pub(crate) published: Mutex<Vec<PublishVolume>>,
    /// The health conditions of every volume on this node; absent: no volume is on this node.
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
        done.map_err(MountError::unreachable)
    }
}

#[async_trait]
impl Mounter for FakeMounter {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse> {
        match request {
            MounterRequest::Staged(query) => {
                let staged = self.staged.lock().unwrap().contains(&query.key.volume);
                let staged = if staged { Staged::AsWanted } else { Staged::No };
                return Ok(MounterResponse::Staged(staged));
            }
            MounterRequest::Stage(request) => {
                self.at("stage", &request.key).await?;
                self.staged.lock().unwrap().insert(request.key.volume);
            }
            MounterRequest::Notes(key) => {
                self.at("notes", &key).await?;
                return Ok(MounterResponse::Notes(self.notes.lock().unwrap().clone()));
            }
            MounterRequest::Unstage(request) => {
                self.at("unstage", &request.key).await?;
                self.staged.lock().unwrap().remove(&request.key.volume);
            }
            MounterRequest::Publish(request) => {
                self.at("publish", &request.key).await?;
                self.published.lock().unwrap().push(request);
            }
            MounterRequest::Unpublish(request) => self.at("unpublish", &request.key).await?,
            MounterRequest::Health(query) => {
                self.at("health", &query.key).await?;
                let health = self.health.lock().unwrap().clone();
                let health = health.ok_or_else(|| MountError::not_found(query.key.volume))?;
                return Ok(MounterResponse::Health(health));
            }
            MounterRequest::Stats(request) => {
                self.at("stats", &request.key).await?;
                return Ok(MounterResponse::Stats(USAGE));
            }
            MounterRequest::Expand(request) => {
                self.at("expand", &request.key).await?;
                if request.grows_object {
                    self.at("grow", &request.key).await?;
                }
                let bytes = request.required_bytes.unwrap_or_default();
                return Ok(MounterResponse::Expanded(bytes));
            }
            MounterRequest::Unsettled(_) => {
                let unsettled = self.unsettled.lock().unwrap().clone();
                return Ok(MounterResponse::Unsettled(unsettled));
            }
            MounterRequest::VolumesInUse(_) => {
                return Ok(MounterResponse::VolumesInUse(Vec::new()));
            }
            MounterRequest::Status => {
                return Ok(MounterResponse::Status(MounterStatus::default()));
            }
            MounterRequest::ConfigDrive(_) => return Err(MountError::not_found("a config drive")),
            MounterRequest::NodeFact(..) => {
                return Err(MountError::not_found("a fact of the node"));
            }
            MounterRequest::Recover(key) => self.at("recover", &key).await?,
            // A pool hangs or fails as scripted under its name.
            MounterRequest::Pool(_, PoolCall::Capacity { pool }) => {
                let name = if pool == "slow" { "slow" } else { "pool" };
                let done = self.script.call(name, &pool, None).await;
                done.map_err(MountError::not_found)?;
                return Ok(MounterResponse::Pool(PoolReply::Capacity(PoolUsage {
                    total_bytes: 2,
                    available_bytes: 1,
                    promised_bytes: 0,
                    used_bytes: 1,
                })));
            }
            MounterRequest::Pool(..) => {
                let names = self.pools.lock().unwrap().clone();
                return Ok(MounterResponse::Pool(PoolReply::Names(names)));
            }
        }
        Ok(MounterResponse::Done)
    }
}

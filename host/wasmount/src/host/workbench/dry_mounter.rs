//! A mount room that mounts nothing: it takes each plan and says yes. Apart because it is the third `Mounter`, and the only one that needs no
//! right. Pools are real, where the command opens them.
//!
//! What a host answers from the kernel alone is refused here: no plugin is behind it, and there is nothing to ask the kernel about.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use wasmount_core::document::Grants;
use wasmount_core::health::Health;
use wasmount_core::mounter::{
    ExpandVolume, HealthQuery, MountError, Mounter, PublishVolume, StageVolume, Staged,
    StagedQuery, StatVolume, UnpublishVolume, UnstageVolume, VolumeInUse, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::plan::Plan;
use wasmount_core::pool::{PoolCall, PoolReply};

/// Where the pools of a plugin are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pools {
    /// Named, and refused when used.
    Closed,
    /// In a directory that goes with the command.
    Temporary,
    /// In a directory that stays.
    Below(PathBuf),
    /// Where the document has them: those that a host would use.
    Granted,
}

/// What a host would do after the plugin has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// `stage`, `publish`, `unstage` or `unpublish`.
    pub(crate) action: &'static str,
    /// Where.
    pub(crate) path: String,
    /// What the volume is, in the plugin's words; absent where the host needs none.
    pub(crate) plan: Option<Plan>,
}

/// The room.
pub(super) struct DryMounter {
    pool_names: Vec<String>,
    pools: Option<Arc<dyn Mounter>>,
    recorded: Mutex<Vec<Recorded>>,
}

impl DryMounter {
    /// Without `pools` they are named and closed.
    pub(super) fn new(grants: &Grants, pools: Option<Arc<dyn Mounter>>) -> Self {
        Self {
            pool_names: grants.pools.keys().cloned().collect(),
            pools,
            recorded: Mutex::default(),
        }
    }

    /// What was recorded since the last time.
    pub(super) fn take_recorded(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, action: &'static str, path: String, plan: Option<Plan>) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.push(Recorded { action, path, plan });
    }
}

#[async_trait]
impl Mounter for DryMounter {
    async fn staged(&self, _query: StagedQuery) -> Result<Staged, MountError> {
        Ok(Staged::No)
    }

    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        let path = request.staging_path.into_string();
        self.record("stage", path, Some(request.plan));
        Ok(())
    }

    async fn notes(&self, _key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        Ok(BTreeMap::new())
    }

    async fn volumes_in_use(&self, _driver: DriverName) -> Result<Vec<VolumeInUse>, MountError> {
        Ok(Vec::new())
    }

    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        self.record("unstage", request.staging_path.into_string(), None);
        Ok(())
    }

    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        let path = request.target_path.into_string();
        self.record("publish", path, request.plan);
        Ok(())
    }

    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        self.record("unpublish", request.target_path.into_string(), None);
        Ok(())
    }

    async fn stats(&self, _request: StatVolume) -> Result<VolumeStats, MountError> {
        Err(answered_by_the_kernel("the use of a volume"))
    }

    async fn health(&self, query: HealthQuery) -> Result<Vec<Health>, MountError> {
        Err(MountError::NotFound {
            what: format!("volume {} on this node", query.key.volume),
        })
    }

    async fn expand(&self, _request: ExpandVolume) -> Result<u64, MountError> {
        Err(answered_by_the_kernel("growth on the node"))
    }

    async fn unsettled(&self, _driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        Ok(Vec::new())
    }

    async fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        Ok(Vec::new())
    }

    async fn recover(&self, _key: VolumeKey) -> Result<(), MountError> {
        Ok(())
    }

    async fn pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        match (&self.pools, call) {
            (_, PoolCall::Names) => Ok(PoolReply::Names(self.pool_names.clone())),
            (Some(pools), call) => pools.pool(driver, call).await,
            (None, call) => {
                let pool = call.words().first().copied().unwrap_or_default().to_owned();
                Err(MountError::Unusable {
                    what: format!("pool `{pool}`"),
                    reason: "it is closed to this command; `wasmount call` has `--touch-pools` and `--pools`"
                        .to_owned(),
                })
            }
        }
    }
}

fn answered_by_the_kernel(what: &str) -> MountError {
    MountError::Unsupported {
        what: what.to_owned(),
        reason: "a host takes it from the kernel and asks no plugin; here nothing is mounted"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::document::PoolGrant;

    fn room() -> (DryMounter, DriverName) {
        let pool = PoolGrant {
            path: PathBuf::from("/nowhere"),
            full_copies: false,
            mount_options: Vec::new(),
        };
        let grants = Grants {
            pools: BTreeMap::from([("volumes".to_owned(), pool)]),
            ..Grants::default()
        };
        let room = DryMounter::new(&grants, None);
        (room, DriverName::parse("a.b").unwrap())
    }

    #[tokio::test]
    async fn closed_pools_have_names_and_nothing_else() {
        let (room, driver) = room();
        let names = room.pool(driver.clone(), PoolCall::Names).await.unwrap();
        assert_eq!(names, PoolReply::Names(vec!["volumes".to_owned()]));
        let pool = "volumes".to_owned();
        let used = room.pool(driver, PoolCall::Capacity { pool }).await;
        let said = used.unwrap_err().to_string();
        assert!(
            said.starts_with("pool `volumes` cannot be used: it is closed to this command"),
            "{said}"
        );
    }
}

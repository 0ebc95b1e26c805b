//! A mounter that mounts nothing: it only checks each plan against the grants as a host does. Pools are real, if the
//! command opens them.
//!
//! Requests that a host answers from the kernel alone are rejected here: they reach no plugin, and there is no mount to query the kernel about.

use super::needed_grants::needed;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wasmount_core::document::Grants;
use wasmount_core::mounter::{
    MountError, Mounter, MounterRequest, MounterResponse, MounterStatus, Staged,
};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::plan::Plan;
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::volume::VolumeCapability;
use wasmount_mount::judge;

/// Where the pools of a plugin are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pools {
    /// They have names, and every use is rejected.
    Closed,
    /// In a directory that is removed with the command.
    Temporary,
    /// In a directory that is kept.
    Below(PathBuf),
    /// Where the document grants them: the pools that a host would use.
    Granted,
}

/// What a host would do after the plugin has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// `stage`, `publish`, `unstage` or `unpublish`.
    pub(crate) action: &'static str,
    /// The path.
    pub(crate) path: String,
    /// The plugin's plan of the volume; absent if the host needs none.
    pub(crate) plan: Option<Judged>,
}

/// A plan, and the host's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The plugin's plan.
    pub(crate) plan: Plan,
    /// Whether it would be carried out.
    pub(crate) verdict: Verdict,
}

/// The host's verdict about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The document grants all of it.
    Granted,
    /// A host rejects it, with this reason.
    Refused(String),
    /// There is no document; a document must grant this.
    Needs(Grants),
}

/// The mounter.
pub(super) struct DryMounter {
    grants: Grants,
    /// Whether the grants come from a document.
    is_judged: bool,
    pools: Option<Arc<dyn Mounter>>,
    recorded: Mutex<Vec<Recorded>>,
}

impl DryMounter {
    /// Without `pools` they are closed. Plans are checked against the grants if `is_judged`; otherwise the needed grants are recorded.
    pub(super) fn new(grants: Grants, is_judged: bool, pools: Option<Arc<dyn Mounter>>) -> Self {
        Self {
            grants,
            is_judged,
            pools,
            recorded: Mutex::default(),
        }
    }

    /// The actions recorded since the last call.
    pub(super) fn take_recorded(&self) -> Vec<Recorded> {
        std::mem::take(&mut *lock(&self.recorded))
    }

    /// Records a plan with the host's verdict, and returns the verdict.
    fn judge(
        &self,
        action: &'static str,
        path: String,
        plan: Plan,
        capability: &VolumeCapability,
        readonly: bool,
    ) -> Result<(), MountError> {
        let judged = if self.is_judged {
            judge(&plan, capability, readonly, &self.grants).map(|()| Verdict::Granted)
        } else {
            needed(&plan, capability, readonly).map(Verdict::Needs)
        };
        let (verdict, result) = match judged {
            Ok(verdict) => (verdict, Ok(())),
            Err(error) => (Verdict::Refused(error.to_string()), Err(error)),
        };
        self.record(action, path, Some(Judged { plan, verdict }));
        result
    }

    fn record(&self, action: &'static str, path: String, plan: Option<Judged>) {
        lock(&self.recorded).push(Recorded { action, path, plan });
    }

    async fn call_pool(&self, driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        match (&self.pools, call) {
            (_, PoolCall::Names) => {
                let names = self.grants.pools.keys().cloned();
                Ok(PoolReply::Names(names.collect()))
            }
            (Some(pools), call) => pools.pool(driver, call).await,
            (None, call) => {
                let pool = call.pool_and_paths().0.unwrap_or_default().to_owned();
                Err(MountError::unusable(
                    format!("pool `{pool}`"),
                    "it is closed to this command; `wasmount call` has `--touch-pools` and `--pools`",
                ))
            }
        }
    }
}

#[async_trait]
impl Mounter for DryMounter {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        match request {
            MounterRequest::Stage(it) => {
                let path = it.staging_path.into_string();
                self.judge("stage", path, it.plan, &it.capability, false)?;
            }
            MounterRequest::Publish(it) => {
                let path = it.target_path.into_string();
                match it.plan {
                    Some(plan) => self.judge("publish", path, plan, &it.capability, it.readonly)?,
                    None => self.record("publish", path, None),
                }
            }
            MounterRequest::Unstage(it) => {
                self.record("unstage", it.staging_path.into_string(), None);
            }
            MounterRequest::Unpublish(it) => {
                self.record("unpublish", it.target_path.into_string(), None);
            }
            MounterRequest::Recover(_) => {}
            MounterRequest::Staged(_) => return Ok(MounterResponse::Staged(Staged::No)),
            MounterRequest::Notes(_) => return Ok(MounterResponse::Notes(BTreeMap::new())),
            MounterRequest::Unsettled(_) => return Ok(MounterResponse::Unsettled(Vec::new())),
            MounterRequest::Status => {
                return Ok(MounterResponse::Status(MounterStatus::default()));
            }
            MounterRequest::VolumesInUse(_) => {
                return Ok(MounterResponse::VolumesInUse(Vec::new()));
            }
            MounterRequest::ConfigDrive(_) => {
                return Err(MountError::not_found("a config drive of this command"));
            }
            MounterRequest::NodeFact(..) => {
                return Err(MountError::not_found("a node of this command"));
            }
            MounterRequest::Stats(_) => return Err(answered_by_the_kernel("the use of a volume")),
            MounterRequest::Expand(_) => return Err(answered_by_the_kernel("growth on the node")),
            MounterRequest::Health(query) => {
                return Err(MountError::not_found(format!(
                    "volume {} on this node",
                    query.key.volume
                )));
            }
            MounterRequest::Pool(driver, call) => {
                return self
                    .call_pool(driver, call)
                    .await
                    .map(MounterResponse::Pool);
            }
        }
        Ok(MounterResponse::Done)
    }
}

fn answered_by_the_kernel(what: &str) -> MountError {
    MountError::unsupported(
        what,
        "a host reads it from the kernel and calls no plugin; this command mounts nothing",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::document::{PoolGrant, PoolStorage};

    fn mounter() -> (DryMounter, DriverName) {
        let pool = PoolGrant {
            storage: PoolStorage::Directory(PathBuf::from("/nowhere")),
            full_copies: false,
            mount_options: Vec::new(),
        };
        let grants = Grants {
            pools: BTreeMap::from([("volumes".to_owned(), pool)]),
            ..Grants::default()
        };
        let mounter = DryMounter::new(grants, true, None);
        (mounter, DriverName::parse("a.b").unwrap())
    }

    #[tokio::test]
    async fn closed_pools_have_names_and_nothing_else() {
        let (mounter, driver) = mounter();
        let names = mounter.pool(driver.clone(), PoolCall::Names).await.unwrap();
        assert_eq!(names, PoolReply::Names(vec!["volumes".to_owned()]));
        let pool = "volumes".to_owned();
        let used = mounter.pool(driver, PoolCall::Capacity { pool }).await;
        let message = used.unwrap_err().to_string();
        assert!(
            message.starts_with("pool `volumes` cannot be used: it is closed to this command"),
            "{message}"
        );
    }
}

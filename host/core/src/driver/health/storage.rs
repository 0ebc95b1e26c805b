//! The storage that a node uses, as the host sees it: the pools of the driver.

use super::in_time;
use crate::driver::{Driver, Role, StorageHealth};
use crate::error::Error;
use crate::mounter::MountError;
use crate::pool::{PoolCall, PoolReply, PoolUsage};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// A pool does not answer.
const NOT_ANSWERING: &str = "PoolNotAnswering";
/// A pool returns an error.
const NOT_USABLE: &str = "PoolNotUsable";

/// The pools of a driver on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Those that cannot be used, grouped by health condition.
    pub sick: Vec<StorageHealth>,
    /// The space of the others, by name.
    pub pools: BTreeMap<String, PoolUsage>,
}

/// How many volumes of a driver a node has in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumesInUse {
    /// Those that are staged.
    pub staged: usize,
    /// The paths at which volumes are published.
    pub published: usize,
}

impl Driver {
    /// Counts the volumes in use, as the mounter's records say.
    pub async fn volumes_in_use(&self) -> Result<VolumesInUse, Error> {
        let volumes = self.mounter.volumes_in_use(self.config.name.clone());
        let volumes = answer_until(in_time(), "the list of volumes", volumes).await?;
        Ok(VolumesInUse {
            staged: volumes
                .iter()
                .filter(|it| it.staging_path.is_some())
                .count(),
            published: volumes.iter().map(|it| it.target_paths.len()).sum(),
        })
    }

    /// Asks each pool for its space: a pool is opened for that, and locked for all other hosts. So only a host asks that may work on it.
    pub async fn storage(&self) -> Result<Storage, Error> {
        if self.config.role == Role::Node || !self.works() {
            return Ok(Storage::default());
        }
        let name = &self.config.name;
        let until = in_time();
        let names = self.mounter.pool(name.clone(), PoolCall::Names);
        let pools = match answer_until(until, "the list of pools", names).await? {
            PoolReply::Names(pools) => pools,
            _ => Vec::new(),
        };
        // All at once: a pool that hangs must not use up the time of the others.
        let mut queries = JoinSet::new();
        for pool in pools {
            let (mounter, name) = (Arc::clone(&self.mounter), name.clone());
            queries.spawn(async move {
                let capacity = PoolCall::Capacity { pool: pool.clone() };
                let reply = answer_until(until, "the pool", mounter.pool(name, capacity));
                (pool, reply.await)
            });
        }
        let (mut sound, mut failed) = (BTreeMap::new(), BTreeMap::new());
        while let Some(answer) = queries.join_next().await {
            match answer {
                Ok((pool, Ok(PoolReply::Capacity(usage)))) => {
                    sound.insert(pool, usage);
                }
                Ok((pool, Err(error))) => {
                    failed.insert(pool, error);
                }
                // A panic of a task is logged elsewhere.
                Ok((_, Ok(_))) | Err(_) => {}
            }
        }
        Ok(Storage {
            sick: sick(failed)?,
            pools: sound,
        })
    }
}

async fn answer_until<T>(
    until: Instant,
    what: &str,
    answer: impl Future<Output = Result<T, MountError>>,
) -> Result<T, MountError> {
    let answer = timeout_at(until, answer).await;
    answer.unwrap_or_else(|_| Err(not_in_time(what)))
}

fn not_in_time(what: &str) -> MountError {
    MountError::hung(
        what,
        format!("no answer within {} s", super::HEALTH_TIME.as_secs()),
    )
}

/// The health conditions, each reason once. If the mounter itself cannot be reached, nothing is known about storage, and the call fails.
fn sick(failed: BTreeMap<String, MountError>) -> Result<Vec<StorageHealth>, MountError> {
    let mut reasons: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (pool, error) in failed {
        let reason = match &error {
            MountError::Unreachable { .. } => return Err(error),
            MountError::Hung { .. } | MountError::OutOfThreads { .. } => NOT_ANSWERING,
            _ => NOT_USABLE,
        };
        let messages = reasons.entry(reason).or_default();
        messages.push(format!("pool `{pool}`: {error}"));
    }
    let health = |(reason, messages): (_, Vec<String>)| StorageHealth {
        reason,
        message: messages.join("; "),
    };
    Ok(reasons.into_iter().map(health).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed<const N: usize>(failed: [(&str, MountError); N]) -> BTreeMap<String, MountError> {
        let owned = failed.map(|(pool, error)| (pool.to_owned(), error));
        owned.into_iter().collect()
    }

    fn missing() -> MountError {
        MountError::not_found("its directory")
    }

    #[test]
    fn pools_with_equal_errors_are_reported_together() {
        let failed = failed([
            ("b", not_in_time("the pool")),
            ("c", missing()),
            ("d", missing()),
        ]);
        let expected = [
            StorageHealth {
                reason: "PoolNotAnswering",
                message: "pool `b`: the pool is not answering: no answer within 2 s".to_owned(),
            },
            StorageHealth {
                reason: "PoolNotUsable",
                message:
                    "pool `c`: its directory does not exist; pool `d`: its directory does not exist"
                        .to_owned(),
            },
        ];
        assert_eq!(sick(failed), Ok(expected.to_vec()));
        assert_eq!(sick(BTreeMap::new()), Ok(Vec::new()));
    }

    #[test]
    fn a_mount_room_that_cannot_be_asked_is_no_finding() {
        let away = MountError::unreachable("its socket is gone");
        let failed = failed([("a", missing()), ("b", away.clone())]);
        assert_eq!(sick(failed), Err(away));
    }
}

//! The storage that a node uses, as the host sees it: the pools of the driver.

use super::in_time;
use crate::driver::{Driver, StorageHealth};
use crate::error::Error;
use crate::mounter::MountError;
use crate::pool::{PoolCall, PoolReply};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// A pool does not answer.
const NOT_ANSWERING: &str = "PoolNotAnswering";
/// A pool returns an error.
const NOT_USABLE: &str = "PoolNotUsable";

impl Driver {
    /// Pools that cannot be used on this node, grouped by health condition.
    pub async fn sick_storage(&self) -> Result<Vec<StorageHealth>, Error> {
        let name = &self.config.name;
        let until = in_time();
        let names = self.mounter.pool(name.clone(), PoolCall::Names);
        let pools = match timeout_at(until, names).await {
            Ok(reply) => match reply? {
                PoolReply::Names(pools) => pools,
                _ => Vec::new(),
            },
            Err(_) => return Err(not_in_time("the list of pools").into()),
        };
        // All at once: a pool that hangs must not use up the time of the others.
        let mut queries = JoinSet::new();
        for pool in pools {
            let (mounter, name) = (Arc::clone(&self.mounter), name.clone());
            queries.spawn(async move {
                let capacity = PoolCall::Capacity { pool: pool.clone() };
                let reply = match timeout_at(until, mounter.pool(name, capacity)).await {
                    Ok(reply) => reply.map(drop),
                    Err(_) => Err(not_in_time("the pool")),
                };
                (pool, reply)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(answer) = queries.join_next().await {
            // A panic of a task is logged elsewhere.
            answers.extend(answer);
        }
        Ok(sick(answers)?)
    }
}

fn not_in_time(what: &str) -> MountError {
    MountError::hung(
        what,
        format!("no answer within {} s", super::HEALTH_TIME.as_secs()),
    )
}

/// The health conditions, each reason once. If the mounter itself cannot be reached, nothing is known about storage, and the call fails.
fn sick(
    answers: BTreeMap<String, Result<(), MountError>>,
) -> Result<Vec<StorageHealth>, MountError> {
    let mut reasons: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (pool, answer) in answers {
        let (reason, error) = match answer {
            Ok(()) => continue,
            Err(error @ MountError::Unreachable { .. }) => return Err(error),
            Err(error @ (MountError::Hung { .. } | MountError::OutOfThreads { .. })) => {
                (NOT_ANSWERING, error)
            }
            Err(error) => (NOT_USABLE, error),
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

    fn answers<const N: usize>(
        answers: [(&str, Result<(), MountError>); N],
    ) -> BTreeMap<String, Result<(), MountError>> {
        let owned = answers.map(|(pool, answer)| (pool.to_owned(), answer));
        owned.into_iter().collect()
    }

    fn missing() -> MountError {
        MountError::not_found("its directory")
    }

    #[test]
    fn pools_with_equal_errors_are_reported_together() {
        let answers = answers([
            ("a", Ok(())),
            ("b", Err(not_in_time("the pool"))),
            ("c", Err(missing())),
            ("d", Err(missing())),
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
        assert_eq!(sick(answers), Ok(expected.to_vec()));
        assert_eq!(sick(BTreeMap::new()), Ok(Vec::new()));
    }

    #[test]
    fn a_mount_room_that_cannot_be_asked_is_no_finding() {
        let away = MountError::unreachable("its socket is gone");
        let answers = answers([("a", Err(missing())), ("b", Err(away.clone()))]);
        assert_eq!(sick(answers), Err(away));
    }
}

//! What one call of a plugin has changed in pools and is not on stable storage yet. It must be before a record, a removal, a request or an answer can
//! tell of the change.

use super::PoolCall;
use std::collections::{BTreeMap, BTreeSet};

/// Most paths of a pool that stay unsynced: it bounds the request that syncs them.
const PATHS: usize = 64;

/// Pools with the changed paths in them. A pool without a path has promises that are not on stable storage.
#[derive(Debug, Default)]
pub struct Unsynced(BTreeMap<String, BTreeSet<String>>);

impl Unsynced {
    /// Notes a call that succeeded.
    pub fn note(&mut self, call: &PoolCall) {
        match call {
            PoolCall::CreateDirectory { pool, path }
            | PoolCall::SetPermissions { pool, path, .. } => {
                let paths = self.0.entry(pool.clone()).or_default();
                paths.insert(path.clone());
            }
            // The mounter syncs the directory before it records the promise.
            PoolCall::SetQuota { pool, path, .. } => {
                self.0.entry(pool.clone()).or_default().remove(path);
            }
            _ => {}
        }
    }

    /// Whether no further path should be noted before a sync.
    pub fn is_full(&self) -> bool {
        self.0.values().any(|paths| paths.len() >= PATHS)
    }

    /// The call that syncs one of the pools. `None`: all are synced.
    pub fn sync(&self) -> Option<PoolCall> {
        let (pool, paths) = self.0.first_key_value()?;
        Some(PoolCall::Sync {
            pool: pool.clone(),
            paths: paths.iter().cloned().collect(),
        })
    }

    /// The call of [`Unsynced::sync`] succeeded.
    pub fn synced(&mut self) {
        self.0.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(pool: &str, path: &str) -> PoolCall {
        let (pool, path) = (pool.to_owned(), path.to_owned());
        PoolCall::CreateDirectory { pool, path }
    }

    fn promised(path: &str) -> PoolCall {
        PoolCall::SetQuota {
            pool: "a".to_owned(),
            path: path.to_owned(),
            bytes: Some(1),
        }
    }

    fn synced(pool: &str, paths: &[&str]) -> PoolCall {
        PoolCall::Sync {
            pool: pool.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn changed_paths_are_synced_pool_by_pool() {
        let mut unsynced = Unsynced::default();
        for call in [
            created("b", "x"),
            created("a", "2"),
            created("a", "1"),
            promised("2"),
        ] {
            unsynced.note(&call);
        }
        assert_eq!(unsynced.sync(), Some(synced("a", &["1"])));
        // Until it has succeeded.
        assert_eq!(unsynced.sync(), Some(synced("a", &["1"])));
        unsynced.synced();
        assert_eq!(unsynced.sync(), Some(synced("b", &["x"])));
        unsynced.synced();
        assert_eq!(unsynced.sync(), None);
    }

    #[test]
    fn a_promise_alone_is_synced_and_a_read_is_not() {
        let mut unsynced = Unsynced::default();
        unsynced.note(&PoolCall::Names);
        unsynced.note(&synced("a", &["1"]));
        assert_eq!(unsynced.sync(), None);
        unsynced.note(&promised("1"));
        assert_eq!(unsynced.sync(), Some(synced("a", &[])));
    }

    #[test]
    fn it_is_full_at_its_bound_only() {
        let mut unsynced = Unsynced::default();
        for number in 0..PATHS {
            assert!(!unsynced.is_full());
            unsynced.note(&created("a", &number.to_string()));
        }
        assert!(unsynced.is_full());
    }
}

//! A node and a store that live in memory: what is staged and published, keys and values.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Mutex;
use wasmount_core::health::Health;
use wasmount_core::mounter::*;
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::state::*;
use wasmount_core::volume::VolumeCapability;

/// What is mounted, by path.
#[derive(Default)]
pub(crate) struct MemoryMounter {
    staged: Mutex<BTreeMap<String, VolumeCapability>>,
    published: Mutex<BTreeMap<String, bool>>,
    /// What every volume suffers from here.
    pub(crate) health: Mutex<Vec<Health>>,
    /// Pools of the driver, none of which can be used.
    pub(crate) broken_pools: Mutex<Vec<String>>,
}

impl MemoryMounter {
    fn is_mounted(&self, path: &str) -> bool {
        self.staged.lock().unwrap().contains_key(path)
            || self.published.lock().unwrap().contains_key(path)
    }

    fn not_there(path: &str) -> MountError {
        MountError::NotFound {
            what: path.to_owned(),
        }
    }
}

#[async_trait]
impl Mounter for MemoryMounter {
    async fn staged(&self, query: StagedQuery) -> Result<Staged, MountError> {
        match self.staged.lock().unwrap().get(query.staging_path.as_str()) {
            None => Ok(Staged::No),
            Some(capability) if *capability == query.capability => Ok(Staged::AsWanted),
            Some(_) => Err(MountError::AlreadyExists {
                what: query.staging_path.to_string(),
                difference: "another capability".to_owned(),
            }),
        }
    }

    async fn stage(&self, request: StageVolume) -> Result<(), MountError> {
        self.staged
            .lock()
            .unwrap()
            .insert(request.staging_path.into_string(), request.capability);
        Ok(())
    }

    async fn notes(&self, _key: VolumeKey) -> Result<BTreeMap<String, String>, MountError> {
        Ok(BTreeMap::new())
    }

    async fn unstage(&self, request: UnstageVolume) -> Result<(), MountError> {
        self.staged
            .lock()
            .unwrap()
            .remove(request.staging_path.as_str());
        Ok(())
    }

    async fn publish(&self, request: PublishVolume) -> Result<(), MountError> {
        if let Some(path) = &request.staging_path
            && !self.is_mounted(path.as_str())
        {
            return Err(MountError::NotStaged {
                path: path.to_string(),
            });
        }
        self.published
            .lock()
            .unwrap()
            .insert(request.target_path.into_string(), request.readonly);
        Ok(())
    }

    async fn unpublish(&self, request: UnpublishVolume) -> Result<(), MountError> {
        self.published
            .lock()
            .unwrap()
            .remove(request.target_path.as_str());
        Ok(())
    }

    async fn health(&self, _: HealthQuery) -> Result<Vec<Health>, MountError> {
        Ok(self.health.lock().unwrap().clone())
    }

    async fn stats(&self, request: StatVolume) -> Result<VolumeStats, MountError> {
        let path = request.volume_path.as_str();
        if !self.is_mounted(path) {
            return Err(Self::not_there(path));
        }
        Ok(VolumeStats {
            bytes: Usage {
                total: 1024,
                used: Some(24),
                available: Some(1000),
            },
            inodes: Some(Usage {
                total: 10,
                used: Some(1),
                available: Some(9),
            }),
        })
    }

    async fn expand(&self, request: ExpandVolume) -> Result<u64, MountError> {
        let path = request.volume_path.as_str();
        if !self.is_mounted(path) {
            return Err(Self::not_there(path));
        }
        Ok(request.required_bytes.unwrap_or(1024))
    }

    async fn unsettled(&self, _driver: DriverName) -> Result<Vec<VolumeId>, MountError> {
        Ok(Vec::new())
    }

    async fn volumes_in_use(
        &self,
        _driver: DriverName,
    ) -> Result<Vec<wasmount_core::mounter::VolumeInUse>, MountError> {
        Ok(Vec::new())
    }

    async fn unshared_roots(&self) -> Result<Vec<String>, MountError> {
        Ok(Vec::new())
    }
    async fn recover(&self, _key: VolumeKey) -> Result<(), MountError> {
        Ok(())
    }

    async fn pool(&self, _driver: DriverName, call: PoolCall) -> Result<PoolReply, MountError> {
        match call {
            PoolCall::Names => Ok(PoolReply::Names(self.broken_pools.lock().unwrap().clone())),
            _ => Err(Self::not_there("its directory")),
        }
    }
}

/// Keys and values; revisions count all writes.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    writes: u64,
    of: BTreeMap<(Keyspace, String), StateEntry>,
}

impl MemoryStore {
    fn change(
        &self,
        space: &Keyspace,
        key: &str,
        value: Option<Vec<u8>>,
        expect: Expect,
    ) -> Outcome {
        let mut store = self.0.lock().unwrap();
        let Entries { writes, of } = &mut *store;
        let place = (space.clone(), key.to_owned());
        let found = of.get(&place).cloned();
        let expected = match expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found
                .as_ref()
                .is_some_and(|entry| entry.revision == revision),
        };
        if !expected {
            return Outcome::Conflict(found);
        }
        match value {
            None => {
                of.remove(&place);
                Outcome::Done(found.map_or(0, |entry| entry.revision))
            }
            Some(value) => {
                *writes += 1;
                of.insert(
                    place,
                    StateEntry {
                        key: key.to_owned(),
                        value,
                        revision: *writes,
                    },
                );
                Outcome::Done(*writes)
            }
        }
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
        Ok(self
            .0
            .lock()
            .unwrap()
            .of
            .get(&(space.clone(), key.to_owned()))
            .cloned())
    }

    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        Ok(self.change(space, key, Some(value), expect))
    }

    async fn remove(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        Ok(self.change(space, key, None, expect))
    }

    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError> {
        let store = self.0.lock().unwrap();
        let wanted = store.of.iter().filter(|((owner, key), _)| {
            owner == space
                && key.starts_with(prefix)
                && after.is_none_or(|after| key.as_str() > after)
        });
        Ok(wanted
            .map(|(_, entry)| entry.clone())
            .take(limit as usize)
            .collect())
    }

    async fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        let store = self.0.lock().unwrap();
        let own = store.of.iter().filter(|((owner, _), _)| owner == space);
        let sizes = own.map(|((_, key), entry)| record_bytes(key, entry.value.len()));
        Ok(sizes.sum())
    }

    async fn sync(&self) -> Result<(), StateError> {
        Ok(())
    }
}

//! A node and a store in memory: staged and published volumes, keys and values.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Mutex;
use wasmount_core::health::Health;
use wasmount_core::mounter::*;
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::state::*;
use wasmount_core::volume::VolumeCapability;

/// The mounts, by path.
#[derive(Default)]
pub(crate) struct MemoryMounter {
    staged: Mutex<BTreeMap<String, VolumeCapability>>,
    published: Mutex<BTreeMap<String, bool>>,
    /// The health conditions of every volume on this node.
    pub(crate) health: Mutex<Vec<Health>>,
    /// Pools of the driver that cannot be used.
    pub(crate) broken_pools: Mutex<Vec<String>>,
}

impl MemoryMounter {
    fn not_there(path: &str) -> MountError {
        MountError::not_found(path)
    }
}

#[async_trait]
impl Mounter for MemoryMounter {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        let mut staged = self.staged.lock().unwrap();
        let mut published = self.published.lock().unwrap();
        let mounted = |path: &str| match staged.contains_key(path) || published.contains_key(path) {
            true => Ok(()),
            false => Err(Self::not_there(path)),
        };
        match request {
            MounterRequest::Staged(query) => {
                return match staged.get(query.staging_path.as_str()) {
                    None => Ok(MounterResponse::Staged(Staged::No)),
                    Some(capability) if *capability == query.capability => {
                        Ok(MounterResponse::Staged(Staged::AsWanted))
                    }
                    Some(_) => Err(MountError::already_exists(
                        query.staging_path,
                        "another capability",
                    )),
                };
            }
            MounterRequest::Stage(request) => {
                staged.insert(request.staging_path.into_string(), request.capability);
            }
            MounterRequest::Unstage(request) => {
                staged.remove(request.staging_path.as_str());
            }
            MounterRequest::Publish(request) => {
                if let Some(path) = &request.staging_path
                    && mounted(path.as_str()).is_err()
                {
                    return Err(MountError::not_staged(path));
                }
                published.insert(request.target_path.into_string(), request.readonly);
            }
            MounterRequest::Unpublish(request) => {
                published.remove(request.target_path.as_str());
            }
            MounterRequest::Recover(_) => {}
            MounterRequest::Notes(_) => return Ok(MounterResponse::Notes(BTreeMap::new())),
            MounterRequest::Health(_) => {
                let health = self.health.lock().unwrap().clone();
                return Ok(MounterResponse::Health(health));
            }
            MounterRequest::Stats(request) => {
                mounted(request.volume_path.as_str())?;
                return Ok(MounterResponse::Stats(VolumeStats {
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
                }));
            }
            MounterRequest::Expand(request) => {
                mounted(request.volume_path.as_str())?;
                let bytes = request.required_bytes.unwrap_or(1024);
                return Ok(MounterResponse::Expanded(bytes));
            }
            MounterRequest::Unsettled(_) => return Ok(MounterResponse::Unsettled(Vec::new())),
            MounterRequest::VolumesInUse(_) => {
                return Ok(MounterResponse::VolumesInUse(Vec::new()));
            }
            MounterRequest::Status => {
                return Ok(MounterResponse::Status(MounterStatus::default()));
            }
            MounterRequest::ConfigDrive(_) => return Err(Self::not_there("a config drive")),
            MounterRequest::NodeFact(..) => return Err(Self::not_there("a fact of the node")),
            MounterRequest::Pool(_, PoolCall::Names) => {
                let names = self.broken_pools.lock().unwrap().clone();
                return Ok(MounterResponse::Pool(PoolReply::Names(names)));
            }
            MounterRequest::Pool(..) => return Err(Self::not_there("its directory")),
        }
        Ok(MounterResponse::Done)
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

//! Records of the host about a driver; one of them holds until when a host served it.

use super::Driver;
use crate::error::Error;
use crate::state::{Expect, Keyspace, KeyspaceOwner, StateEntry, StateError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Key of the record in the host's keyspace.
const KEY: &str = "service";

/// How the service of the last host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastService {
    /// No end is recorded: the host is still serving, or was killed.
    Open,
    /// It served until this time, with millisecond precision, and stopped cleanly.
    Until(SystemTime),
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// Milliseconds since 1970; absent while the service runs.
    until: Option<u64>,
}

impl Driver {
    /// How the last service ended; none if there was none.
    pub async fn last_service(&self) -> Result<Option<LastService>, Error> {
        let Some(entry) = self.state.get(&self.own_keys(), KEY).await? else {
            return Ok(None);
        };
        let record: Record = read_record(&entry.value)?;
        Ok(Some(match record.until {
            None => LastService::Open,
            Some(until) => LastService::Until(UNIX_EPOCH + Duration::from_millis(until)),
        }))
    }

    /// Records the state of the current service durably.
    pub async fn note_service(&self, service: LastService) -> Result<(), Error> {
        let until = match service {
            LastService::Open => None,
            LastService::Until(when) => {
                let since = when.duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
        };
        self.keep_record(KEY, &Record { until }).await
    }

    /// Writes a record of the host durably.
    pub(super) async fn keep_record<T: Serialize>(
        &self,
        key: &str,
        record: &T,
    ) -> Result<(), Error> {
        let (space, value) = (self.own_keys(), write_record(record)?);
        self.state.put(&space, key, value, Expect::Any).await?;
        Ok(self.state.sync().await?)
    }

    /// All records of the host whose keys have this prefix.
    pub(super) async fn records(&self, prefix: &str) -> Result<Vec<StateEntry>, Error> {
        Ok(self.state.scan_all(&self.own_keys(), prefix, None).await?)
    }

    pub(super) fn own_keys(&self) -> Keyspace {
        Keyspace {
            driver: self.config.name.clone(),
            owner: KeyspaceOwner::Host,
        }
    }
}

/// Decodes a record of the host's keyspace.
pub(super) fn read_record<T: DeserializeOwned>(value: &[u8]) -> Result<T, Error> {
    let read = serde_json::from_slice(value);
    Ok(read.map_err(|error| StateError::failed("read a record of the host", error))?)
}

/// Encodes such a record.
pub(super) fn write_record<T: Serialize>(record: &T) -> Result<Vec<u8>, Error> {
    let written = serde_json::to_vec(record);
    Ok(written.map_err(|error| StateError::failed("write a record of the host", error))?)
}

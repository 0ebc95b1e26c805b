//! Records of the host's own about a driver; one of them says until when a host served it.

use super::Driver;
use crate::error::Error;
use crate::state::{Expect, Keyspace, KeyspaceOwner, StateError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Key of the record in the host's keyspace.
const KEY: &str = "service";

/// How the service of the last host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastService {
    /// It has not said: it is still serving, or was killed.
    Open,
    /// It served until then, to the millisecond, and stopped cleanly.
    Until(SystemTime),
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// Milliseconds since 1970; absent while it goes on.
    until: Option<u64>,
}

impl Driver {
    /// How the last service ended; none: there was none.
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

    /// Says durably how it stands with this one.
    pub async fn note_service(&self, service: LastService) -> Result<(), Error> {
        let until = match service {
            LastService::Open => None,
            LastService::Until(when) => {
                let since = when.duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
        };
        let value = write_record(&Record { until })?;
        self.state
            .put(&self.own_keys(), KEY, value, Expect::Any)
            .await?;
        Ok(self.state.sync().await?)
    }

    pub(super) fn own_keys(&self) -> Keyspace {
        Keyspace {
            driver: self.config.name.clone(),
            owner: KeyspaceOwner::Host,
        }
    }
}

/// A record of the host's own keyspace.
pub(super) fn read_record<T: DeserializeOwned>(value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|error| failed("read a record of the host", error))
}

/// The same to be written.
pub(super) fn write_record<T: Serialize>(record: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(record).map_err(|error| failed("write a record of the host", error))
}

fn failed(operation: &'static str, error: serde_json::Error) -> Error {
    Error::State(StateError::Failed {
        operation,
        source: Box::new(error),
    })
}

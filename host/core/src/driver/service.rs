//! Until when a host served the driver.
//!
//! It stands in the host's keyspace; it decides nothing, and no call reads it.

use super::Driver;
use crate::error::Error;
use crate::state::{Expect, StateError};
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
        let record: Record = serde_json::from_slice(&entry.value)
            .map_err(failed("read when the driver was last served"))?;
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
        let value = serde_json::to_vec(&Record { until })
            .map_err(failed("write when the driver was last served"))?;
        self.state
            .put(&self.own_keys(), KEY, value, Expect::Any)
            .await?;
        Ok(self.state.sync().await?)
    }
}

fn failed(operation: &'static str) -> impl FnOnce(serde_json::Error) -> Error {
    move |error| {
        Error::State(StateError::Failed {
            operation,
            source: Box::new(error),
        })
    }
}

//! What is done after an attempt that failed.

use super::Registry;
use crate::error::RegistryError;
use crate::patience::Again;
use tokio::time::{Instant, sleep};

/// Why an attempt failed, and whether another may go better.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: RegistryError,
    pub(super) again: Again,
}

/// How often one thing was tried.
#[derive(Debug, Default)]
pub(super) struct Retries {
    made: u32,
}

impl Failed {
    pub(super) fn for_good(error: RegistryError) -> Self {
        Self {
            error,
            again: Again::Never,
        }
    }

    pub(super) fn perhaps_not(error: RegistryError) -> Self {
        Self {
            error,
            again: Again::Soon,
        }
    }
}

impl Registry {
    /// Returns when it may be tried again, or the error if it may not.
    pub(super) async fn pause(
        &self,
        retries: &mut Retries,
        failed: Failed,
    ) -> Result<(), RegistryError> {
        let Failed { mut error, again } = failed;
        retries.made += 1;
        if let RegistryError::Busy { attempts, .. } = &mut error {
            *attempts = retries.made;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let Some(pause) = self.access.patience.pause(retries.made, again, left) else {
            return Err(error);
        };
        let milliseconds = pause.as_millis();
        tracing::info!(%error, attempt = retries.made, milliseconds, "trying again");
        sleep(pause).await;
        Ok(())
    }
}

//! Notes of a history that is gone: it was lost, or its backend was taken away and is there again, on the same records.

use super::{FORM, MARKS, REPLACED, Records, failed};
use crate::refusal::Refusal;
use wasmount_core::state::{Expect, STATE_SCAN_ENTRIES};

impl Records {
    /// Forgets them, durably. Whose the records are is noted by the plugin's version, and stays.
    pub(crate) async fn forget_numbers(&self) -> Result<(), Refusal> {
        let mut keys = Vec::new();
        for prefix in [FORM, MARKS, REPLACED] {
            let mut after: Option<String> = None;
            loop {
                let page = self
                    .state
                    .scan(&self.own(), prefix, after.as_deref(), STATE_SCAN_ENTRIES)
                    .await;
                let page = page.map_err(|error| failed("read", error))?;
                let Some(last) = page.last() else {
                    break;
                };
                after = Some(last.key.clone());
                keys.extend(page.into_iter().map(|entry| entry.key));
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        for key in keys {
            let removed = self.state.remove(&self.own(), &key, Expect::Any).await;
            removed.map_err(|error| failed("write", error))?;
        }
        let synced = self.state.sync().await;
        synced.map_err(|error| failed("write", error))
    }
}

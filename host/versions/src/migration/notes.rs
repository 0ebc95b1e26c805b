//! Notes of the host beside the records of a backend, in its own keyspace.

use super::{FORM, Form, MARKS, REPLACED, Records, parsed, unread, unwritten, written};
use crate::refusal::Refusal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasmount_core::state::Expect;

/// Key that holds the version of the plugin.
const MAKER: &str = "made-for";

#[derive(Serialize, Deserialize)]
struct Maker {
    plugin_version: String,
}

impl Records {
    /// The version for which the records were last written; none: no migration rewrote them.
    pub(crate) async fn form(&self) -> Result<Option<u64>, Refusal> {
        let form: Option<Form> = self.own_parsed(FORM).await?;
        Ok(form.map(|form| form.version))
    }

    /// Removes, durably, the notes of a history that is gone: it was lost, or its backend was removed and created again on the same records. The
    /// owner of the records is the plugin's version, and that note stays.
    pub(crate) async fn forget_numbers(&self) -> Result<(), Refusal> {
        let mut keys = Vec::new();
        for prefix in [FORM, MARKS, REPLACED] {
            let entries = self.state.scan_all(&self.own, prefix, None).await;
            let entries = entries.map_err(unread)?;
            keys.extend(entries.into_iter().map(|entry| entry.key));
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.remove_own(keys).await?;
        self.state.sync().await.map_err(unwritten)
    }

    /// The version of the plugin for which the records were last written, shared by all hosts of these records; none: no host has noted it. A host
    /// that does not share its records reads it when its history is lost; of several hosts only the elected one may write it.
    pub(crate) async fn made_for(&self) -> Result<Option<String>, Refusal> {
        let maker: Option<Maker> = self.own_parsed(MAKER).await?;
        Ok(maker.map(|maker| maker.plugin_version))
    }

    /// Notes that this version writes the records from now on. Durable with the first record that it writes, or before. Returns whether that is new.
    pub(crate) async fn note_maker(&self, plugin_version: &str) -> Result<bool, Refusal> {
        if self.made_for().await?.as_deref() == Some(plugin_version) {
            return Ok(false);
        }
        let value = written(&Maker {
            plugin_version: plugin_version.to_owned(),
        })?;
        let put = self.state.put(&self.own, MAKER, value, Expect::Any).await;
        put.map_err(unwritten)?;
        Ok(true)
    }

    /// The same, durable at once.
    pub(crate) async fn make_for(&self, plugin_version: &str) -> Result<(), Refusal> {
        if self.note_maker(plugin_version).await? {
            self.state.sync().await.map_err(unwritten)?;
        }
        Ok(())
    }

    pub(super) async fn remove_own(&self, keys: Vec<String>) -> Result<(), Refusal> {
        for key in keys {
            let removed = self.state.remove(&self.own, &key, Expect::Any).await;
            removed.map_err(unwritten)?;
        }
        Ok(())
    }

    pub(super) async fn own_value(&self, key: &str) -> Result<Option<Vec<u8>>, Refusal> {
        let entry = self.state.get(&self.own, key).await.map_err(unread)?;
        Ok(entry.map(|entry| entry.value))
    }

    async fn own_parsed<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Refusal> {
        let value = self.own_value(key).await?;
        value.map(|value| parsed(&value)).transpose()
    }
}

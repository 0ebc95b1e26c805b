//! For which version of the plugin the records were made last, as all hosts know it that share them. A host that is alone with its records asks it
//! when its history was lost; of several only the elected one may say it.

use super::{Records, failed, parsed, written};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use wasmount_core::state::Expect;

const MAKER: &str = "made-for";

#[derive(Serialize, Deserialize)]
struct Maker {
    plugin_version: String,
}

impl Records {
    /// As the plugin calls its version; none: no host has said.
    pub(crate) async fn made_for(&self) -> Result<Option<String>, Refusal> {
        let entry = self.state.get(&self.own(), MAKER).await;
        let Some(entry) = entry.map_err(|error| failed("read", error))? else {
            return Ok(None);
        };
        let maker: Maker = parsed(&entry.value)?;
        Ok(Some(maker.plugin_version))
    }

    /// From now on this version writes them. Durable with the first record that it writes, or before.
    pub(crate) async fn note_maker(&self, plugin_version: &str) -> Result<(), Refusal> {
        self.put_maker(plugin_version).await.map(|_| ())
    }

    /// The same, durable at once.
    pub(crate) async fn make_for(&self, plugin_version: &str) -> Result<(), Refusal> {
        if !self.put_maker(plugin_version).await? {
            return Ok(());
        }
        let synced = self.state.sync().await;
        synced.map_err(|error| failed("write", error))
    }

    /// Whether that is new.
    async fn put_maker(&self, plugin_version: &str) -> Result<bool, Refusal> {
        if self.made_for().await?.as_deref() == Some(plugin_version) {
            return Ok(false);
        }
        let maker = Maker {
            plugin_version: plugin_version.to_owned(),
        };
        let value = written(&maker)?;
        let put = self.state.put(&self.own(), MAKER, value, Expect::Any).await;
        put.map_err(|error| failed("write", error))?;
        Ok(true)
    }
}

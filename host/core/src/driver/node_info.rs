//! NodeGetInfo. Kubernetes keeps node id and topology in CSINode, where neither may change, and kubelet may ask before the plugin is loaded.
//!
//! The backend's first answer is kept in the host's keyspace and remains in force; only the volume limit follows the backend. Calls are answered from
//! memory. For a newer limit the host queries the backend again, and subscribers of the answers receive it.

use super::plugin::Plugin;
use super::service::{read_record, write_record};
use super::work::Work;
use super::{Driver, NodeInfo};
use crate::backend::NodeDescription;
use crate::call::Incoming;
use crate::capabilities::PluginCapability;
use crate::error::Error;
use crate::rpc::Rpc;
use crate::services::Service;
use crate::state::{Expect, Outcome};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Key of the kept description in the host's keyspace.
const KEY: &str = "node-info";
/// Pause after the first failed query; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses. 30 s: an administrator who repairs a backend will wait that long. A newly loaded plugin is queried at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Driver {
    /// NodeGetInfo: from memory after a plugin's first answer. If the plugin is missing or fails, the description that was kept earlier remains in
    /// force.
    pub async fn node_get_info(self: &Arc<Self>, incoming: Incoming) -> Result<NodeInfo, Error> {
        self.read(Rpc::NodeGetInfo, incoming, |work| async move {
            let driver = &work.driver;
            let kept = match work.node_description().await {
                Ok(description) => description,
                Err(error) => driver.kept_node().await?.ok_or(error)?,
            };
            Ok(driver.report_node_info(kept))
        })
        .await
    }

    /// Sends the kept description to subscribers, unless they received a newer one. No plugin is called.
    pub(super) async fn report_kept_node(&self) -> Result<(), Error> {
        if let Some(kept) = self.kept_node().await? {
            let info = self.as_node_info(kept);
            self.node_info.send_if_modified(|last| {
                let is_first = last.is_none();
                last.get_or_insert(info);
                is_first
            });
        }
        Ok(())
    }

    /// Queries the backend again for the volume limit, which NodeGetInfo returns from then on. Until it answers, and if it fails, the last limit
    /// remains in force.
    pub async fn refresh_node_info(
        self: &Arc<Self>,
        incoming: Incoming,
    ) -> Result<NodeInfo, Error> {
        self.read(Rpc::NodeGetInfo, incoming, |work| async move {
            let plugin = work.needed_plugin()?;
            let turn = plugin.node.query_lock.lock().await;
            let description = work.query_and_cache(plugin).await?;
            drop(turn);
            Ok(work.driver.report_node_info(description))
        })
        .await
    }

    /// Reports the kept description, then that of each activated plugin, and its limit again in each `period`. Never ends.
    pub async fn watch_node_info(self: &Arc<Self>, period: Option<Duration>) {
        let mut offers = self.offers();
        let mut pause = FIRST_PAUSE;
        loop {
            let has_plugin = offers.borrow_and_update().is_some();
            let next = match self.update_node_info(has_plugin).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    period
                }
                Err(error) => {
                    let paused = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    tracing::warn!(
                        driver = %self.name(), %error, retry_seconds = paused.as_secs(),
                        "the node has no description: the last one stays in effect"
                    );
                    Some(paused)
                }
            };
            let time = async {
                match next {
                    Some(next) => sleep(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = time => {}
                // The sender lives in `self`, so this cannot fail.
                _ = offers.changed() => pause = FIRST_PAUSE,
            }
        }
    }

    async fn update_node_info(self: &Arc<Self>, has_plugin: bool) -> Result<(), Error> {
        self.report_kept_node().await?;
        if has_plugin {
            let incoming = Incoming {
                request_id: "node-info".to_owned(),
                ..Incoming::default()
            };
            self.refresh_node_info(incoming).await?;
        }
        Ok(())
    }

    /// The answer of NodeGetInfo, and each change of it; none while it is unknown.
    pub fn node_info_answers(&self) -> watch::Receiver<Option<NodeInfo>> {
        self.node_info.subscribe()
    }

    fn report_node_info(&self, kept: NodeDescription) -> NodeInfo {
        let info = self.as_node_info(kept);
        self.node_info.send_if_modified(|last| {
            let changes = last.as_ref() != Some(&info);
            if changes {
                *last = Some(info.clone());
            }
            changes
        });
        info
    }

    fn as_node_info(&self, kept: NodeDescription) -> NodeInfo {
        let topology = PluginCapability::VolumeAccessibilityConstraints.name();
        let hides_topology = self.policy_now(|policy| policy.hidden.hides(topology));
        NodeInfo {
            id: kept.id.unwrap_or_else(|| self.config.node_id.clone()),
            max_volumes: kept.max_volumes,
            topology: kept.topology.filter(|_| !hides_topology),
        }
    }

    async fn kept_node(&self) -> Result<Option<NodeDescription>, Error> {
        let entry = self.state.get(&self.own_keys(), KEY).await?;
        entry.map(|entry| read_record(&entry.value)).transpose()
    }

    /// Keeps a description durably; the first one wins, except for the volume limit.
    async fn keep_node(&self, description: NodeDescription) -> Result<NodeDescription, Error> {
        let space = self.own_keys();
        let (kept, expect) = match self.state.get(&space, KEY).await? {
            None => (description, Expect::Absent),
            Some(entry) => {
                let kept: NodeDescription = read_record(&entry.value)?;
                if (&kept.id, &kept.topology) != (&description.id, &description.topology) {
                    tracing::warn!(
                        "node-info returned another id or topology: the first ones stay in effect, since CSINode cannot change them"
                    );
                }
                if kept.max_volumes == description.max_volumes {
                    return Ok(kept);
                }
                let kept = NodeDescription {
                    max_volumes: description.max_volumes,
                    ..kept
                };
                (kept, Expect::Revision(entry.revision))
            }
        };
        match self
            .state
            .put(&space, KEY, write_record(&kept)?, expect)
            .await?
        {
            Outcome::Done(_) => {
                self.state.sync().await?;
                Ok(kept)
            }
            Outcome::Conflict(Some(entry)) => read_record(&entry.value),
            Outcome::Conflict(None) => Ok(kept),
        }
    }
}

impl Work {
    async fn node_description(&self) -> Result<NodeDescription, Error> {
        let plugin = self.needed_plugin()?;
        if let Some(description) = plugin.node.description.load_full() {
            return Ok(description.as_ref().clone());
        }
        let _turn = plugin.node.query_lock.lock().await;
        match plugin.node.description.load_full() {
            Some(description) => Ok(description.as_ref().clone()),
            None => self.query_and_cache(plugin).await,
        }
    }

    async fn query_and_cache(&self, plugin: &Plugin) -> Result<NodeDescription, Error> {
        let kept = self.driver.keep_node(self.query_node().await?).await?;
        plugin.node.description.store(Some(Arc::new(kept.clone())));
        Ok(kept)
    }

    async fn query_node(&self) -> Result<NodeDescription, Error> {
        let backend = self.backend()?;
        if !backend.offer().has(Service::NodeInfo) {
            return Ok(NodeDescription::default());
        }
        Ok(backend.node_info(&self.call).await?)
    }
}

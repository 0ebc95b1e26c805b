//! The volume conditions of CSI 1.12, which stand in answers of other calls.

use super::in_time;
use crate::driver::work::Work;
use crate::health::{Health, condition, merged};
use crate::mounter::HealthQuery;
use crate::names::VolumeId;
use crate::volume::{VolumeCondition, VolumeEntry};
use tokio::time::{Instant, timeout_at};

/// What somebody finds, or why he cannot tell.
type View = Result<Vec<Health>, String>;

impl Work {
    /// Gives a condition to every volume that has none, as VOLUME_CONDITION demands.
    pub(in crate::driver) async fn fill_conditions(
        &self,
        entries: &mut [VolumeEntry],
        until: Instant,
    ) {
        for entry in entries {
            if entry.status.condition.is_none() {
                let view = self.view_of_backend(&entry.volume.id, until).await;
                entry.status.condition = Some(of_views([view]));
            }
        }
    }

    /// The condition of a volume on this node: what the host sees, and what the backend says.
    pub(in crate::driver) async fn node_condition(&self, id: &VolumeId) -> VolumeCondition {
        let until = in_time();
        // All places of the volume: one that is sick makes it so, wherever statistics were asked for.
        let query = HealthQuery {
            key: self.driver.key(id.clone()),
            publish_path: None,
            staging_path: None,
        };
        let here = async {
            match timeout_at(until, self.driver.mounter.health(query)).await {
                Ok(here) => here.map_err(|error| error.to_string()),
                Err(_) => Err("the host could not tell in time".to_owned()),
            }
        };
        let backend = async {
            let said = self.health_said_on_node(id, until).await;
            said.map(Option::unwrap_or_default)
                .map_err(|error| error.to_string())
        };
        let (here, backend) = tokio::join!(here, backend);
        of_views([here, backend])
    }

    async fn view_of_backend(&self, id: &VolumeId, until: Instant) -> View {
        if Instant::now() >= until && self.driver.health.known(&self.view(id)).is_none() {
            return Err("there was no time to ask".to_owned());
        }
        let said = self.health_said(id, until).await;
        said.map_err(|error| error.to_string())
    }
}

/// What is found counts, whoever else cannot tell. A volume is not sick because nobody could look.
fn of_views(views: impl IntoIterator<Item = View>) -> VolumeCondition {
    let (mut found, mut not_told) = (Vec::new(), Vec::new());
    for view in views {
        match view {
            Ok(findings) => found.extend(findings),
            Err(reason) => not_told.push(reason),
        }
    }
    if found.is_empty() && !not_told.is_empty() {
        return VolumeCondition {
            abnormal: false,
            message: format!("the condition is not known: {}", not_told.join("; ")),
        };
    }
    condition(&merged(found))
}

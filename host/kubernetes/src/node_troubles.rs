//! Problems of the host itself, reported as events on its Node.

use crate::event_rate_limiter::EventRateLimiter;
use crate::events::{About, Events};
use std::collections::BTreeMap;
use std::time::Instant;
use wasmount_core::names::DriverName;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// No volume can be mounted, or kubelet would not see the mount.
    CannotMount,
    /// A driver has no plugin.
    PluginNotLoaded,
    /// A driver's storage cannot be used on this node.
    StorageNotUsable,
}

/// The current problems, as sentences; by kind, and by driver if a problem belongs to one driver.
pub type Troubles = BTreeMap<(TroubleKind, Option<DriverName>), String>;

/// Reports the problems of one node.
pub struct NodeTroubles {
    events: Events,
    node: About,
    repeated: EventRateLimiter,
    told: Troubles,
}

impl TroubleKind {
    /// Reasons of the events: for the beginning and for the end of a problem.
    fn reasons(self) -> [&'static str; 2] {
        match self {
            Self::CannotMount => ["VolumesCannotBeMounted", "VolumesCanBeMounted"],
            Self::PluginNotLoaded => ["PluginNotLoaded", "PluginLoaded"],
            Self::StorageNotUsable => ["StorageNotUsable", "StorageUsable"],
        }
    }
}

impl NodeTroubles {
    /// For the node of this name.
    pub fn new(events: Events, node: String) -> Self {
        Self {
            events,
            node: About::Node { name: node },
            repeated: EventRateLimiter::new(Instant::now()),
            told: Troubles::new(),
        }
    }

    /// Reports problems that are new since the last time, and the end of those that were reported.
    pub async fn now(&mut self, troubles: &Troubles) {
        for (key, words) in troubles {
            if self.told.contains_key(key) {
                continue;
            }
            let (kind, driver) = key;
            let [reason, _] = kind.reasons();
            let what = format!("{reason} {}", name(driver));
            if !self.repeated.may_say(&self.node, &what, Instant::now()) {
                continue;
            }
            let note = format!("{}{words}", prefix(driver));
            if self.events.warn(&self.node, reason, "Serving", note).await {
                self.told.insert(key.clone(), words.clone());
            } else {
                self.repeated.not_said(&self.node, &what);
            }
        }
        let over: Vec<_> = self
            .told
            .keys()
            .filter(|key| !troubles.contains_key(key))
            .cloned()
            .collect();
        for key in over {
            let (kind, driver) = &key;
            let note = format!("{}as it should be again", prefix(driver));
            let [_, reason] = kind.reasons();
            self.events
                .inform(&self.node, reason, "Serving", note)
                .await;
            self.told.remove(&key);
        }
    }
}

fn name(driver: &Option<DriverName>) -> &str {
    driver.as_ref().map_or("", DriverName::as_str)
}

fn prefix(driver: &Option<DriverName>) -> String {
    driver
        .as_ref()
        .map_or_else(String::new, |driver| format!("{driver}: "))
}

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
    reported: Troubles,
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
            node: About::node(&node),
            repeated: EventRateLimiter::new(Instant::now()),
            reported: Troubles::new(),
        }
    }

    /// Reports problems that are new since the last time, and the end of those that were reported.
    pub async fn now(&mut self, troubles: &Troubles) {
        for (key, text) in troubles {
            if self.reported.contains_key(key) {
                continue;
            }
            let (kind, driver) = key;
            let [reason, _] = kind.reasons();
            let what = format!("{reason} {}", prefix(driver));
            if !self.repeated.may_write(&self.node, &what, Instant::now()) {
                continue;
            }
            let note = format!("{}{text}", prefix(driver));
            if self.events.warn(&self.node, reason, "Serving", note).await {
                self.reported.insert(key.clone(), text.clone());
            } else {
                self.repeated.not_written(&self.node, &what);
            }
        }
        let reported = &mut self.reported;
        let over = reported.extract_if(.., |key, _| !troubles.contains_key(key));
        for ((kind, driver), _) in over.collect::<Vec<_>>() {
            let note = format!("{}the problem is resolved", prefix(&driver));
            let [_, reason] = kind.reasons();
            self.events
                .inform(&self.node, reason, "Serving", note)
                .await;
        }
    }
}

fn prefix(driver: &Option<DriverName>) -> String {
    driver
        .as_ref()
        .map_or_else(String::new, |driver| format!("{driver}: "))
}

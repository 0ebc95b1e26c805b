//! `spec.rollout`, checked: the steps by which a change of an object reaches the hosts.

use std::collections::BTreeMap;
use std::time::Duration;

/// The steps; after the last one all hosts take the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// In their order; at least one.
    pub steps: Vec<RolloutStep>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutStep {
    /// The hosts that it adds.
    pub hosts: StepHosts,
    /// How long all of them must serve the change before the next step.
    pub pause: Duration,
}

/// The hosts of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepHosts {
    /// A share of the hosts on nodes, 1 to 100.
    Percent(u8),
    /// The hosts on nodes with these labels; never empty.
    Labels(BTreeMap<String, String>),
}

impl Rollout {
    /// The number of the first step, from 1, whose labels a node has.
    pub fn selected(&self, labels: &BTreeMap<String, String>) -> Option<u64> {
        let position = self.steps.iter().position(|step| match &step.hosts {
            StepHosts::Percent(_) => false,
            StepHosts::Labels(wanted) => {
                let mut wanted = wanted.iter();
                wanted.all(|(key, value)| labels.get(key) == Some(value))
            }
        });
        Some(position? as u64 + 1)
    }

    /// Whether a step selects by labels.
    pub fn has_labels(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step.hosts, StepHosts::Labels(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw;
    use super::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    fn read(steps: Value) -> Result<Rollout, String> {
        let raw = raw::Rollout::deserialize(json!({ "steps": steps }));
        let raw = raw.map_err(|error| error.to_string())?;
        Rollout::try_from(raw).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn steps_by_percent_and_labels_are_read() {
        let read = read(json!([
            { "selector": { "matchLabels": { "example.com/tier": "canary" } }, "pause": "10m" },
            { "percent": 10, "pause": "168h" },
            { "percent": 100 },
        ]));
        let labels = [("example.com/tier".to_owned(), "canary".to_owned())].into();
        let step = |hosts, seconds| RolloutStep {
            hosts,
            pause: Duration::from_secs(seconds),
        };
        let rollout = Rollout {
            steps: vec![
                step(StepHosts::Labels(labels), 600),
                step(StepHosts::Percent(10), 7 * 24 * 60 * 60),
                step(StepHosts::Percent(100), 0),
            ],
        };
        assert_eq!(read, Ok(rollout));
    }

    #[test]
    fn invalid_steps_are_rejected_with_their_key() {
        let labels = |labels: Value| json!([{ "selector": { "matchLabels": labels } }]);
        for (steps, message) in [
            (json!([]), "spec.rollout.steps: must have 1 to 10 steps"),
            (
                Value::from(vec![json!({ "percent": 1 }); 11]),
                "spec.rollout.steps: must have 1 to 10 steps",
            ),
            (
                json!([{ "pause": "1m" }]),
                "spec.rollout.steps[0]: must have one of `percent` and `selector`",
            ),
            (
                json!([{ "percent": 5, "selector": { "matchLabels": { "a": "b" } } }]),
                "spec.rollout.steps[0]: must have one of `percent` and `selector`",
            ),
            (
                json!([{ "percent": 0 }]),
                "spec.rollout.steps[0].percent: must be between 1 and 100",
            ),
            (
                json!([{ "percent": 101 }]),
                "spec.rollout.steps[0].percent: must be between 1 and 100",
            ),
            (
                json!([{ "percent": 20 }, { "percent": 20 }]),
                "spec.rollout.steps[1].percent: must be greater than 20, that of the step before",
            ),
            (
                json!([{ "percent": 5, "pause": "169h" }]),
                "spec.rollout.steps[0].pause: must be a duration",
            ),
            (
                json!([{ "percent": 5, "pause": "0s" }]),
                "spec.rollout.steps[0].pause: must be a duration",
            ),
            (
                labels(json!({})),
                "spec.rollout.steps[0].selector.matchLabels: must have 1 to 16 labels",
            ),
            (
                labels(json!({ "-a": "b" })),
                "spec.rollout.steps[0].selector.matchLabels.-a: is not a label of Kubernetes",
            ),
            (
                labels(json!({ "a": "b c" })),
                "spec.rollout.steps[0].selector.matchLabels.a: is not a label of Kubernetes",
            ),
        ] {
            let refused = read(steps).unwrap_err();
            assert!(refused.starts_with(message), "{refused}");
        }
    }

    #[test]
    fn a_node_is_selected_by_the_first_step_with_its_labels() {
        let rollout = read(json!([
            { "percent": 5 },
            { "selector": { "matchLabels": { "tier": "canary", "zone": "a" } } },
            { "selector": { "matchLabels": { "tier": "canary" } } },
        ]))
        .unwrap();
        assert!(rollout.has_labels());
        for (labels, step) in [
            (
                &[("tier", "canary"), ("zone", "a"), ("more", "")][..],
                Some(2),
            ),
            (&[("tier", "canary")], Some(3)),
            (&[("tier", "gold"), ("zone", "a")], None),
            (&[], None),
        ] {
            let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string()));
            assert_eq!(rollout.selected(&labels.collect()), step);
        }
    }
}

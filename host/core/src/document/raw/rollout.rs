//! `spec.rollout` of an object, as written.

use super::limits::duration;
#[cfg(feature = "schema")]
use super::rules;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most steps: more are generated, not written by a person.
pub const STEPS_MAX: usize = 10;
/// Most labels of a selector.
pub const LABELS_MAX: usize = 16;

/// How a change reaches the hosts: some of them first, all of them after the last step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rollout {
    /// The steps in their order. A host that takes part in a step takes part in all later ones.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = STEPS_MAX), extend("x-kubernetes-validations" = rules::rules([
        ("self.filter(s, has(s.percent)).map(s, s.percent).isSorted() && self.all(s, !has(s.percent) || self.exists_one(t, has(t.percent) && t.percent == s.percent))", "each `percent` must be greater than the one before"),
    ]))))]
    pub steps: Vec<RolloutStep>,
}

/// The hosts that a step adds, and how long it lasts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.percent) != has(self.selector)", "must have one of `percent` and `selector`"),
]))))]
pub struct RolloutStep {
    /// Share of the hosts on nodes, 1 to 100; at least one host.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub percent: Option<u64>,
    /// The hosts on nodes with these labels.
    pub selector: Option<NodeSelector>,
    /// How long all hosts of the step must serve the change before the next step; not at all by default.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::week"))]
    pub pause: Option<String>,
}

/// Labels of nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeSelector {
    /// Labels that a node must have, each with this value.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::labels"))]
    pub match_labels: BTreeMap<String, String>,
}

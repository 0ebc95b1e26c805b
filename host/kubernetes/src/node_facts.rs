//! What hosts of nodes tell the controller of their driver: `NodeFacts`, one object for each node and driver.
//!
//! ```text
//! host of a node ── apply, upon change ──▶ NodeFacts ◀── get, for each question ── controller
//!                                          NodeFacts ── watch, if nodes are to be registered ──▶ controller
//! kubelet ──▶ CSINode: node id of each driver ──────────── watch: which node has an id ──▶ controller
//! ```
//!
//! A node id is looked up in CSINode and not in what a node says: one node could else claim the id of another, whose volumes it would get.

mod csi_nodes;
mod directory;
mod listed;
mod watched;
mod writer;

pub use directory::KubernetesNodes;
pub use writer::NodeFactsWriter;

use crate::request::resource_of;
use crate::storage_backend::report_name;
use kube::api::{ApiResource, NotUsed, Object};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{FactValues, NodeFact};
use wasmount_core::nodes::Facts;

/// The definition of the kind.
pub(crate) const DEFINITION: &str = include_str!("node_facts/nodefacts.yaml");
const KIND: &str = "NodeFacts";

/// An object of the API server.
type FactsObject = Object<FactsSpec, NotUsed>;

/// Its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FactsSpec {
    driver: String,
    node: String,
    /// By names, of which a later host may know more.
    facts: BTreeMap<String, Vec<String>>,
}

impl FactsSpec {
    fn new(driver: &DriverName, node: &str, facts: &Facts) -> Self {
        let named = facts.iter();
        let named = named.map(|(fact, values)| (fact.name().to_owned(), values.clone().into_vec()));
        Self {
            driver: driver.to_string(),
            node: node.to_owned(),
            facts: named.collect(),
        }
    }

    /// The facts that this host knows and can use. What is wrong with the others is logged when the facts are asked for (`logs`), and not whenever the
    /// objects are looked at upon a change of any.
    fn facts(&self, logs: bool) -> Facts {
        let parsed = self.facts.iter().filter_map(|(name, values)| {
            let fact = NodeFact::parse(name)?;
            let values = FactValues::try_from(values.clone());
            if let (true, Err(error)) = (logs, &values) {
                tracing::warn!(node = self.node, fact = name, %error, "a fact of a node is not used");
            }
            Some((fact, values.ok()?))
        });
        parsed.collect()
    }
}

/// The kind in requests to the API server.
fn resource() -> ApiResource {
    resource_of(KIND, "nodefacts")
}

/// The name of a node's object.
fn name(driver: &DriverName, node: &str) -> String {
    report_name(driver.as_str(), node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver() -> DriverName {
        DriverName::parse("a.example").unwrap()
    }

    fn values(values: &[&str]) -> FactValues {
        let values: Vec<_> = values.iter().map(|it| (*it).to_owned()).collect();
        values.try_into().unwrap()
    }

    #[test]
    fn facts_are_read_as_they_were_told() {
        let facts = Facts::from([
            (NodeFact::Iqn, values(&["iqn.a"])),
            (NodeFact::Nqn, values(&[])),
        ]);
        let spec = FactsSpec::new(&driver(), "n", &facts);
        let json = serde_json::to_value(&spec).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "driver": "a.example", "node": "n", "facts": { "iqn": ["iqn.a"], "nqn": [] } })
        );
        assert_eq!(spec.facts(true), facts);
    }

    #[test]
    fn unknown_and_invalid_facts_are_left_out() {
        let spec = FactsSpec {
            driver: "a.example".to_owned(),
            node: "n".to_owned(),
            facts: [("wwpn", "1"), ("iqn", "a\nb"), ("nqn", "nqn.a")]
                .map(|(name, value)| (name.to_owned(), vec![value.to_owned()]))
                .into(),
        };
        let expected = Facts::from([(NodeFact::Nqn, values(&["nqn.a"]))]);
        assert_eq!(spec.facts(true), expected);
    }
}

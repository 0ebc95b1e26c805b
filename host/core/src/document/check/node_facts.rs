//! The facts of the node that a document grants.

use super::Checked;
use crate::document::KeyPath;
use crate::node_fact::NodeFact;
use std::collections::BTreeSet;

/// Each fact once.
pub(super) fn checked(key: &KeyPath, names: Vec<String>) -> Checked<BTreeSet<NodeFact>> {
    let mut granted = BTreeSet::new();
    key.each(names, |key, name| {
        let fact = NodeFact::parse(&name);
        let fact = fact
            .ok_or_else(|| key.invalid(format!("unknown fact; known are {}", NodeFact::names())))?;
        key.ensure(granted.insert(fact), "is listed twice")?;
        Ok(fact)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: &str =
        "unknown fact; known are `instance-id`, `zone`, `iqn`, `nqn`, `addresses`, `multipath`";

    fn granted(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let granted = checked(&KeyPath::of("spec.grants.nodeFacts"), names);
        let granted = granted.map_err(|refused| refused.to_string())?;
        Ok(granted.into_iter().map(NodeFact::name).collect())
    }

    #[test]
    fn facts_of_the_node_are_granted_by_name() {
        assert_eq!(granted(&[]), Ok(Vec::new()));
        let some = ["zone", "iqn", "instance-id"];
        assert_eq!(granted(&some), Ok(vec!["instance-id", "zone", "iqn"]));
    }

    #[test]
    fn an_unknown_or_repeated_fact_is_refused_by_its_key() {
        for (names, refused) in [
            (["zone", "serial"], UNKNOWN),
            (["zone", "Zone"], UNKNOWN),
            (["zone", "zone"], "is listed twice"),
        ] {
            let refused = format!("spec.grants.nodeFacts[1]: {refused}");
            assert_eq!(granted(&names), Err(refused));
        }
    }
}

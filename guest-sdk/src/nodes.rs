//! Facts of any node, for the controller service: what a storage system must know of a node before a volume is attached to it. The administrator
//! grants each by its name (`grants.nodes`); the host of each node tells them.
//!
//! ```
//! use wasmount_guest::{Error, nodes, testing};
//!
//! fn initiator_of(node: &str) -> Result<String, Error> {
//!     let iqn = nodes::iqn(node)?;
//!     iqn.ok_or_else(|| Error::failed_precondition(format!("install open-iscsi on `{node}`")))
//! }
//!
//! testing::reset();
//! testing::set_fact_of_node("node-1", "iqn", &["iqn.2004-10.com.example:node-1"]);
//! assert_eq!(initiator_of("node-1").unwrap(), "iqn.2004-10.com.example:node-1");
//! ```

use crate::error::Error;
use crate::imports;

/// The name of a node's iSCSI initiator; `None`: it has none.
pub fn iqn(node: &str) -> Result<Option<String>, Error> {
    one(node, "iqn")
}

/// The host name of a node in NVMe over Fabrics; `None`: it has none.
pub fn nqn(node: &str) -> Result<Option<String>, Error> {
    one(node, "nqn")
}

/// The IP addresses of a node's own network interfaces.
pub fn addresses(node: &str) -> Result<Vec<String>, Error> {
    facts(node, "addresses")
}

/// The values of any fact, by the names of [`node_facts`](crate::node_facts); empty: that node has none. `not-found`: no node has this id.
pub fn facts(node: &str, name: &str) -> Result<Vec<String>, Error> {
    imports::nodes::facts(node, name)
}

fn one(node: &str, name: &str) -> Result<Option<String>, Error> {
    Ok(facts(node, name)?.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    #[test]
    fn facts_of_each_node_are_read() {
        testing::reset();
        testing::set_fact_of_node("a", "iqn", &["iqn.a"]);
        testing::set_fact_of_node("b", "iqn", &[]);
        testing::set_fact_of_node("b", "addresses", &["192.0.2.1", "192.0.2.2"]);
        testing::set_fact_of_node("b", "nqn", &["nqn.b"]);
        assert_eq!(iqn("a").unwrap().as_deref(), Some("iqn.a"));
        assert_eq!(iqn("b"), Ok(None));
        assert_eq!(nqn("b").unwrap().as_deref(), Some("nqn.b"));
        assert_eq!(addresses("b").unwrap(), ["192.0.2.1", "192.0.2.2"]);
    }

    #[test]
    fn what_is_not_granted_not_told_or_no_node_is_refused() {
        testing::reset();
        let code = |refused: Error| refused.code;
        assert_eq!(iqn("a").map_err(code), Err(Code::PermissionDenied));
        testing::set_fact_of_node("a", "iqn", &["iqn.a"]);
        testing::set_fact_of_node("b", "nqn", &["nqn.b"]);
        assert_eq!(iqn("b").map_err(code), Err(Code::Unavailable));
        assert_eq!(iqn("c").map_err(code), Err(Code::NotFound));
    }
}

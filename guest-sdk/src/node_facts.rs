//! Facts that only the node can tell about itself, for the node service. The administrator grants each by its name (`grants.nodeFacts`).
//!
//! ```
//! use wasmount_guest::{NodeDescription, Topology, node_facts, testing};
//!
//! fn describe() -> Result<NodeDescription, wasmount_guest::Error> {
//!     Ok(NodeDescription {
//!         id: Some(node_facts::instance_id()?),
//!         max_volumes: None,
//!         topology: node_facts::zone()?.map(|zone| Topology::of("example.com/zone", zone)),
//!     })
//! }
//!
//! testing::reset();
//! testing::set_node_fact("instance-id", &["d8e02d56-2648-49a3-bf97-6be8f1204f38"]);
//! testing::set_node_fact("zone", &[]);
//! assert_eq!(describe().unwrap().topology, None);
//! ```

use crate::error::Error;
use crate::imports;

/// The id of the node as an instance of its cloud; for OpenStack the id that Nova gives it.
pub fn instance_id() -> Result<String, Error> {
    let id = one("instance-id")?;
    id.ok_or_else(|| Error::unavailable("the node is no instance of a cloud"))
}

/// The availability zone of that instance; `None`: its cloud has none.
pub fn zone() -> Result<Option<String>, Error> {
    one("zone")
}

/// The name of the node's iSCSI initiator; `None`: it has none.
pub fn iqn() -> Result<Option<String>, Error> {
    one("iqn")
}

/// The host name of the node in NVMe over Fabrics; `None`: it has none.
pub fn nqn() -> Result<Option<String>, Error> {
    one("nqn")
}

/// The IP addresses of the node's own network interfaces.
pub fn addresses() -> Result<Vec<String>, Error> {
    get("addresses")
}

/// Which parts of the node's kernel join the paths to one device: `dm`, `nvme`.
pub fn multipath() -> Result<Vec<String>, Error> {
    get("multipath")
}

/// The values of a fact that this version of the crate has no function for; empty: this node has none.
pub fn get(name: &str) -> Result<Vec<String>, Error> {
    imports::node_facts::get(name)
}

fn one(name: &str) -> Result<Option<String>, Error> {
    Ok(get(name)?.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    #[test]
    fn facts_that_are_granted_are_read() {
        testing::reset();
        testing::set_node_fact("instance-id", &["a"]);
        testing::set_node_fact("zone", &["b"]);
        testing::set_node_fact("addresses", &["192.0.2.1", "192.0.2.2"]);
        assert_eq!(instance_id().as_deref(), Ok("a"));
        assert_eq!(zone(), Ok(Some("b".to_owned())));
        assert_eq!(addresses().unwrap(), ["192.0.2.1", "192.0.2.2"]);
        testing::set_node_fact("iqn", &["iqn.a"]);
        testing::set_node_fact("nqn", &[]);
        testing::set_node_fact("multipath", &["dm"]);
        assert_eq!(iqn().unwrap().as_deref(), Some("iqn.a"));
        assert_eq!(nqn(), Ok(None));
        assert_eq!(multipath().unwrap(), ["dm"]);
        assert_eq!(get("iqn").unwrap(), ["iqn.a"]);
    }

    #[test]
    fn facts_that_are_missing_or_not_granted_are_told_apart() {
        testing::reset();
        let code = |refused: Error| refused.code;
        assert_eq!(zone().map_err(code), Err(Code::PermissionDenied));
        testing::set_node_fact("zone", &[]);
        testing::set_node_fact("instance-id", &[]);
        assert_eq!(zone(), Ok(None));
        assert_eq!(instance_id().map_err(code), Err(Code::Unavailable));
        testing::fail_after(0, Error::unavailable("no metadata"));
        assert_eq!(zone().map_err(code), Err(Code::Unavailable));
    }
}

//! What this node is called when nobody says.

use crate::fault::Fault;
use wasmount_core::names::NodeId;

/// The host name, as kubelet takes it: lower case.
pub(crate) fn host_name() -> Result<NodeId, Fault> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().to_lowercase();
    NodeId::parse("host name", name.as_str()).map_err(|invalid| Fault::Flag {
        flag: "--node-id",
        value: name,
        reason: format!("{invalid}; name the node yourself"),
    })
}

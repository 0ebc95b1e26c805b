//! The contract as Rust types, generated from the only copy of the WIT files, which also ships with the guest SDK.
//!
//! Cheap imports are synchronous: they only read memory. Every import that can wait is `async`, so that a waiting guest holds no thread.

use crate::host_error::HostError;

wasmtime::component::bindgen!({
    inline: "package wasmount:host; world host { include wasmount:csi/full-plugin@0.1.0; import wasmount:csi/node-encryption@0.1.0; import wasmount:csi/node-facts@0.1.0; import wasmount:csi/node-iscsi@0.1.0; import wasmount:csi/node-nvme@0.1.0; import wasmount:csi/node-rbd@0.1.0; import wasmount:csi/nodes@0.1.0; import wasmount:csi/sealed-secrets@0.1.0; import wasmount:csi/session@0.1.0; export wasmount:csi/node-register@0.1.0; }",
    path: "../../guest-sdk/wit",
    world: "wasmount:host/host",
    imports: {
        "wasmount:csi/call": trappable,
        "wasmount:csi/secrets": trappable,
        "wasmount:csi/node-encryption": trappable,
        "wasmount:csi/node-iscsi": trappable,
        "wasmount:csi/node-nvme": trappable,
        "wasmount:csi/node-rbd": trappable,
        "wasmount:csi/node-plan": trappable,
        "wasmount:csi/sealed-secrets": trappable,
        default: async | trappable,
    },
    exports: { default: async },
    with: { "wasmount:csi/session.lease": crate::lease::HeldLease },
    trappable_error_type: { "wasmount:csi/types.error" => HostError },
    require_store_data_send: true,
});

pub(crate) use exports::wasmount::csi as exported;
pub(crate) use wasmount::csi as imported;
pub(crate) use wasmount::csi::types;

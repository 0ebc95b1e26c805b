//! The bindings that `wit-bindgen` generates from the contract: one `generate!` for all interfaces of the host, then one for each service.
//!
//! Each service has its own world, because the section that declares an export is inside of the generated `export!`: a component then declares
//! exactly the services that it names, and imports exactly the functions that it calls. A service does not depend on another one; the shared types
//! are in `imports`.

/// The shared types, and the interfaces of the host.
pub mod imports {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-imports; world imports { import wasmount:csi/types@0.1.0; include wasmount:csi/imports@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-imports/imports",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        runtime_path: "::wit_bindgen::rt",
    });
}

/// The interface `session`, by itself: a resource has no equality, which the others derive.
pub mod session {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-session; world session { import wasmount:csi/session@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-session/session",
        with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
}

/// The interfaces that are not part of the world `imports`, apart from `session`.
pub mod others {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-others; world others {
            import wasmount:csi/node-facts@0.1.0;
            import wasmount:csi/node-iscsi@0.1.0;
            import wasmount:csi/node-nvme@0.1.0;
            import wasmount:csi/node-rbd@0.1.0;
            import wasmount:csi/node-encryption@0.1.0;
            import wasmount:csi/nodes@0.1.0;
            import wasmount:csi/sealed-secrets@0.1.0;
        }",
        path: "wit",
        world: "wasmount:sdk-others/others",
        with: {
            "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types,
            "wasmount:csi/secrets@0.1.0": crate::bindings::imports::wasmount::csi::secrets,
        },
        generate_all,
        additional_derives: [PartialEq, Eq],
        runtime_path: "::wit_bindgen::rt",
    });
}

macro_rules! services {
    ($($module:ident: $world:literal),+ $(,)?) => {
        $(pub mod $module {
            wit_bindgen::generate!({
                inline: $world,
                path: "wit",
                with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
                generate_unused_types: true,
                additional_derives: [PartialEq, Eq],
                runtime_path: "::wit_bindgen::rt",
                pub_export_macro: true,
            });

            pub use exports::wasmount::csi::$module as interface;
        })+
    };
}

services! {
    identity: "package wasmount:sdk; world service-identity { export wasmount:csi/identity@0.1.0; }",
    controller: "package wasmount:sdk; world service-controller { export wasmount:csi/controller@0.1.0; }",
    controller_publish: "package wasmount:sdk; world service-controller-publish { export wasmount:csi/controller-publish@0.1.0; }",
    controller_expand: "package wasmount:sdk; world service-controller-expand { export wasmount:csi/controller-expand@0.1.0; }",
    controller_modify: "package wasmount:sdk; world service-controller-modify { export wasmount:csi/controller-modify@0.1.0; }",
    volume_listing: "package wasmount:sdk; world service-volume-listing { export wasmount:csi/volume-listing@0.1.0; }",
    volume_lookup: "package wasmount:sdk; world service-volume-lookup { export wasmount:csi/volume-lookup@0.1.0; }",
    capacity: "package wasmount:sdk; world service-capacity { export wasmount:csi/capacity@0.1.0; }",
    snapshots: "package wasmount:sdk; world service-snapshots { export wasmount:csi/snapshots@0.1.0; }",
    snapshot_listing: "package wasmount:sdk; world service-snapshot-listing { export wasmount:csi/snapshot-listing@0.1.0; }",
    group_snapshots: "package wasmount:sdk; world service-group-snapshots { export wasmount:csi/group-snapshots@0.1.0; }",
    snapshot_metadata: "package wasmount:sdk; world service-snapshot-metadata { export wasmount:csi/snapshot-metadata@0.1.0; }",
    volume_health: "package wasmount:sdk; world service-volume-health { export wasmount:csi/volume-health@0.1.0; }",
    node_info: "package wasmount:sdk; world service-node-info { export wasmount:csi/node-info@0.1.0; }",
    node_stage: "package wasmount:sdk; world service-node-stage { export wasmount:csi/node-stage@0.1.0; }",
    node_publish: "package wasmount:sdk; world service-node-publish { export wasmount:csi/node-publish@0.1.0; }",
    node_hooks: "package wasmount:sdk; world service-node-hooks { export wasmount:csi/node-hooks@0.1.0; }",
    node_register: "package wasmount:sdk; world service-node-register { export wasmount:csi/node-register@0.1.0; }",
    state_migration: "package wasmount:sdk; world service-state-migration { export wasmount:csi/state-migration@0.1.0; }",
}

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

/// The interface `node-facts`, by itself: it is not part of the world `imports`.
pub mod node_facts {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-node-facts; world node-facts { import wasmount:csi/node-facts@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-node-facts/node-facts",
        with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
}

/// The interfaces `node-iscsi`, `node-nvme`, `node-rbd` and `node-encryption`: they are not part of the world `imports`.
pub mod attached {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-attached; world attached { import wasmount:csi/node-iscsi@0.1.0; import wasmount:csi/node-nvme@0.1.0; import wasmount:csi/node-rbd@0.1.0; import wasmount:csi/node-encryption@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-attached/attached",
        with: {
            "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types,
            "wasmount:csi/secrets@0.1.0": crate::bindings::imports::wasmount::csi::secrets,
        },
        generate_all,
        additional_derives: [PartialEq, Eq],
        runtime_path: "::wit_bindgen::rt",
    });
}

/// The interface `nodes`, by itself: it is not part of the world `imports`.
pub mod nodes {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-nodes; world nodes { import wasmount:csi/nodes@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-nodes/nodes",
        with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
}

/// The interface `sealed-secrets`, by itself: it is not part of the world `imports`.
pub mod sealed_secrets {
    wit_bindgen::generate!({
        inline: "package wasmount:sdk-sealed-secrets; world sealed-secrets { import wasmount:csi/sealed-secrets@0.1.0; }",
        path: "wit",
        world: "wasmount:sdk-sealed-secrets/sealed-secrets",
        with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
        generate_all,
        runtime_path: "::wit_bindgen::rt",
    });
}

macro_rules! services {
    ($($module:ident: $world:literal),+ $(,)?) => {
        $(pub mod $module {
            wit_bindgen::generate!({
                inline: "
                    package wasmount:sdk;
                    world service-identity { export wasmount:csi/identity@0.1.0; }
                    world service-controller { export wasmount:csi/controller@0.1.0; }
                    world service-controller-publish { export wasmount:csi/controller-publish@0.1.0; }
                    world service-controller-expand { export wasmount:csi/controller-expand@0.1.0; }
                    world service-controller-modify { export wasmount:csi/controller-modify@0.1.0; }
                    world service-volume-listing { export wasmount:csi/volume-listing@0.1.0; }
                    world service-volume-lookup { export wasmount:csi/volume-lookup@0.1.0; }
                    world service-capacity { export wasmount:csi/capacity@0.1.0; }
                    world service-snapshots { export wasmount:csi/snapshots@0.1.0; }
                    world service-snapshot-listing { export wasmount:csi/snapshot-listing@0.1.0; }
                    world service-group-snapshots { export wasmount:csi/group-snapshots@0.1.0; }
                    world service-snapshot-metadata { export wasmount:csi/snapshot-metadata@0.1.0; }
                    world service-volume-health { export wasmount:csi/volume-health@0.1.0; }
                    world service-node-info { export wasmount:csi/node-info@0.1.0; }
                    world service-node-stage { export wasmount:csi/node-stage@0.1.0; }
                    world service-node-publish { export wasmount:csi/node-publish@0.1.0; }
                    world service-node-hooks { export wasmount:csi/node-hooks@0.1.0; }
                    world service-node-register { export wasmount:csi/node-register@0.1.0; }
                    world service-state-migration { export wasmount:csi/state-migration@0.1.0; }
                ",
                path: "wit",
                world: $world,
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
    identity: "wasmount:sdk/service-identity",
    controller: "wasmount:sdk/service-controller",
    controller_publish: "wasmount:sdk/service-controller-publish",
    controller_expand: "wasmount:sdk/service-controller-expand",
    controller_modify: "wasmount:sdk/service-controller-modify",
    volume_listing: "wasmount:sdk/service-volume-listing",
    volume_lookup: "wasmount:sdk/service-volume-lookup",
    capacity: "wasmount:sdk/service-capacity",
    snapshots: "wasmount:sdk/service-snapshots",
    snapshot_listing: "wasmount:sdk/service-snapshot-listing",
    group_snapshots: "wasmount:sdk/service-group-snapshots",
    snapshot_metadata: "wasmount:sdk/service-snapshot-metadata",
    volume_health: "wasmount:sdk/service-volume-health",
    node_info: "wasmount:sdk/service-node-info",
    node_stage: "wasmount:sdk/service-node-stage",
    node_publish: "wasmount:sdk/service-node-publish",
    node_hooks: "wasmount:sdk/service-node-hooks",
    node_register: "wasmount:sdk/service-node-register",
    state_migration: "wasmount:sdk/service-state-migration",
}

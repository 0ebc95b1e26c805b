//! What `wit-bindgen` makes of the contract: one `generate!` for everything that the host offers, then one a service.
//!
//! One world a service, because the section that promises an export sits inside of the generated `export!`: a component then promises exactly the
//! services that it names, and imports exactly the functions that it calls. A service knows no other; the shared types come from `imports`.

/// The shared types, and what the host offers.
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

macro_rules! service {
    ($module:ident, $package:literal, $world:literal, $home:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                inline: $package,
                path: "wit",
                world: $world,
                with: { "wasmount:csi/types@0.1.0": crate::bindings::imports::wasmount::csi::types },
                generate_unused_types: true,
                additional_derives: [PartialEq, Eq],
                runtime_path: "::wit_bindgen::rt",
                pub_export_macro: true,
                default_bindings_module: $home,
            });
        }
    };
}

service!(
    identity,
    "package wasmount:sdk-identity; world service-identity { export wasmount:csi/identity@0.1.0; }",
    "wasmount:sdk-identity/service-identity",
    "wasmount_guest::bindings::identity"
);
service!(
    controller,
    "package wasmount:sdk-controller; world service-controller { export wasmount:csi/controller@0.1.0; }",
    "wasmount:sdk-controller/service-controller",
    "wasmount_guest::bindings::controller"
);
service!(
    controller_publish,
    "package wasmount:sdk-controller-publish; world service-controller-publish { export wasmount:csi/controller-publish@0.1.0; }",
    "wasmount:sdk-controller-publish/service-controller-publish",
    "wasmount_guest::bindings::controller_publish"
);
service!(
    controller_expand,
    "package wasmount:sdk-controller-expand; world service-controller-expand { export wasmount:csi/controller-expand@0.1.0; }",
    "wasmount:sdk-controller-expand/service-controller-expand",
    "wasmount_guest::bindings::controller_expand"
);
service!(
    controller_modify,
    "package wasmount:sdk-controller-modify; world service-controller-modify { export wasmount:csi/controller-modify@0.1.0; }",
    "wasmount:sdk-controller-modify/service-controller-modify",
    "wasmount_guest::bindings::controller_modify"
);
service!(
    volume_listing,
    "package wasmount:sdk-volume-listing; world service-volume-listing { export wasmount:csi/volume-listing@0.1.0; }",
    "wasmount:sdk-volume-listing/service-volume-listing",
    "wasmount_guest::bindings::volume_listing"
);
service!(
    volume_lookup,
    "package wasmount:sdk-volume-lookup; world service-volume-lookup { export wasmount:csi/volume-lookup@0.1.0; }",
    "wasmount:sdk-volume-lookup/service-volume-lookup",
    "wasmount_guest::bindings::volume_lookup"
);
service!(
    capacity,
    "package wasmount:sdk-capacity; world service-capacity { export wasmount:csi/capacity@0.1.0; }",
    "wasmount:sdk-capacity/service-capacity",
    "wasmount_guest::bindings::capacity"
);
service!(
    snapshots,
    "package wasmount:sdk-snapshots; world service-snapshots { export wasmount:csi/snapshots@0.1.0; }",
    "wasmount:sdk-snapshots/service-snapshots",
    "wasmount_guest::bindings::snapshots"
);
service!(
    snapshot_listing,
    "package wasmount:sdk-snapshot-listing; world service-snapshot-listing { export wasmount:csi/snapshot-listing@0.1.0; }",
    "wasmount:sdk-snapshot-listing/service-snapshot-listing",
    "wasmount_guest::bindings::snapshot_listing"
);
service!(
    group_snapshots,
    "package wasmount:sdk-group-snapshots; world service-group-snapshots { export wasmount:csi/group-snapshots@0.1.0; }",
    "wasmount:sdk-group-snapshots/service-group-snapshots",
    "wasmount_guest::bindings::group_snapshots"
);
service!(
    snapshot_metadata,
    "package wasmount:sdk-snapshot-metadata; world service-snapshot-metadata { export wasmount:csi/snapshot-metadata@0.1.0; }",
    "wasmount:sdk-snapshot-metadata/service-snapshot-metadata",
    "wasmount_guest::bindings::snapshot_metadata"
);
service!(
    volume_health,
    "package wasmount:sdk-volume-health; world service-volume-health { export wasmount:csi/volume-health@0.1.0; }",
    "wasmount:sdk-volume-health/service-volume-health",
    "wasmount_guest::bindings::volume_health"
);
service!(
    node_info,
    "package wasmount:sdk-node-info; world service-node-info { export wasmount:csi/node-info@0.1.0; }",
    "wasmount:sdk-node-info/service-node-info",
    "wasmount_guest::bindings::node_info"
);
service!(
    node_stage,
    "package wasmount:sdk-node-stage; world service-node-stage { export wasmount:csi/node-stage@0.1.0; }",
    "wasmount:sdk-node-stage/service-node-stage",
    "wasmount_guest::bindings::node_stage"
);
service!(
    node_publish,
    "package wasmount:sdk-node-publish; world service-node-publish { export wasmount:csi/node-publish@0.1.0; }",
    "wasmount:sdk-node-publish/service-node-publish",
    "wasmount_guest::bindings::node_publish"
);
service!(
    node_hooks,
    "package wasmount:sdk-node-hooks; world service-node-hooks { export wasmount:csi/node-hooks@0.1.0; }",
    "wasmount:sdk-node-hooks/service-node-hooks",
    "wasmount_guest::bindings::node_hooks"
);
service!(
    state_migration,
    "package wasmount:sdk-state-migration; world service-state-migration { export wasmount:csi/state-migration@0.1.0; }",
    "wasmount:sdk-state-migration/service-state-migration",
    "wasmount_guest::bindings::state_migration"
);

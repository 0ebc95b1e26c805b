//! `export!`: exports types that implement the service traits from a component.
//!
//! Only the named services are exported, and the driver advertises what is exported. Outside of Wasm the macro checks the same and exports nothing.

/// The name and version of this crate in the components that are built with it.
#[doc(hidden)]
pub const SDK: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// [`SDK`] as the bytes of a custom section.
#[doc(hidden)]
pub const fn sdk() -> [u8; SDK.len()] {
    let mut bytes = [0; SDK.len()];
    bytes.copy_from_slice(SDK.as_bytes());
    bytes
}

/// Exports services from types that implement them: `identity` first, then any of `controller`, `controller_publish`, `controller_expand`,
/// `controller_modify`, `volume_listing`, `volume_lookup`, `capacity`, `snapshots`, `snapshot_listing`, `group_snapshots`,
/// `snapshot_metadata`, `volume_health`, `node_info`, `node_stage`, `node_publish`, `node_hooks`, `node_register` and
/// `state_migration`.
///
/// ```
/// use wasmount_guest::{Identity, PluginInfo};
///
/// struct Nothing;
/// wasmount_guest::export! { identity: Nothing }
///
/// impl Identity for Nothing {
///     fn get_plugin_info() -> PluginInfo {
///         PluginInfo::new("nothing.example.com", "1.0.0")
///     }
/// }
/// ```
///
/// A service whose trait is not implemented does not compile:
///
/// ```compile_fail,E0277
/// # use wasmount_guest::{Identity, PluginInfo};
/// # struct Nothing;
/// # impl Identity for Nothing {
/// #     fn get_plugin_info() -> PluginInfo { PluginInfo::new("nothing.example.com", "1.0.0") }
/// # }
/// wasmount_guest::export! { identity: Nothing, controller: Nothing }
/// ```
///
/// Neither does an unknown service,
///
/// ```compile_fail
/// # use wasmount_guest::{Identity, PluginInfo};
/// # struct Nothing;
/// # impl Identity for Nothing {
/// #     fn get_plugin_info() -> PluginInfo { PluginInfo::new("nothing.example.com", "1.0.0") }
/// # }
/// wasmount_guest::export! { identity: Nothing, nodes: Nothing }
/// ```
///
/// a service that is named twice,
///
/// ```compile_fail,E0428
/// # use wasmount_guest::{Error, Identity, NodeHooks, PluginInfo};
/// # struct Nothing;
/// # impl Identity for Nothing {
/// #     fn get_plugin_info() -> PluginInfo { PluginInfo::new("nothing.example.com", "1.0.0") }
/// # }
/// # impl NodeHooks for Nothing {
/// #     fn before_unstage(_: String, _: Vec<(String, String)>) -> Result<(), Error> { Ok(()) }
/// # }
/// wasmount_guest::export! { identity: Nothing, node_hooks: Nothing, node_hooks: Nothing }
/// ```
///
/// or a backend without identity:
///
/// ```compile_fail
/// # use wasmount_guest::{Error, NodeHooks};
/// # struct Nothing;
/// # impl NodeHooks for Nothing {
/// #     fn before_unstage(_: String, _: Vec<(String, String)>) -> Result<(), Error> { Ok(()) }
/// # }
/// wasmount_guest::export! { node_hooks: Nothing }
/// ```
#[macro_export]
macro_rules! export {
    (identity: $identity:ty $(, $service:ident : $type:ty)* $(,)?) => {
        const _: () = {
            #[allow(dead_code, non_camel_case_types, reason = "it only makes a service that is named twice an error")]
            enum EachServiceOnce { identity $(, $service)* }
        };
        $crate::__export_one!(identity, Identity, $identity);
        $($crate::__export_service!($service, $type);)*
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            // `wasmount inspect` shows it. It is in the backend's own crate, since the linker drops unused parts of other crates.
            #[used]
            #[unsafe(link_section = "wasmount:sdk")]
            static SDK: [u8; $crate::SDK.len()] = $crate::sdk();
        };
    };
    ($($other:tt)*) => {
        compile_error!(
            "a backend exports its identity first, then the services that it offers: export! { identity: MyBackend, controller: MyBackend }"
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_service {
    (controller, $type:ty) => { $crate::__export_one!(controller, Controller, $type); };
    (controller_publish, $type:ty) => { $crate::__export_one!(controller_publish, ControllerPublish, $type); };
    (controller_expand, $type:ty) => { $crate::__export_one!(controller_expand, ControllerExpand, $type); };
    (controller_modify, $type:ty) => { $crate::__export_one!(controller_modify, ControllerModify, $type); };
    (volume_listing, $type:ty) => { $crate::__export_one!(volume_listing, VolumeListing, $type); };
    (volume_lookup, $type:ty) => { $crate::__export_one!(volume_lookup, VolumeLookup, $type); };
    (capacity, $type:ty) => { $crate::__export_one!(capacity, Capacity, $type); };
    (snapshots, $type:ty) => { $crate::__export_one!(snapshots, Snapshots, $type); };
    (snapshot_listing, $type:ty) => { $crate::__export_one!(snapshot_listing, SnapshotListing, $type); };
    (group_snapshots, $type:ty) => { $crate::__export_one!(group_snapshots, GroupSnapshots, $type); };
    (snapshot_metadata, $type:ty) => { $crate::__export_one!(snapshot_metadata, SnapshotMetadata, $type); };
    (volume_health, $type:ty) => { $crate::__export_one!(volume_health, VolumeHealth, $type); };
    (node_info, $type:ty) => { $crate::__export_one!(node_info, NodeInfo, $type); };
    (node_stage, $type:ty) => { $crate::__export_one!(node_stage, NodeStage, $type); };
    (node_publish, $type:ty) => { $crate::__export_one!(node_publish, NodePublish, $type); };
    (node_hooks, $type:ty) => { $crate::__export_one!(node_hooks, NodeHooks, $type); };
    (node_register, $type:ty) => { $crate::__export_one!(node_register, NodeRegister, $type); };
    (state_migration, $type:ty) => { $crate::__export_one!(state_migration, StateMigration, $type); };
    (identity, $type:ty) => { compile_error!("identity is exported once, in the first place"); };
    ($other:ident, $type:ty) => {
        compile_error!(concat!(
            "unknown service `", stringify!($other), "`: one of controller, controller_publish, controller_expand, controller_modify, ",
            "volume_listing, volume_lookup, capacity, snapshots, snapshot_listing, group_snapshots, snapshot_metadata, volume_health, ",
            "node_info, node_stage, node_publish, node_hooks, node_register, state_migration"
        ));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_one {
    ($module:ident, $trait:ident, $type:ty) => {
        const _: () = {
            // The generated macro takes the name of a type, not a type.
            #[allow(dead_code, reason = "used on wasm32 alone")]
            type Exported = $type;
            // First, so that the compiler's error names the trait to implement and not a generated function.
            const fn implements<T: $crate::$trait>() {}
            implements::<$type>();
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::$module::export!(Exported with_types_in $crate::bindings::$module);
        };
    };
}

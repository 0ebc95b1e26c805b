//! Write a CSI storage backend as a WebAssembly component.
//!
//! A backend is a type that implements [`Identity`] and the services that it offers, one trait each, and is passed to [`export!`]. The driver
//! advertises to Kubernetes what is exported; sockets, mounts, formats, journals and limits are the host's (Wasmount). Each call runs in a new
//! instance and may be repeated with the same arguments, so keep nothing in globals: durable data belongs in [`state`].
//!
//! This is a complete driver. Its volumes are disk images in a [`Pool`] that the administrator grants under the name `disks`; the host creates a file
//! system if one is requested, attaches, mounts, and undoes it all without calling the plugin.
//!
//! ```
//! use wasmount_guest::*;
//!
//! const DISKS: Pool = Pool::named("disks");
//!
//! struct Disks;
//! export! { identity: Disks, controller: Disks, node_stage: Disks }
//!
//! impl Identity for Disks {
//!     fn get_plugin_info() -> PluginInfo {
//!         PluginInfo::new("disks.example.com", "1.0.0")
//!     }
//! }
//!
//! impl Controller for Disks {
//!     fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
//!         args.parameters.only(&[])?;
//!         args.must_start_empty()?;
//!         for capability in &args.capabilities {
//!             capability.must_be_on_one_node()?;
//!         }
//!         let id = id::from_name("disk", &args.name);
//!         let size = args.capacity.choose(1 << 20, 1 << 30)?;
//!         // Succeeds again for the same size; `already-exists` for another.
//!         DISKS.create_image(&id, size)?;
//!         log::info("disk created", &[("id", &id)]);
//!         Ok(Volume::new(id, size))
//!     }
//!
//!     fn delete_volume(id: String) -> Result<(), Error> {
//!         if id::is_from_name("disk", &id) {
//!             DISKS.remove_image(&id)?;
//!         }
//!         Ok(())
//!     }
//!
//!     fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
//!         id::must_be_from_name("disk", &args.id)?;
//!         DISKS.stat(&args.id)?.ok_or_else(|| Error::not_found("no such disk"))?;
//!         let modes = args.capabilities.iter().map(VolumeCapability::must_be_on_one_node);
//!         Ok(modes.collect::<Result<(), Error>>().into())
//!     }
//! }
//!
//! impl NodeStage for Disks {
//!     fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
//!         id::must_be_from_name("disk", &args.id)?;
//!         plan.image(&DISKS, &args.id)?;
//!         plan.default_fs_type("ext4")
//!     }
//! }
//!
//! // Outside of Wasm the host is one in memory, so `cargo test` tests a driver.
//! testing::reset();
//! testing::add_pool("disks", 1 << 40);
//! let deleted = Disks::delete_volume("../../etc".to_owned());
//! assert_eq!(deleted, Ok(()));
//! ```
//!
//! To build a component, set `crate-type = ["cdylib", "rlib"]` and run `cargo build --release --target wasm32-wasip2`. The contract with the host is
//! `wit/wasmount.wit` in this crate; it lists the error codes that each function may return.
#![deny(unsafe_code)]

pub mod attachments;
mod attributes;
#[doc(hidden)]
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated: the calling convention of components needs raw memory"
)]
pub mod bindings;
pub mod call;
mod content_source;
mod controller;
mod disk;
mod error;
mod export;
mod filesystem;
pub mod http;
pub mod id;
mod identity;
pub mod log;
mod node;
pub mod node_facts;
pub mod nodes;
mod plan;
pub mod poll;
pub mod pool;
mod quantity;
pub mod sealed_secrets;
pub mod secrets;
pub mod session;
mod snapshots;
pub mod state;
mod state_migration;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod topology;
mod volume;

pub use attributes::{Attributes, AttributesExt};
pub use controller::{
    Available, Capacity, CapacityArgs, Controller, ControllerExpand, ControllerModify,
    ControllerPublish, ControllerPublishArgs, CreateVolumeArgs, ExpandArgs, Expanded, Health,
    HealthStatus, NodeRegister, ValidateArgs, Validation, VolumeHealth, VolumeListing,
    VolumeLookup, VolumePage,
};
pub use disk::{Disk, DiskProtocol};
pub use error::{Code, Error};
#[doc(hidden)]
pub use export::{SDK, sdk};
pub use filesystem::smallest_image;
pub use identity::{Identity, PluginInfo};
pub use node::{
    NodeDescription, NodeHooks, NodeInfo, NodePublish, NodePublishArgs, NodeStage, NodeStageArgs,
};
pub use plan::{CephxUser, File, ImageAccess, IscsiPath, Plan, RbdImage};
pub use pool::Pool;
pub use quantity::{NotAQuantity, Quantity};
pub use snapshots::{
    BlockType, CreateGroupArgs, CreateSnapshotArgs, GroupSnapshot, GroupSnapshots,
    ListSnapshotsArgs, MetadataPage, SnapshotListing, SnapshotMetadata, SnapshotPage, Snapshots,
};
pub use state_migration::{Migration, RecordChange, StateMigration, StoredRecord};
pub use volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, Extent, MountAccess, NodeId, PageRequest,
    Snapshot, SnapshotId, Timestamp, Topology, TopologyRequirement, Volume, VolumeCapability,
    VolumeCondition, VolumeEntry, VolumeId, VolumeStatus, now, timestamp,
};

/// The functions of the host: in a component its imports, elsewhere the fakes of [`testing`].
mod imports {
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::imports::wasmount::csi::{
        call, node_plan, pool, secrets, state,
    };
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::others::wasmount::csi::{
        node_encryption, node_facts, node_iscsi, node_nvme, node_rbd, nodes, sealed_secrets,
    };
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::session::wasmount::csi::session;
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::http::wire as http;
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use crate::testing::storage::{pool, state};
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use crate::testing::{
        call, http, node_encryption, node_facts, node_iscsi, node_nvme, node_plan, node_rbd, nodes,
        sealed_secrets, secrets, session,
    };

    /// The clocks of WASI, which Rust's own library uses, or the clock of the test.
    pub(crate) mod clock {
        #[cfg(not(target_arch = "wasm32"))]
        pub(crate) use crate::testing::call::sleep;
        #[cfg(target_arch = "wasm32")]
        pub(crate) use std::thread::sleep;
    }
}

//! Write a CSI storage backend as a WebAssembly component.
//!
//! A backend is a type that implements [`Identity`] and the services that it offers, one trait each, and is handed to [`export!`]. What is
//! exported is what the driver advertises to Kubernetes; sockets, mounts, formats, journals and limits are the host's (Wasmount). Each call
//! runs in a fresh instance and may come again with the same arguments, so keep nothing in globals: durable facts belong in [`state`].
//!
//! This is a whole driver. Its volumes are disk images in a [`Pool`] that the administrator grants under the name `disks`; the host makes a
//! file system where one is wanted, attaches, mounts, and undoes it all without asking.
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
//! Make it a component with `crate-type = ["cdylib", "rlib"]` and `cargo build --release --target wasm32-wasip2`. The contract with the
//! host is `wit/wasmount.wit` in this crate; which error codes a function may answer stands there.
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
mod capacity;
mod content_source;
mod controller;
mod controller_expand;
mod controller_modify;
mod controller_publish;
mod error;
mod export;
mod filesystem;
mod group_snapshots;
pub mod id;
mod identity;
mod imports;
pub mod log;
mod node_hooks;
mod node_info;
mod node_publish;
mod node_stage;
mod plan;
pub mod pool;
mod quantity;
pub mod secrets;
mod snapshot_listing;
mod snapshot_metadata;
mod snapshots;
pub mod state;
mod state_migration;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod topology;
mod volume;
mod volume_health;
mod volume_listing;
mod volume_lookup;

pub use attributes::{Attributes, AttributesExt};
pub use capacity::{Available, Capacity, CapacityArgs};
pub use controller::{Controller, CreateVolumeArgs, ValidateArgs, Validation};
pub use controller_expand::{ControllerExpand, ExpandArgs, Expanded};
pub use controller_modify::ControllerModify;
pub use controller_publish::{ControllerPublish, ControllerPublishArgs};
pub use error::{Code, Error};
#[doc(hidden)]
pub use export::{Adapter, SDK, sdk};
pub use filesystem::smallest_image;
pub use group_snapshots::{CreateGroupArgs, GroupSnapshot, GroupSnapshots};
pub use identity::{Identity, PluginInfo};
pub use node_hooks::NodeHooks;
pub use node_info::{NodeDescription, NodeInfo};
pub use node_publish::{NodePublish, NodePublishArgs};
pub use node_stage::{NodeStage, NodeStageArgs};
pub use plan::{File, Plan};
pub use pool::Pool;
pub use quantity::{NotAQuantity, Quantity};
pub use snapshot_listing::{ListSnapshotsArgs, SnapshotListing, SnapshotPage};
pub use snapshot_metadata::{BlockType, MetadataPage, SnapshotMetadata};
pub use snapshots::{CreateSnapshotArgs, Snapshots};
pub use state_migration::{Migration, RecordChange, StateMigration, StoredRecord};
pub use volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, Extent, MountAccess, NodeId, PageRequest,
    Snapshot, SnapshotId, Timestamp, Topology, TopologyRequirement, Volume, VolumeCapability,
    VolumeCondition, VolumeEntry, VolumeId, VolumeStatus, now,
};
pub use volume_health::{Health, HealthStatus, VolumeHealth};
pub use volume_listing::{VolumeListing, VolumePage};
pub use volume_lookup::VolumeLookup;

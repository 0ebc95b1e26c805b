//! Plugins as OCI artifacts: registries, bundles, signatures.
//!
//! `fetch` is the sequence of a pull: a name is resolved to a digest (`registry`), signatures are checked (`judged`, `attached`), the component is
//! read (`pull`). This crate handles bytes and digests, not the content of a component.
#![forbid(unsafe_code)]

mod access;
mod attached;
mod bundle;
mod digest;
mod docker_config;
mod error;
mod fetch;
mod judged;
mod manifest;
mod media_type;
mod pull;
mod push;
mod registry;
mod sign;
pub mod signature;
mod text;
mod trust;

pub use access::{Access, Login, Progress, Step, TransferLimits, silent};
pub use attached::{AttachedManifest, Attachment, Extent, Missed, cosign_tag};
pub use bundle::{Bundle, BundleError};
pub use digest::Digest;
pub use docker_config::{DockerConfigError, login};
pub use error::{FetchError, RegistryError};
pub use fetch::{
    BadMessage, Beside, ComponentSource, FetchRequest, Fetched, Signed, check_file, fetch,
    gathered_beside, signers,
};
pub use judged::{Judged, judged};
pub use manifest::{
    Annotations, ComponentFacts, Descriptor, Document, Index, Manifest, Platform, TITLE,
};
pub use media_type::{COSIGN_SIGNATURE, SIGSTORE_BUNDLE_FAMILY, WASM_CONFIG, WASM_LAYER};
pub use pull::{Pulled, Resolved, pull};
pub use push::Pushed;
pub use registry::{RawManifest, Registry};
pub use sign::{SignedArtifact, sign};
pub use text::is_control;
pub use trust::system_certificates;

/// Largest component that is pulled, pushed or put into a bundle, in bytes: the largest that the host compiles.
pub const COMPONENT_BYTES: u64 = 64 << 20;

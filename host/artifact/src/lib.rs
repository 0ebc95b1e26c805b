//! Plugins as OCI artifacts: registries, bundles, signatures.
//!
//! The story of a pull: a name becomes a digest once (`registry`), the manifest says which of its blobs is the component (`manifest`), and
//! every byte is counted and hashed as it comes (`registry::body`). `fetch` is all of it in one call, for a process that may do nothing else.
//!
//! It knows bytes and digests. What a component is, and whether one may serve, it does not.
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
mod progress;
mod pull;
mod push;
mod registry;
mod sign;
pub mod signature;
mod signature_tag;
mod text;
mod trust;
mod wasm_config;

pub use access::{Access, Credentials, Login, TransferLimits};
pub use attached::{AttachedManifest, Attachment, Attachments, Unread, cosign_tag};
pub use bundle::{Bundle, BundleError};
pub use digest::Digest;
pub use docker_config::{DockerConfigError, login};
pub use error::{FetchError, RegistryError};
pub use fetch::{
    BadMessage, Beside, FetchRequest, Fetched, Signed, Wanted, check_file, fetch, gathered_beside,
    signers,
};
pub use judged::{Extent, Judged, judged};
pub use manifest::{Descriptor, Document, Index, Manifest, Platform};
pub use media_type::{COSIGN_SIGNATURE, SIGSTORE_BUNDLE_FAMILY, WASM_CONFIG, WASM_LAYER};
pub use progress::{Progress, Step, silent};
pub use pull::{Pulled, Resolved, pull};
pub use push::{Pushed, push};
pub use registry::{RawManifest, Registry};
pub use sign::{SignError, SignedArtifact, sign};
pub use trust::system_certificates;
pub use wasm_config::{Annotations, ComponentFacts, WasmConfig};

/// Largest component that is pulled, pushed or put into a bundle, in bytes: what the host compiles at most.
pub const COMPONENT_BYTES: u64 = 64 << 20;

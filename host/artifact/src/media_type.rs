//! The supported media types: the OCI image specification's, the CNCF Wasm working group's, older ones for Wasm layers, and cosign's.

/// A manifest (OCI image specification 1.1, "Image Manifest").
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// A list of manifests (OCI image specification 1.1, "Image Index").
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Docker's equivalents of the two, to which an older registry may convert them.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The `Accept` header; without it an older registry answers in a format of its own.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// The config of a component (CNCF Wasm OCI artifact).
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The layer that is a component (CNCF Wasm OCI artifact).
pub const WASM_LAYER: &str = "application/wasm";
/// Older media types of layers: of Kubewarden and Spin, and of wasm-to-oci.
const OLDER_LAYERS: [&str; 2] = [
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];
/// The architecture in the platform of a component.
pub(crate) const WASM_ARCHITECTURE: &str = "wasm";

/// A payload that cosign signed: a layer of a manifest at the tag `sha256-<hex>.sig`.
pub const COSIGN_SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The prefix of the media types of a Sigstore bundle, before its version.
pub const SIGSTORE_BUNDLE_FAMILY: &str = "application/vnd.dev.sigstore.bundle";

/// An empty config (OCI image specification 1.1, "Guidance for an Empty Descriptor").
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The prefix of cosign's own artifact types of a referrer.
pub(crate) const COSIGN_ARTIFACT_FAMILY: &str = "application/vnd.dev.cosign.artifact.sig";

/// Whether a layer of this type is a component.
pub(crate) fn is_component(media_type: &str) -> bool {
    media_type == WASM_LAYER || OLDER_LAYERS.contains(&media_type)
}

/// Whether a document of this type is an index.
pub(crate) fn is_index(media_type: &str) -> bool {
    [OCI_INDEX, DOCKER_INDEX].contains(&media_type)
}

/// Whether a document of this type is a manifest.
pub(crate) fn is_manifest(media_type: &str) -> bool {
    [OCI_MANIFEST, DOCKER_MANIFEST].contains(&media_type)
}

/// The media type without parameters such as `; charset=utf-8`.
pub(crate) fn plain(media_type: &str) -> &str {
    let (plain, _) = media_type.split_once(';').unwrap_or((media_type, ""));
    plain.trim()
}

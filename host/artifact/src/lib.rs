//! Plugins as OCI artifacts: registries, bundles, signatures.
#![forbid(unsafe_code)]

//! The config and the annotations of a component's artifact (CNCF Wasm OCI artifact).

use crate::digest::Digest;
use crate::media_type::WASM_ARCHITECTURE;
use serde::Serialize;
use std::collections::BTreeMap;

/// The platform of a component of WASI 0.2.
const WASI_0_2: &str = "wasip2";
/// When an artifact was made: not known, and the same component pushed twice should be one artifact.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Keys and values of a manifest.
pub type Annotations = BTreeMap<String, String>;

/// What whoever has read a component knows of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// Interfaces that it wants.
    pub imports: Vec<String>,
    /// Interfaces that it offers.
    pub exports: Vec<String>,
    /// Who made it.
    pub author: Option<String>,
    /// `org.opencontainers.image.title` and the like.
    pub annotations: Annotations,
}

/// The config of an artifact.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmConfig {
    created: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [Digest; 1],
    component: Component,
}

#[derive(Debug, Clone, Serialize)]
struct Component {
    exports: Vec<String>,
    imports: Vec<String>,
}

impl WasmConfig {
    /// That of one component.
    pub fn new(layer: Digest, facts: &ComponentFacts) -> Self {
        let ComponentFacts {
            imports,
            exports,
            author,
            annotations: _,
        } = facts;
        Self {
            created: CREATED,
            author: author.clone(),
            architecture: WASM_ARCHITECTURE,
            os: WASI_0_2,
            layer_digests: [layer],
            component: Component {
                exports: exports.clone(),
                imports: imports.clone(),
            },
        }
    }
}

//! The parts of an artifact (OCI image specification 1.1, "Image Manifest" and "Image Index"), parsed into types that hold only the fields in use.
//! Selection among them needs no registry.

use crate::digest::Digest;
use crate::media_type::{
    OCI_INDEX, OCI_MANIFEST, WASM_ARCHITECTURE, is_component, is_index, is_manifest, plain,
};
use crate::text::{QUOTED_CHARACTERS, REASON_CHARACTERS, shorten};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema version of manifests, the only one there is.
const SCHEMA: u32 = 2;

/// The annotation for a title: of an artifact for people, of a layer the name of its file (OCI image specification 1.1, "Pre-Defined Annotation
/// Keys").
pub const TITLE: &str = "org.opencontainers.image.title";

/// The platform of a component of WASI 0.2.
const WASI_0_2: &str = "wasip2";
/// The creation time of an artifact: a constant, since it is not known, and the same component pushed twice should be one artifact.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Annotations of a manifest.
pub type Annotations = BTreeMap<String, String>;

/// A descriptor: media type, digest and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its media type.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size, in bytes.
    pub size: u64,
    /// The artifact type, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The platform, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
}

/// The platform of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `wasm` for components.
    pub architecture: String,
    /// The kind of system.
    pub os: String,
}

/// The manifest of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// The artifact type, where the config's media type does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The config, which describes the layers.
    pub config: Descriptor,
    /// The content of the artifact.
    pub layers: Vec<Descriptor>,
    /// The subject: a signature names the manifest that is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
}

/// An index of several artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// The manifests of the artifacts.
    pub manifests: Vec<Descriptor>,
}

/// A manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// A manifest.
    Manifest(Box<Manifest>),
    /// An index.
    Index(Index),
}

/// A list of referrers, whose entries are read one by one.
#[derive(Deserialize)]
struct Entries {
    manifests: Vec<serde_json::Value>,
}

/// The fields that distinguish a manifest from an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    layers: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    manifests: Option<serde::de::IgnoredAny>,
}

impl Document {
    /// Parses a document. `content_type` is the media type of the response; where the document has a `mediaType` too, both must agree, and the
    /// document must be a manifest or an index, not both: bytes that are an artifact to one reader and an index to another have one digest for both
    /// (CVE-2021-41190).
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, String> {
        let shape: Shape = serde_json::from_slice(bytes).map_err(described)?;
        let named = shape.media_type.as_deref();
        let content_type = content_type
            .map(plain)
            .filter(|it| is_index(it) || is_manifest(it));
        if let (Some(content_type), Some(named)) = (content_type, named)
            && content_type != named
        {
            let named = shorten(named, QUOTED_CHARACTERS);
            return Err(format!(
                "its content type is `{content_type}` and its media type `{named}`"
            ));
        }
        let is_list = match content_type.or(named) {
            Some(kind) if is_index(kind) => true,
            Some(kind) if is_manifest(kind) => false,
            Some(other) => {
                let other = shorten(other, QUOTED_CHARACTERS);
                return Err(format!("`{other}` is neither a manifest nor an index"));
            }
            None => shape.manifests.is_some(),
        };
        if shape.layers.is_some() && shape.manifests.is_some() {
            return Err("it has both layers and manifests".to_owned());
        }
        let (document, schema) = if is_list {
            let index: Index = serde_json::from_slice(bytes).map_err(described)?;
            let schema = index.schema_version;
            (Self::Index(index), schema)
        } else {
            let manifest: Box<Manifest> = serde_json::from_slice(bytes).map_err(described)?;
            let schema = manifest.schema_version;
            (Self::Manifest(manifest), schema)
        };
        match schema {
            SCHEMA => Ok(document),
            other => Err(format!("its `schemaVersion` is {other}, not {SCHEMA}")),
        }
    }

    /// The media type under which it is pushed.
    pub fn media_type(&self) -> &str {
        match self {
            Self::Manifest(manifest) => manifest.media_type(),
            Self::Index(index) => index.media_type.as_deref().unwrap_or(OCI_INDEX),
        }
    }
}

impl Descriptor {
    /// The descriptor of these bytes.
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            artifact_type: None,
            platform: None,
            annotations: Annotations::new(),
        }
    }
}

impl Manifest {
    /// A new manifest, to be pushed.
    pub fn new(config: Descriptor, layers: Vec<Descriptor>, annotations: Annotations) -> Self {
        Self {
            schema_version: SCHEMA,
            media_type: Some(OCI_MANIFEST.to_owned()),
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations,
        }
    }

    /// The media type under which it is pushed.
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(OCI_MANIFEST)
    }

    /// The artifact type: its own, else the media type of its config (OCI distribution specification 1.1, "Listing Referrers").
    pub(crate) fn kind(&self) -> &str {
        let own = self.artifact_type.as_deref();
        own.unwrap_or(&self.config.media_type)
    }

    /// The bytes that are pushed.
    pub fn to_bytes(&self) -> Vec<u8> {
        json(self)
    }

    /// The layer that is a component; otherwise a message with what the artifact is, and what to do.
    pub fn component(&self) -> Result<&Descriptor, String> {
        match self.layers.as_slice() {
            [one] if is_component(&one.media_type) => Ok(one),
            [one] => Err(format!(
                "its layer is `{}`{}; push a component with `wasmount push`",
                shorten(&one.media_type, QUOTED_CHARACTERS),
                hint(&one.media_type)
            )),
            [] => Err("it has no layer; push a component with `wasmount push`".to_owned()),
            many => Err(format!(
                "it has {} layers, and a component is one; link them into one component, and push that",
                many.len()
            )),
        }
    }
}

impl Index {
    /// A new index.
    pub fn new(manifests: Vec<Descriptor>) -> Self {
        Self {
            schema_version: SCHEMA,
            media_type: Some(OCI_INDEX.to_owned()),
            manifests,
        }
    }

    /// The bytes that are pushed.
    pub fn to_bytes(&self) -> Vec<u8> {
        json(self)
    }

    /// The entry for Wasm; the only entry, where none names a platform.
    pub fn component(&self) -> Result<&Descriptor, String> {
        let manifests = || {
            self.manifests
                .iter()
                .filter(|it| is_manifest(&it.media_type))
        };
        let for_wasm = |it: &&Descriptor| {
            let platform = it.platform.as_ref();
            platform.is_some_and(|it| it.architecture == WASM_ARCHITECTURE)
        };
        let chosen: Vec<_> = match manifests().filter(for_wasm).collect::<Vec<_>>() {
            none if none.is_empty() => manifests().filter(|it| it.platform.is_none()).collect(),
            some => some,
        };
        match chosen.as_slice() {
            [one] => Ok(one),
            [] => Err(format!(
                "it is a list of {} manifests, none of them for the architecture `{WASM_ARCHITECTURE}`; name one by its digest",
                self.manifests.len()
            )),
            many => Err(format!(
                "it is a list with {} manifests that match; name one by its digest",
                many.len()
            )),
        }
    }
}

/// The entries of a list of referrers that can be read. Anybody who may push can add others, such as one with a digest by another algorithm, which must
/// not hide the signatures beside them.
pub(crate) fn readable_entries(bytes: &[u8]) -> Result<Vec<Descriptor>, String> {
    let list: Entries = serde_json::from_slice(bytes).map_err(described)?;
    let entries = list.manifests.into_iter();
    Ok(entries
        .filter_map(|it| serde_json::from_value(it).ok())
        .collect())
}

/// An error of the library, whose messages quote untrusted text.
fn described(error: serde_json::Error) -> String {
    shorten(&error.to_string(), REASON_CHARACTERS)
}

/// Facts about a component, read from its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// Imported interfaces.
    pub imports: Vec<String>,
    /// Exported interfaces.
    pub exports: Vec<String>,
    /// Its author.
    pub author: Option<String>,
    /// `org.opencontainers.image.title` and the like.
    pub annotations: Annotations,
}

/// The config of an artifact.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WasmConfig<'a> {
    created: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [&'a Digest; 1],
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    exports: &'a [String],
    imports: &'a [String],
}

impl<'a> WasmConfig<'a> {
    /// The config of one component.
    pub(crate) fn new(layer: &'a Digest, facts: &'a ComponentFacts) -> Self {
        Self {
            created: CREATED,
            author: facts.author.as_deref(),
            architecture: WASM_ARCHITECTURE,
            os: WASI_0_2,
            layer_digests: [layer],
            component: Component {
                exports: &facts.exports,
                imports: &facts.imports,
            },
        }
    }
}

/// Serializes to JSON. It cannot fail: all keys are strings, and it writes only to memory.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A hint in case the names of a container image and of a component were mixed up.
fn hint(media_type: &str) -> &'static str {
    if media_type.contains("tar") {
        ", so it is a container image"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;

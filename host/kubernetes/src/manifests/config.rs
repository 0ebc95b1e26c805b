//! The backend's CSIDriver object, its ConfigMap with document, component and files, and its StorageBackend object.

use super::{Backend, Choices, Manifest, ManifestsError, names};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Most bytes of all values of a ConfigMap (`MaxSecretSize` in the API's validation, which applies to both).
pub const CONFIG_MAP_BYTES: usize = 1 << 20;
/// Largest object of which `kubectl apply` can store a copy, in bytes: annotations hold 256 KiB (`TotalAnnotationSizeLimitB`), of which base64 takes
/// a quarter, and the rest of the object some.
const ANNOTATED_BYTES: usize = 180 << 10;

/// Directory of the document in a pod.
pub(super) const CONFIG_DIR: &str = "/etc/wasmount";
/// Key of the component, and its path in the document.
pub const PLUGIN_IN_CONFIG: &str = "plugin.wasm";
/// Key of the certificates of a registry, and their path in the document.
pub const CERTIFICATES_IN_CONFIG: &str = "registry-ca.pem";
/// Directory of the secrets in a pod.
pub(super) const SECRETS_DIR: &str = "/etc/wasmount-secrets";

/// The path of a secret in a pod.
pub fn secret_path(name: &str) -> String {
    Path::new(SECRETS_DIR).join(name).display().to_string()
}

/// The path of a key of the ConfigMap in a pod.
pub fn path_in_config(key: &str) -> String {
    Path::new(CONFIG_DIR).join(key).display().to_string()
}

/// Name of the Secret of a backend.
pub fn secret_object(backend: &str) -> String {
    format!("wasmount-{backend}-secrets")
}

pub(super) fn driver_object(backend: &Backend) -> Result<Manifest, ManifestsError> {
    Manifest::new(
        "From the exports of the plugin and `csiDriver` of the document. A running host wants the same object; if they differ it reports that, and \
         does not take over the fields of the user who applied this.",
        &backend.csi_driver,
    )
}

pub(super) fn config_map(backend: &Backend, choices: &Choices) -> Result<Manifest, ManifestsError> {
    let document = &backend.document;
    let component = backend.component.as_ref();
    let component = component.map(|wasm| (PLUGIN_IN_CONFIG, wasm));
    let files = backend.files.iter();
    let files = files.map(|(key, bytes)| (key.as_str(), bytes));
    let all: BTreeMap<_, _> = files.chain(component).collect();
    let bytes = document.len() + all.values().map(|it| it.len()).sum::<usize>();
    if bytes > CONFIG_MAP_BYTES {
        return Err(ManifestsError::TooLarge { bytes });
    }
    let about = match component {
        None => "The document. The component is in the image.",
        Some(_) if bytes > ANNOTATED_BYTES => {
            "The document and the component. Too large for the annotation of `kubectl apply`: use `kubectl apply --server-side`."
        }
        Some(_) => "The document and the component.",
    };
    let name = format!("wasmount-{}-backend", backend.name);
    let documents = json!({ "backend.yaml": document });
    Manifest::new(about, &map(&name, choices, &documents, all))
}

/// The documents of all backends of the node set, as a directory that its mounters follow.
pub(super) fn documents(
    backends: &[Backend],
    choices: &Choices,
) -> Result<Manifest, ManifestsError> {
    let documents = backends.iter();
    let documents = documents.map(|it| (format!("{}.yaml", it.name), it.document.as_str()));
    let documents: BTreeMap<_, _> = documents.collect();
    let files = backends.iter().flat_map(|it| &it.files);
    let files: BTreeMap<_, _> = files.map(|(key, bytes)| (key.as_str(), bytes)).collect();
    let texts = documents.values().map(|it| it.len());
    let bytes = texts.chain(files.values().map(|it| it.len())).sum();
    if bytes > CONFIG_MAP_BYTES {
        return Err(ManifestsError::TooManyDocuments { bytes });
    }
    Manifest::new(
        "The documents of all backends: what of the node each of them may use. Running mounters follow them without a restart; kubelet takes up to some \
         two minutes to bring them a change.",
        &map(names::CONFIG_MAP, choices, &json!(documents), files),
    )
}

fn map(name: &str, choices: &Choices, data: &Value, files: BTreeMap<&str, &Vec<u8>>) -> Value {
    let encoded = files.into_iter();
    let encoded = encoded.map(|(key, bytes)| (key, BASE64_STANDARD.encode(bytes)));
    let encoded: BTreeMap<_, _> = encoded.collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": choices.namespace },
        "data": data,
        "binaryData": (!encoded.is_empty()).then_some(encoded),
    })
}

/// The object that hosts follow. The mounter reads its document from the ConfigMap: the right to write an object must not decide what may be mounted
/// on a node.
pub(super) fn followed(object: &Value) -> Result<Manifest, ManifestsError> {
    Manifest::new(
        "The backend: what is changed here is served within seconds, by all hosts, without a restart. What of the node may be mounted is the \
         mounter's document, in the ConfigMap.",
        object,
    )
}

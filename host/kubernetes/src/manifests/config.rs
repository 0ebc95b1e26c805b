//! Driver object and ConfigMap: what is there before a pod.

use super::{Component, Manifest, ManifestsError, Parts};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of all values of a ConfigMap (`MaxSecretSize` in the API's validation, which holds for both).
pub const CONFIG_MAP_BYTES: usize = 1 << 20;
/// Up to where `kubectl apply` finds room for a copy of the object, in bytes: annotations hold 256 KiB (`TotalAnnotationSizeLimitB`), of which
/// base64 takes a quarter, and the rest of the object some.
const ANNOTATED_BYTES: usize = 180 << 10;

/// Directory of the document in a pod.
pub(super) const CONFIG_DIR: &str = "/etc/wasmount";
/// Key of the document.
pub(super) const DOCUMENT_KEY: &str = "backend.yaml";
/// Key of the component, and its path in the document.
pub const PLUGIN_IN_CONFIG: &str = "plugin.wasm";
/// Key of the certificates that a registry is trusted by, and their path in the document.
pub const CERTIFICATES_IN_CONFIG: &str = "registry-ca.pem";
/// Directory of the secrets in a pod.
pub(super) const SECRETS_DIR: &str = "/etc/wasmount-secrets";

/// Where a secret is in a pod.
pub fn secret_path(name: &str) -> String {
    Path::new(SECRETS_DIR).join(name).display().to_string()
}

/// Where a key of the ConfigMap is in a pod.
pub fn path_in_config(key: &str) -> String {
    Path::new(CONFIG_DIR).join(key).display().to_string()
}

/// Name of the Secret of a backend.
pub fn secret_object(backend: &str) -> String {
    format!("wasmount-{backend}-secrets")
}

impl Parts<'_> {
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        [
            ("app.kubernetes.io/name", "wasmount"),
            ("app.kubernetes.io/instance", &self.backend.name),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// Of an object in the namespace.
    pub(super) fn meta(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.choices.namespace.clone()),
            ..self.cluster_meta(name)
        }
    }

    /// Of an object of the whole cluster.
    pub(super) fn cluster_meta(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn driver_object(&self) -> Result<Manifest, ManifestsError> {
        let mut object = self.backend.csi_driver.clone();
        object.metadata.labels = Some(self.labels());
        Manifest::new(
            "From the exports of the plugin and `csiDriver` of the document. A running host says the same; where the two differ it tells, and \
             does not take the fields of whoever applied this.",
            &object,
        )
    }

    pub(super) fn config_map(&self) -> Result<Manifest, ManifestsError> {
        let document = &self.backend.document;
        let component = match &self.backend.component {
            Component::InImage => None,
            Component::InConfigMap(wasm) => Some((PLUGIN_IN_CONFIG.to_owned(), wasm)),
        };
        let files = self.backend.files.iter();
        let files = files.map(|(key, bytes)| (key.clone(), bytes));
        let is_here = component.is_some();
        let all: BTreeMap<_, _> = files.chain(component).collect();
        let bytes = document.len() + all.values().map(|it| it.len()).sum::<usize>();
        if bytes > CONFIG_MAP_BYTES {
            return Err(ManifestsError::TooLarge { bytes });
        }
        let about = match is_here {
            false => "The document. The component is in the image.",
            true if bytes > ANNOTATED_BYTES => {
                "The document and the component. Too large for the annotation of `kubectl apply`: use `kubectl apply --server-side`."
            }
            true => "The document and the component.",
        };
        let binary = all
            .into_iter()
            .map(|(key, bytes)| (key, ByteString(bytes.clone())))
            .collect::<BTreeMap<_, _>>();
        let map = ConfigMap {
            metadata: self.meta(self.named("backend")),
            data: Some([(DOCUMENT_KEY.to_owned(), document.clone())].into()),
            binary_data: (!binary.is_empty()).then_some(binary),
            ..ConfigMap::default()
        };
        Manifest::new(about, &map)
    }
}

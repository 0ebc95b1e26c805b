//! A document as a StorageBackend object. Each path of the document becomes absolute, and everything else is unchanged, except for comments.
//!
//! It checks nothing: the document was checked before.

use super::carried::KEYS;
use crate::fault::Fault;
use serde_json::{Value, json};
use std::path::Path;
use wasmount_kubernetes::manifests::{Manifest, secret_object};
use wasmount_kubernetes::storage_backend::object_of;

/// The locations of single paths in a document.
const PATHS: [&str; 3] = [
    "/spec/plugin/path",
    "/spec/plugin/registry/caFile",
    "/spec/plugin/registry/credentials/file",
];

/// The object with the paths of this machine.
pub(super) fn of_folder(text: &str, folder: &Path) -> Result<Manifest, Fault> {
    let mut document = read(text)?;
    for pointer in PATHS {
        if let Some(path) = document.pointer_mut(pointer) {
            absolute(path, folder);
        }
    }
    for pointer in KEYS {
        let keys = document.pointer_mut(pointer).and_then(Value::as_array_mut);
        for file in keys
            .into_iter()
            .flatten()
            .filter_map(|key| key.get_mut("file"))
        {
            absolute(file, folder);
        }
    }
    let secrets = document.pointer_mut("/spec/secrets");
    let secrets = secrets.and_then(Value::as_object_mut);
    for file in secrets
        .into_iter()
        .flatten()
        .filter_map(|(_, it)| it.get_mut("file"))
    {
        absolute(file, folder);
    }
    Ok(Manifest {
        comment: "Its paths are those of this machine: each host reads them on its own.".to_owned(),
        object: object_of(document),
    })
}

/// The object with the paths in pods, and its secrets in one Secret.
pub(super) fn in_pods<'a>(
    mut document: Value,
    plugin: &str,
    backend: &str,
    namespace: &str,
    secrets: impl Iterator<Item = &'a String>,
) -> Value {
    if let Some(path) = document.pointer_mut("/spec/plugin/path") {
        *path = json!(plugin);
    }
    let sources = document.pointer_mut("/spec/secrets");
    if let Some(Value::Object(sources)) = sources {
        for key in secrets {
            let secret =
                json!({ "namespace": namespace, "name": secret_object(backend), "key": key });
            sources.insert(key.clone(), json!({ "secret": secret }));
        }
    }
    object_of(document)
}

pub(super) fn read(text: &str) -> Result<Value, Fault> {
    serde_saphyr::from_str(text).map_err(Fault::room("the document cannot be read again"))
}

fn absolute(path: &mut Value, folder: &Path) {
    if let Some(text) = path.as_str() {
        *path = json!(folder.join(text).display().to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: { name: a }
spec:
  driverName: a.example
  plugin:
    path: a.wasm
    verify: { anyOf: [{ file: key.pub }, { pem: x }] }
  settings: { port: \"8080\" }
  secrets: { token: { file: /run/token }, key: { file: key } }
  grants: { pools: { p: { path: p } } }
";

    #[test]
    fn every_path_but_that_of_a_pool_becomes_a_full_one() {
        let object = of_folder(DOCUMENT, Path::new("/etc/w")).unwrap().object;
        let spec = &object["spec"];
        assert_eq!(spec["plugin"]["path"], "/etc/w/a.wasm");
        let verify = &spec["plugin"]["verify"]["anyOf"];
        assert_eq!(
            verify,
            &json!([{ "file": "/etc/w/key.pub" }, { "pem": "x" }])
        );
        assert_eq!(spec["secrets"]["token"]["file"], "/run/token");
        assert_eq!(spec["secrets"]["key"]["file"], "/etc/w/key");
        assert_eq!(spec["grants"]["pools"]["p"]["path"], "p");
        assert_eq!(spec["settings"]["port"], "8080");
    }

    #[test]
    fn in_pods_secrets_are_values_of_one_secret() {
        let names = ["key".to_owned(), "token".to_owned()];
        let object = in_pods(read(DOCUMENT).unwrap(), "/p.wasm", "a", "n", names.iter());
        let spec = &object["spec"];
        assert_eq!(spec["plugin"]["path"], "/p.wasm");
        assert_eq!(
            spec["secrets"]["token"],
            json!({ "secret": { "namespace": "n", "name": "wasmount-a-secrets", "key": "token" } })
        );
    }
}

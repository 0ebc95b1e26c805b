//! A document as a StorageBackend object. Each path of the document becomes absolute, and everything else is unchanged, except for comments.
//!
//! It checks nothing: the document was checked before.

use super::carried::KEYS;
use crate::fault::Fault;
use serde_json::{Value, json};
use std::path::Path;
use wasmount_kubernetes::manifests::Manifest;
use wasmount_kubernetes::storage_backend::object_of;

/// The locations of single paths in a document.
const PATHS: [&str; 3] = [
    "/spec/plugin/path",
    "/spec/plugin/registry/caFile",
    "/spec/plugin/registry/credentials/file",
];

/// The object with the paths of this machine, and a warning if there are any.
pub(super) fn of_folder(text: &str, folder: &Path) -> Result<(Manifest, Vec<String>), Fault> {
    let mut document = read(text)?;
    let mut paths = Vec::new();
    for pointer in PATHS {
        if let Some(path) = document.pointer_mut(pointer) {
            paths.extend(absolute(path, folder));
        }
    }
    for pointer in KEYS {
        let keys = document.pointer_mut(pointer).and_then(Value::as_array_mut);
        paths.extend(absolute_files(keys.into_iter().flatten(), folder));
    }
    let secrets = document.pointer_mut("/spec/secrets");
    let secrets = secrets.and_then(Value::as_object_mut);
    let secrets = secrets.into_iter().flat_map(|all| all.values_mut());
    paths.extend(absolute_files(secrets, folder));
    let manifest = Manifest {
        comment: "The document of a backend as an object.".to_owned(),
        object: object_of(document),
    };
    let warning = format!(
        "the object names files of this machine, which each host reads on its own node: {}; \
         for nodes without them, print a plugin with --storage-backends, or name it by `plugin.reference` and secrets by `secret`",
        paths.join(", ")
    );
    let warnings = (!paths.is_empty()).then_some(warning);
    Ok((manifest, warnings.into_iter().collect()))
}

/// The document with the path of the plugin in pods, and `source` as the source of each of these secrets.
pub(super) fn in_pods(
    mut document: Value,
    plugin: &str,
    secrets: &[String],
    source: impl Fn(&str) -> Value,
) -> Value {
    if let Some(path) = document.pointer_mut("/spec/plugin/path") {
        *path = json!(plugin);
    }
    if let Some(Value::Object(sources)) = document.pointer_mut("/spec/secrets") {
        sources.extend(secrets.iter().map(|name| (name.clone(), source(name))));
    }
    document
}

pub(super) fn read(text: &str) -> Result<Value, Fault> {
    serde_saphyr::from_str(text).map_err(Fault::failed("the document cannot be read again"))
}

fn absolute_files<'a>(sources: impl Iterator<Item = &'a mut Value>, folder: &Path) -> Vec<String> {
    let files = sources.filter_map(|source| source.get_mut("file"));
    files.filter_map(|file| absolute(file, folder)).collect()
}

/// Makes a path absolute, and returns it.
fn absolute(path: &mut Value, folder: &Path) -> Option<String> {
    let full = folder.join(path.as_str()?).display().to_string();
    *path = json!(full);
    Some(full)
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
        let (manifest, warnings) = of_folder(DOCUMENT, Path::new("/etc/w")).unwrap();
        let object = manifest.object;
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
        let named = "/etc/w/a.wasm, /etc/w/key.pub, /etc/w/key, /run/token;";
        assert!(warnings[0].contains(named), "{warnings:?}");
    }

    #[test]
    fn an_object_that_names_no_file_has_no_warning() {
        let text = DOCUMENT
            .replace("path: a.wasm", "reference: a.example/b:1")
            .replace("{ file: key.pub }, ", "")
            .replace(
                "secrets: { token: { file: /run/token }, key: { file: key } }",
                "secrets: {}",
            );
        let (_, warnings) = of_folder(&text, Path::new("/etc/w")).unwrap();
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn in_pods_secrets_are_values_of_one_secret() {
        let names = ["key".to_owned(), "token".to_owned()];
        let source =
            |name: &str| json!({ "secret": { "name": "wasmount-a-secrets", "key": name } });
        let document = in_pods(read(DOCUMENT).unwrap(), "/p.wasm", &names, source);
        let spec = &document["spec"];
        assert_eq!(spec["plugin"]["path"], "/p.wasm");
        for name in names {
            assert_eq!(spec["secrets"][&name], source(&name));
        }
    }
}

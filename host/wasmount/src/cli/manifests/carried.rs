//! Files of this machine that a document names and pods do not have: which of them are copied into the cluster, and which cannot be.

use crate::cli::transfer::beside;
use crate::fault::Fault;
use crate::regular_file;
use crate::signature_files::with_paths;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use wasmount_artifact::signature::{KEY_BYTES, VerifyingKey};
use wasmount_kubernetes::manifests::{CONFIG_MAP_BYTES, PLUGIN_IN_CONFIG, path_in_config};

/// The path of docker's `config.json` in a document.
const CREDENTIALS: &str = "/spec/plugin/registry/credentials/file";
/// The path of the CA certificates in a document.
const CERTIFICATES: &str = "/spec/plugin/registry/caFile";
/// Lists of keys, each with a `file`.
pub(super) const KEYS: [&str; 2] = ["/spec/plugin/verify/anyOf", "/spec/plugin/verify/allOf"];

/// Files by their keys in the ConfigMap.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Writes public keys into the document itself, and certificates beside it, under this key.
pub(super) fn named_files(
    document: &mut Value,
    folder: &Path,
    certificates: &str,
) -> Result<Files, Fault> {
    if let Some(file) = document.pointer(CREDENTIALS).and_then(Value::as_str) {
        return Err(refused(
            "plugin.registry.credentials.file",
            file,
            "pods have no such file, and a ConfigMap must not hold credentials; make a Secret of the type kubernetes.io/dockerconfigjson and name \
             it as `credentials.secret`",
        ));
    }
    let mut files = Files::new();
    if let Some(path) = document.pointer_mut(CERTIFICATES)
        && let Some(file) = path.as_str()
    {
        let bytes = read("plugin.registry.caFile", folder, file, CONFIG_MAP_BYTES)?;
        files.insert(certificates.to_owned(), bytes);
        *path = json!(path_in_config(certificates));
    }
    for pointer in KEYS {
        let keys = document.pointer_mut(pointer).and_then(Value::as_array_mut);
        for key in keys.into_iter().flatten() {
            if let Some(file) = key.get("file").and_then(Value::as_str) {
                *key = json!({ "pem": public_key(folder, file)? });
            }
        }
    }
    Ok(files)
}

/// The signatures beside a component, under the names that a host looks for beside `plugin.wasm`.
pub(super) fn signatures(component: &Path) -> Result<Files, Fault> {
    let named = with_paths(beside(component)?, Path::new(PLUGIN_IN_CONFIG));
    let files = named.map(|(name, bytes)| (name.display().to_string(), bytes));
    Ok(files.collect())
}

fn public_key(folder: &Path, file: &str) -> Result<String, Fault> {
    let name = "plugin.verify";
    let text = String::from_utf8(read(name, folder, file, KEY_BYTES)?);
    let text = text.map_err(|_| refused(name, file, "is not text"))?;
    match VerifyingKey::from_pem(&text) {
        Ok(_) => Ok(text),
        Err(reason) => Err(refused(name, file, reason)),
    }
}

fn read(name: &str, folder: &Path, file: &str, most: usize) -> Result<Vec<u8>, Fault> {
    regular_file::read(&folder.join(file), most as u64).map_err(|reason| {
        let reason = format!("{reason}; its content goes into the cluster, so it must be here");
        refused(name, file, reason)
    })
}

fn refused(name: &str, file: &str, reason: impl Display) -> Fault {
    Fault::flag("--backend", format!("spec.{name} {file}"), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExYp9HoxdNe2ExvpOdiipayZnBUNa\n\
    cMH+0mMy/jsSaJuCUdTwNRivHunChdGBn/kHIz9AYtRz94HEe3z8W14hhw==\n\
    -----END PUBLIC KEY-----\n";

    #[test]
    fn keys_go_into_the_document_and_certificates_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let pem = PUBLIC_KEY.to_owned();
        fs::write(folder.path().join("key.pub"), &pem).unwrap();
        fs::write(folder.path().join("ca.pem"), "ca").unwrap();
        let mut document = json!({ "spec": { "plugin": {
            "registry": { "caFile": "ca.pem" },
            "verify": { "anyOf": [{ "file": "key.pub" }, { "pem": "x" }], "allOf": [{ "file": folder.path().join("key.pub") }] },
        } } });
        let files = named_files(&mut document, folder.path(), "registry-ca.pem").unwrap();
        assert_eq!(
            document["spec"]["plugin"],
            json!({
                "registry": { "caFile": "/etc/wasmount/registry-ca.pem" },
                "verify": { "anyOf": [{ "pem": pem }, { "pem": "x" }], "allOf": [{ "pem": pem }] },
            })
        );
        assert_eq!(
            files,
            [("registry-ca.pem".to_owned(), b"ca".to_vec())].into()
        );
    }

    #[test]
    fn what_no_pod_can_have_is_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key.pub"), "no key").unwrap();
        for (plugin, beginning) in [
            (
                json!({ "registry": { "credentials": { "file": "docker.json" } } }),
                "--backend spec.plugin.registry.credentials.file docker.json: pods have no such file",
            ),
            (
                json!({ "registry": { "caFile": "ca.pem" } }),
                "--backend spec.plugin.registry.caFile ca.pem: cannot be read",
            ),
            (
                json!({ "verify": { "allOf": [{ "file": "none.pub" }] } }),
                "--backend spec.plugin.verify none.pub: cannot be read",
            ),
            (
                json!({ "verify": { "anyOf": [{ "file": "key.pub" }] } }),
                "--backend spec.plugin.verify key.pub: ",
            ),
        ] {
            let mut document = json!({ "spec": { "plugin": plugin } });
            let message = named_files(&mut document, folder.path(), "registry-ca.pem").unwrap_err();
            assert!(message.to_string().starts_with(beginning), "{message}");
        }
    }

    #[test]
    fn signature_references_are_named_as_the_host_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("nas.wasm");
        assert_eq!(signatures(&component).unwrap(), Files::new());
        fs::write(folder.path().join("nas.wasm.sig"), "s").unwrap();
        fs::write(folder.path().join("nas.wasm.bundle"), "b").unwrap();
        let expected = [
            ("plugin.wasm.bundle".to_owned(), b"b".to_vec()),
            ("plugin.wasm.sig".to_owned(), b"s".to_vec()),
        ];
        assert_eq!(signatures(&component).unwrap(), expected.into());
    }
}

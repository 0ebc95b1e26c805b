//! `load` of files that were made to do harm: apart from `bundles`, where nobody means any. Each is a good bundle whose list a stranger wrote
//! anew.

use crate::registry::server::{Server, component, good, text, wasmount};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wasmount_artifact::Digest;

/// The tag of an entry of a layout's list.
const NAME: &str = "org.opencontainers.image.ref.name";

/// A layout as files, to be written into.
struct Layout(PathBuf);

impl Layout {
    /// That of a component.
    fn new(folder: &Path) -> Self {
        let (bundle, files) = (folder.join("good.tar"), folder.join("layout"));
        let wasm = component();
        good(&mut wasmount(&["save", text(&wasm), "-o", text(&bundle)]));
        fs::create_dir(&files).unwrap();
        good(Command::new("tar").args(["-xf", text(&bundle), "-C", text(&files)]));
        Self(files)
    }

    fn index(&self) -> Value {
        let index = fs::read(self.0.join("index.json")).unwrap();
        serde_json::from_slice(&index).unwrap()
    }

    /// Puts bytes there, and gives a descriptor of them.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        fs::write(self.0.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        json!({ "mediaType": media_type, "digest": digest.as_str(), "size": bytes.len() })
    }

    /// A manifest that speaks of the artifact and has this tag.
    fn speaks_of_it(&self, tag: &str) -> Value {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.blob("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [],
            "subject": self.index()["manifests"][0],
            "annotations": { "wants": tag },
        });
        let bytes = manifest.to_string().into_bytes();
        let mut entry = self.blob("application/vnd.oci.image.manifest.v1+json", &bytes);
        entry["annotations"] = json!({ NAME: tag });
        entry
    }

    /// As a file that is loaded.
    fn with(&self, entries: Vec<Value>) -> PathBuf {
        let mut index = self.index();
        index["manifests"].as_array_mut().unwrap().extend(entries);
        fs::write(self.0.join("index.json"), index.to_string()).unwrap();
        let bundle = self.0.with_extension("tar");
        let words = ["-cf", text(&bundle), "-C", text(&self.0), "."];
        good(Command::new("tar").args(words));
        bundle
    }
}

#[test]
fn a_bundle_writes_only_the_named_tag_and_signature_tags() {
    let server = Server::start();
    let stable = server.reference("storage/nas:stable");
    let other = server.path().join("other.wasm");
    let mut wasm = fs::read(component()).unwrap();
    // A custom section that is called `x`.
    wasm.extend([0, 2, 1, b'x']);
    fs::write(&other, &wasm).unwrap();
    good(&mut server.wasmount(&["push", text(&other), &stable]));
    let layout = Layout::new(server.path());
    let strange = ["stable", "../../other/manifests/latest"];
    let bundle = layout.with(strange.map(|tag| layout.speaks_of_it(tag)).to_vec());
    let to = server.reference("storage/nas:1");
    let said = good(&mut server.wasmount(&["load", text(&bundle), "--to", &to]));
    assert!(said.ends_with(", 2 attached\n"), "{said}");
    let pulled = server.path().join("pulled.wasm");
    good(&mut server.wasmount(&["pull", &stable, "-o", text(&pulled)]));
    assert_eq!(fs::read(&pulled).unwrap(), wasm);
}

//! Beside another client: skopeo moves what we push, and we pull what it has moved, with the same digests on every way.

use crate::registry::server::{Server, component, good, refused, text};
use std::fs;
use xtask::command;

#[test]
fn skopeo_copies_what_was_pushed_and_what_it_copies_is_pulled() {
    let server = Server::start();
    let file = component();
    let reference = server.reference("storage/nas:1");
    let pushed = good(&mut server.wasmount(&["push", text(&file), &reference]));
    let digest = pushed.trim().rsplit('@').next().unwrap().to_owned();
    let docker = |rest: &str| format!("docker://{}/{rest}", server.host());
    let copy = [docker("storage/nas:1"), docker("other/place:2")];
    command::read(&mut server.skopeo(&[&copy[0], &copy[1]])).unwrap();
    let output = server.path().join("out.wasm");
    let moved = server.reference("other/place:2");
    let said = good(&mut server.wasmount(&["pull", &moved, "-o", text(&output)]));
    assert!(said.contains(&digest), "{said}");
    assert_eq!(fs::read(&output).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn skopeo_reads_a_bundle_and_we_read_its_own() {
    let server = Server::start();
    let file = component();
    let bundle = server.path().join("nas.tar");
    let reference = server.reference("storage/nas:1");
    let pushed = good(&mut server.wasmount(&["push", text(&file), &reference]));
    let digest = pushed.trim().rsplit('@').next().unwrap().to_owned();
    good(&mut server.wasmount(&["save", &reference, "-o", text(&bundle)]));
    let archive = format!("oci-archive:{}:1", bundle.display());
    let to = format!("docker://{}/from/bundle:3", server.host());
    command::read(&mut server.skopeo(&[&archive, &to])).unwrap();
    let output = server.path().join("out.wasm");
    let pull = server.reference("from/bundle:3");
    let said = good(&mut server.wasmount(&["pull", &pull, "-o", text(&output)]));
    assert!(said.contains(&digest), "{said}");
    let theirs = server.path().join("theirs.tar");
    let archive = format!("oci-archive:{}:4", theirs.display());
    command::read(&mut server.skopeo(&[&to, &archive])).unwrap();
    fs::remove_file(&output).unwrap();
    let load = ["load", text(&theirs), "-o", text(&output)];
    let said = good(&mut crate::registry::server::wasmount(&load));
    assert!(said.starts_with(&digest), "{said}");
    assert_eq!(fs::read(&output).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn a_container_image_is_distinguished_from_a_plugin() {
    let server = Server::start();
    let folder = server.path().join("image");
    fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    let put = |bytes: &[u8]| {
        let digest = wasmount_artifact::Digest::of(bytes);
        fs::write(folder.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        digest
    };
    let config = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},"config":{}}"#;
    let layer = b"layer";
    let described = |kind: &str, bytes: &[u8]| {
        format!(
            r#"{{"mediaType":"{kind}","digest":"{}","size":{}}}"#,
            put(bytes),
            bytes.len()
        )
    };
    let kind = "application/vnd.oci.image";
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{kind}.manifest.v1+json","config":{},"layers":[{}]}}"#,
        described(&format!("{kind}.config.v1+json"), config),
        described(&format!("{kind}.layer.v1.tar"), layer),
    );
    let entry = described(&format!("{kind}.manifest.v1+json"), manifest.as_bytes());
    fs::write(
        folder.join("index.json"),
        format!(r#"{{"schemaVersion":2,"manifests":[{entry}]}}"#),
    )
    .unwrap();
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    let from = format!("oci:{}", folder.display());
    let to = format!("docker://{}/an/image:1", server.host());
    command::read(&mut server.skopeo(&[&from, &to])).unwrap();
    let said = refused(&mut server.wasmount(&["pull", &server.reference("an/image:1")]));
    assert!(
        said.contains("so it is a container image; push a component"),
        "{said}"
    );
}

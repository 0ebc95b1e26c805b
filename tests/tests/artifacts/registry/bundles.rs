//! `save` and `load`: from one registry through a file into another, with everything that lay beside.

use crate::registry::server::{Server, component, good, refused, text, wasmount};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use wasmount_artifact::{
    Access, Annotations, AttachedManifest, Attachment, COSIGN_SIGNATURE, Descriptor, Digest, Login,
    Manifest, Registry, cosign_tag, silent,
};
use wasmount_core::document::Reference;
use wasmount_tests::keys::key_pair;

pub(crate) fn connected(server: &Server, reference: &str) -> Registry {
    let login = Login {
        user: "ann".to_owned(),
        password: "hunter2".to_owned().into(),
        found: "a test".to_owned(),
    };
    let access = Access {
        credentials: Some(login),
        extra_ca: Some(fs::read(&server.certificates.authority).unwrap()),
        ..Access::default()
    };
    let reference = Reference::parse(reference).unwrap();
    Registry::connect(&reference, access, Arc::new(silent)).unwrap()
}

/// Puts a signature at cosign's tag, and a bundle among the referrers.
async fn attach(registry: &Registry, subject: &Digest) {
    let (config, payload) = (b"{}".to_vec(), br#"{"critical":{}}"#.to_vec());
    let described = |kind: &str| {
        let config = Descriptor::of("application/vnd.oci.image.config.v1+json", b"{}");
        let layer = Descriptor::of(kind, br#"{"critical":{}}"#);
        Manifest::new(config, vec![layer], Annotations::new())
    };
    for blob in [config, payload] {
        registry.push_blob("a blob", blob.into()).await.unwrap();
    }
    let signature = described(COSIGN_SIGNATURE);
    let tag = cosign_tag(subject);
    registry
        .push_manifest(&tag, signature.media_type(), signature.to_bytes())
        .await
        .unwrap();
    let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let mut bundle = described(kind);
    bundle.artifact_type = Some(kind.to_owned());
    let subject_manifest = registry.manifest(subject.as_str()).await.unwrap();
    bundle.subject = Some(Descriptor::of(
        &subject_manifest.media_type,
        &subject_manifest.bytes,
    ));
    let bytes = bundle.to_bytes();
    let mut entry = Descriptor::of(bundle.media_type(), &bytes);
    entry.artifact_type = Some(kind.to_owned());
    registry.attach(subject, &entry, bytes).await.unwrap();
}

fn shown(attached: Vec<AttachedManifest>) -> Vec<(bool, Vec<Vec<u8>>)> {
    attached
        .into_iter()
        .map(|it| (it.at_tag, it.layers))
        .collect()
}

#[test]
fn signatures_travel_in_the_file_from_one_registry_to_another() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (one, other) = (Server::start(), Server::start());
    let reference = one.reference("storage/nas:1");
    let pushed = good(&mut one.wasmount(&["push", text(&component()), &reference]));
    let digest = Digest::parse(pushed.trim().rsplit('@').next().unwrap()).unwrap();
    runtime.block_on(attach(&connected(&one, &reference), &digest));
    let file = one.path().join("nas.tar");
    let said = good(&mut one.wasmount(&["save", &reference, "-o", text(&file)]));
    assert_eq!(said, format!("{digest} {}, 2 attached\n", file.display()));
    let to = other.reference("mirror/nas:1");
    let said = good(&mut other.wasmount(&["load", text(&file), "--to", &to]));
    let pinned = format!("{}@{digest}\n", other.reference("mirror/nas"));
    assert!(
        said.starts_with(&pinned) && said.ends_with(", 2 attached\n"),
        "{said}"
    );
    let (found, missed) = runtime.block_on(connected(&other, &to).attached(&digest));
    assert_eq!(missed.unread, [""; 0]);
    let found: Vec<_> = found.into_iter().filter_map(Attachment::whole).collect();
    let payload = vec![br#"{"critical":{}}"#.to_vec()];
    assert_eq!(shown(found), [(true, payload.clone()), (false, payload)]);
}

#[test]
fn a_file_of_one_component_needs_no_registry() {
    let folder = tempfile::tempdir().unwrap();
    let (bundle, output) = (folder.path().join("p.tar"), folder.path().join("p.wasm"));
    good(&mut wasmount(&[
        "save",
        text(&component()),
        "-o",
        text(&bundle),
    ]));
    let checked = good(&mut wasmount(&["load", text(&bundle)]));
    let loaded = good(&mut wasmount(&["load", text(&bundle), "-o", text(&output)]));
    assert_eq!(checked.lines().next(), loaded.lines().next());
    assert_eq!(fs::read(&output).unwrap(), fs::read(component()).unwrap());
}

/// A component and a custom section of this many bytes, so that writing it takes a while.
fn bulky(bytes: u32) -> Vec<u8> {
    let mut wasm = fs::read(component()).unwrap();
    let length = bytes + 2;
    wasm.push(0);
    // LEB128, in the five bytes that it may take.
    wasm.extend((0..5).map(|at| (length >> (7 * at)) as u8 & 0x7f | if at < 4 { 0x80 } else { 0 }));
    wasm.extend([1, b'x']);
    wasm.resize(wasm.len() + bytes as usize, 0xa5);
    wasm
}

/// Whether this process has begun to write a file of the folder, with a name or without one.
fn writes_into(folder: &Path, process: u32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let mut files = open.flatten().map(|entry| entry.path());
    files.any(|file| {
        let leads_there = fs::read_link(&file).is_ok_and(|to| to.starts_with(folder));
        leads_there && fs::metadata(&file).is_ok_and(|file| file.len() > 0)
    })
}

#[test]
fn a_save_that_is_killed_in_the_middle_leaves_nothing() {
    const BULK_BYTES: u32 = 48 << 20;
    const TRIES: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let wasm = folder.path().join("bulky.wasm");
    fs::write(&wasm, bulky(BULK_BYTES)).unwrap();
    let into = folder.path().join("into");
    fs::create_dir(&into).unwrap();
    let output = into.join("p.tar");
    let amid = (0..TRIES).any(|_| {
        let mut save = wasmount(&["save", text(&wasm), "-o", text(&output)]);
        let mut save = save.stdout(Stdio::null()).spawn().unwrap();
        let ended = loop {
            if let Some(ended) = save.try_wait().unwrap() {
                break ended;
            }
            if writes_into(&into, save.id()) {
                save.kill().unwrap();
                break save.wait().unwrap();
            }
        };
        let names: Vec<_> = fs::read_dir(&into).unwrap().flatten().collect();
        if ended.success() {
            fs::remove_file(&output).unwrap();
            return false;
        }
        assert_eq!(ended.signal(), Some(9));
        assert!(names.is_empty(), "{names:?}");
        true
    });
    assert!(amid, "it was never found writing");
}

#[test]
fn signatures_travel_with_a_file_outside_registries() {
    let server = Server::start();
    let at = |name: &str| server.path().join(name);
    let (wasm, bundle, output) = (at("p.wasm"), at("p.tar"), at("o.wasm"));
    fs::copy(component(), &wasm).unwrap();
    key_pair(server.path(), "acme", "").unwrap();
    let (key, public) = (at("acme.key"), at("acme.pub"));
    let sign = ["sign", text(&wasm), "--key", text(&key)];
    good(wasmount(&sign).env("WASMOUNT_KEY_PASSWORD", ""));
    let said = good(&mut wasmount(&["save", text(&wasm), "-o", text(&bundle)]));
    assert!(said.ends_with("p.tar, 1 attached\n"), "{said}");
    let said = good(&mut wasmount(&["load", text(&bundle), "-o", text(&output)]));
    assert!(said.ends_with("/o.wasm.sig\n"), "{said}");
    good(&mut wasmount(&[
        "verify",
        text(&output),
        "--key",
        text(&public),
    ]));
    let to = server.reference("storage/nas:1");
    let said = good(&mut server.wasmount(&["load", text(&bundle), "--to", &to]));
    assert!(said.contains(", 0 attached\nleft out: "), "{said}");
    // The other way round: what signs the artifact is nothing for a file, and that is said.
    let sign = ["sign", to.as_str(), "--key", text(&key)];
    good(server.wasmount(&sign).env("WASMOUNT_KEY_PASSWORD", ""));
    good(&mut server.wasmount(&["save", &to, "-o", text(&bundle)]));
    let other = at("other.wasm");
    let said = good(&mut wasmount(&["load", text(&bundle), "-o", text(&other)]));
    assert!(said.contains("left out: 1 attached"), "{said}");
    assert!(!at("other.wasm.sig").exists());
}

#[test]
fn a_file_that_was_changed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (bundle, output) = (folder.path().join("p.tar"), folder.path().join("p.wasm"));
    good(&mut wasmount(&[
        "save",
        text(&component()),
        "-o",
        text(&bundle),
    ]));
    let mut bytes = fs::read(&bundle).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&bundle, &bytes).unwrap();
    let said = refused(&mut wasmount(&["load", text(&bundle), "-o", text(&output)]));
    assert!(said.contains("has bytes of another digest"), "{said}");
    fs::write(&bundle, &bytes[..middle]).unwrap();
    refused(&mut wasmount(&["load", text(&bundle), "-o", text(&output)]));
    assert!(!output.exists());
}

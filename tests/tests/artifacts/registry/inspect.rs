//! `wasmount inspect oci://..`: what is printed of an artifact in a registry, by tag and by digest, and of the signatures beside it.

use crate::registry::server::{Server, component, good, refused, text, wasmount};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_artifact::Digest;
use wasmount_tests::keys::key_pair;

/// What every key here is opened with.
const PASSWORD: &str = "correct horse";
/// How long a command may take to begin, and between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);

/// Makes NAME.key and NAME.pub beside a registry; gives both.
fn keys(server: &Server, name: &str) -> (PathBuf, PathBuf) {
    let prefix = server.path().join(name);
    key_pair(server.path(), name, PASSWORD).unwrap();
    (prefix.with_extension("key"), prefix.with_extension("pub"))
}

fn push(server: &Server, reference: &str) -> String {
    let file = component();
    let pushed = good(&mut server.wasmount(&["push", text(&file), reference]));
    pushed.trim_end().to_owned()
}

fn sign(server: &Server, reference: &str, key: &Path) {
    let mut command = server.wasmount(&["sign", reference, "--key", text(key)]);
    good(command.env("WASMOUNT_KEY_PASSWORD", PASSWORD));
}

/// A document for this artifact that wants to have it signed by a key.
fn document(server: &Server, reference: &str, key: &Path) -> PathBuf {
    let path = server.path().join("backend.yaml");
    let document = format!(
        "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: nas }}\nspec:\n  \
         driverName: nas.wasmount.io\n  plugin:\n    reference: {reference}\n    verify: {{ anyOf: [{{ file: {key:?} }}] }}\n  \
         grants: {{ pools: {{ volumes: {{ path: volumes }} }} }}\n"
    );
    fs::write(&path, document).unwrap();
    path
}

/// The command, in a directory of temporary files that must be empty afterwards.
fn inspect(server: &Server, words: &[&str]) -> (Command, PathBuf) {
    let temporary = server.path().join("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let words = [&["inspect"], words].concat();
    let mut command = server.wasmount(&words);
    command.env("TMPDIR", &temporary);
    (command, temporary)
}

fn told(server: &Server, words: &[&str]) -> String {
    let (mut command, temporary) = inspect(server, words);
    let told = good(&mut command);
    assert_eq!(fs::read_dir(temporary).unwrap().count(), 0);
    told
}

fn json_of(server: &Server, words: &[&str]) -> Value {
    let words = [words, &["--json"]].concat();
    serde_json::from_str(&told(server, &words)).unwrap()
}

#[test]
fn an_artifact_is_identified_by_digest_for_every_tag() {
    let server = Server::start();
    let tag = server.reference("storage/nas:1");
    let pinned = push(&server, &tag);
    for name in [&tag, &pinned] {
        let found = json_of(&server, &[name]);
        assert_eq!(found["origin"], json!(pinned));
        let wasm = fs::read(component()).unwrap();
        assert_eq!(found["digest"], json!(Digest::of(&wasm).to_string()));
        assert_eq!(found["sizeBytes"], json!(wasm.len()));
        assert_eq!(found["plugin"]["name"], "directory.wasmount.io");
        assert_eq!(found["verdict"]["word"], "serves");
        assert_eq!(
            found["signatures"],
            json!({ "places": [], "word": "not-asked", "said": [], "passedOver": [] })
        );
    }
    let shown = told(&server, &[&tag]);
    for part in [
        format!("origin     {pinned}\n"),
        "signature  none found\n".to_owned(),
        "verdict    this host would serve it\n".to_owned(),
    ] {
        assert!(shown.contains(&part), "{part}: {shown}");
    }
}

#[test]
fn the_world_of_an_artifact_is_printed_and_nothing_else() {
    let server = Server::start();
    let tag = server.reference("storage/nas:1");
    push(&server, &tag);
    let file = component();
    let of_file = good(&mut wasmount(&["inspect", text(&file), "--wit"]));
    let world = told(&server, &[&tag, "--wit"]);
    assert!(world.starts_with("package root:component;\n"), "{world}");
    assert_eq!(world, of_file);
}

#[test]
fn signers_are_shown_and_checked_by_the_document() {
    let server = Server::start();
    let tag = server.reference("storage/nas:1");
    let pinned = push(&server, &tag);
    let (ann, ann_pub) = keys(&server, "ann");
    let (_, bob_pub) = keys(&server, "bob");
    let under = document(&server, &tag, &ann_pub);

    let unsigned = json_of(&server, &[&tag, "--backend", text(&under)]);
    assert_eq!(unsigned["verdict"]["word"], "refused");
    assert_eq!(unsigned["verdict"]["kind"], "signature");
    assert_eq!(unsigned["signatures"]["word"], "refused");
    let said = unsigned["signatures"]["said"][0].as_str().unwrap();
    assert!(
        said.starts_with("sha256:") && said.contains(" has no signature"),
        "{said}"
    );

    sign(&server, &pinned, &ann);
    let digest = pinned.rsplit_once("@sha256:").unwrap().1;
    let place = format!("sha256-{digest}.sig");
    for name in [&tag, &pinned] {
        let signed = json_of(&server, &[name, "--backend", text(&under)]);
        assert_eq!(signed["verdict"]["word"], "serves", "{signed:#}");
        assert_eq!(
            signed["signatures"],
            json!({ "places": [place], "word": "signed", "said": [text(&ann_pub)], "passedOver": [] })
        );
    }
    let shown = told(&server, &[&tag]);
    assert!(shown.contains(&format!("signature  {place}\n")), "{shown}");

    let under = document(&server, &tag, &bob_pub);
    let wrong = json_of(&server, &[&tag, "--backend", text(&under)]);
    assert_eq!(wrong["verdict"]["kind"], "signature");
    assert_eq!(wrong["signatures"]["places"], json!([place]));
    let said = wrong["signatures"]["said"][0].as_str().unwrap();
    assert!(
        said.contains("is by ") && said.contains("bob.pub"),
        "{said}"
    );
    let shown = told(&server, &[&tag, "--backend", text(&under)]);
    assert!(shown.contains("this host would refuse it"), "{shown}");
}

#[test]
fn a_lost_signature_blob_is_named_and_others_count() {
    let server = Server::start();
    let tag = server.reference("storage/nas:1");
    let pinned = push(&server, &tag);
    let (ann, ann_pub) = keys(&server, "ann");
    let (_, bob_pub) = keys(&server, "bob");
    sign(&server, &pinned, &ann);
    // The config, without which no image can be run, and which no signature needs.
    let lost = server.lose_blob("\"rootfs\"");
    let digest = pinned.rsplit_once("@sha256:").unwrap().1;
    let named = format!("the tag sha256-{digest}.sig: its blob sha256:{lost} is not there");

    let verify = |key: &Path| server.wasmount(&["verify", &tag, "--key", text(key)]);
    let verified = good(&mut verify(&ann_pub));
    let signer = ann_pub.display();
    assert_eq!(
        verified,
        format!("{pinned}\nsigned by {signer}\nignored: {named}\n")
    );
    let said = refused(&mut verify(&bob_pub));
    assert!(said.contains(&named), "{said}");

    let under = document(&server, &tag, &ann_pub);
    let found = json_of(&server, &[&tag, "--backend", text(&under)]);
    assert_eq!(found["verdict"]["word"], "serves", "{found:#}");
    assert_eq!(found["signatures"]["passedOver"], json!([named]));

    let bundle = server.path().join("nas.tar");
    let saved = good(&mut server.wasmount(&["save", &tag, "-o", text(&bundle)]));
    assert!(
        saved.contains(", 0 attached\nleft out: the tag sha256-"),
        "{saved}"
    );
}

#[test]
fn kill_9_leftovers_of_an_inspection_go_with_the_next_one() {
    let server = Server::start();
    let tag = server.reference("storage/nas:1");
    push(&server, &tag);
    let (mut command, temporary) = inspect(&server, &[&tag]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let left = temporary.join(format!("wasmount-artifact-{}-0", child.id()));
    let started = Instant::now();
    while !left.join("component.wasm").exists() {
        assert!(
            started.elapsed() < PATIENCE,
            "no component came to {}; the command: {:?}",
            left.display(),
            child.try_wait()
        );
        sleep(LOOK);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(left.exists());
    // Asserts that nothing temporary is there afterwards.
    told(&server, &[&tag]);
}

#[test]
fn what_is_not_there_or_not_reached_is_refused_with_what_to_do() {
    let mut server = Server::start();
    let tag = server.reference("storage/nas:1");
    push(&server, &tag);
    let absent = server.reference("storage/nas:2");
    let unknown = server.reference(&format!("storage/nas@{}", Digest::of(b"unknown")));
    for name in [&absent, &unknown] {
        let said = refused(&mut inspect(&server, &[name]).0);
        assert!(
            said.contains(&format!("{name} cannot be inspected")),
            "{said}"
        );
        assert!(
            said.contains("has no such thing; check name and tag"),
            "{said}"
        );
    }
    server.end();
    let said = refused(inspect(&server, &[&tag]).0.args(["--timeout", "2"]));
    assert!(
        said.contains(&format!("{tag} cannot be inspected")),
        "{said}"
    );
    assert!(said.contains("cannot be reached"), "{said}");
}

//! Signatures beside an artifact, in Debian's docker-registry: ours and cosign's, old form and new.

use crate::signatures::scene::{Ended, Scene};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use xtask::workspace::Workspace;

/// How long a registry may take to listen.
const START: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A registry with an artifact in it, on an address of its own.
struct Registry {
    scene: Scene,
    process: Child,
    address: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    fn start() -> Self {
        let scene = Scene::new();
        // Free a moment ago; if it is taken meanwhile the registry ends, which is seen below.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let data = scene.path("registry");
        let config = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {data:?} }} }}\nhttp: {{ addr: {address:?} }}\n"
        );
        scene.write("registry.yml", config);
        let mut process = Command::new("docker-registry")
            .arg("serve")
            .arg(scene.path("registry.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Debian's package docker-registry, which the set-up of all tests installs");
        let begin = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert_eq!(process.try_wait().unwrap(), None, "the registry ended");
            assert!(begin.elapsed() < START, "the registry does not listen");
            sleep(LOOK_AGAIN);
        }
        Self {
            scene,
            process,
            address,
        }
    }

    /// Pushes a component that differs from others by its mark; gives its name without `oci://`, by digest.
    fn push(&self, mark: u8) -> String {
        let component = Workspace::locate().unwrap().component("directory");
        let mut wasm = fs::read(component).unwrap();
        // A custom section that is called `x`.
        wasm.extend([0, 3, 1, b'x', mark]);
        self.scene.write("pushed.wasm", wasm);
        let tag = format!("oci://{}/acme/nas:{mark}", self.address);
        let name = self.wasmount(&["push", "pushed.wasm", &tag]).well();
        name.trim_end().strip_prefix("oci://").unwrap().to_owned()
    }

    fn wasmount(&self, words: &[&str]) -> Ended {
        self.scene.wasmount(&[words, &["--plain-http"]].concat())
    }

    fn sign(&self, name: &str, key: &str) -> String {
        let name = format!("oci://{name}");
        self.wasmount(&["sign", &name, "--key", key]).well()
    }

    fn verify(&self, name: &str, keys: &[&str]) -> Ended {
        let name = format!("oci://{name}");
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        let words: Vec<_> = ["verify", &name, "--all"].into_iter().chain(keys).collect();
        self.wasmount(&words)
    }
}

#[test]
fn what_wasmount_signs_in_a_registry_official_cosign_verifies() {
    let registry = Registry::start();
    let scene = &registry.scene;
    scene.key_pair("acme");
    scene.key_pair("other");
    let name = registry.push(1);
    scene.cosign(&["verify", "acme.pub", &name]).refused();
    let printed = registry.sign(&name, "acme.key");
    assert_eq!(scene.cosign(&["verify", "acme.pub", &name]).well(), "1\n");
    scene.cosign(&["verify", "other.pub", &name]).refused();
    // Once is enough.
    assert_eq!(registry.sign(&name, "acme.key"), printed);
    assert_eq!(scene.cosign(&["verify", "acme.pub", &name]).well(), "1\n");
}

#[test]
fn signatures_of_official_cosign_are_verified_in_both_forms() {
    let registry = Registry::start();
    let scene = &registry.scene;
    scene.key_pair("other");
    scene.cosign(&["generate-key-pair", "acme"]).well();
    for (mark, form) in [(1, "sign"), (2, "sign-bundle")] {
        let name = registry.push(mark);
        let refused = registry.verify(&name, &["acme.pub"]).refused();
        assert!(
            refused.contains("has no signature, and one by"),
            "{refused}"
        );
        scene.cosign(&[form, "acme.key", &name]).well();
        let printed = registry.verify(&name, &["acme.pub"]).well();
        assert_eq!(
            printed,
            format!("oci://{name}\nsigned by acme.pub\n"),
            "{form}"
        );
        let refused = registry.verify(&name, &["other.pub"]).refused();
        assert!(refused.contains("is by other.pub (sha256:"), "{refused}");
    }
}

#[test]
fn signatures_of_wasmount_and_official_cosign_lie_side_by_side() {
    let registry = Registry::start();
    let scene = &registry.scene;
    let keys = ["ours", "theirs", "third"];
    for key in keys {
        scene.key_pair(key);
    }
    let name = registry.push(1);
    registry.sign(&name, "ours.key");
    scene.cosign(&["sign", "theirs.key", &name]).well();
    scene.cosign(&["sign-bundle", "third.key", &name]).well();
    let printed = registry
        .verify(&name, &["ours.pub", "theirs.pub", "third.pub"])
        .well();
    assert!(
        printed.ends_with("signed by ours.pub\nsigned by theirs.pub\nsigned by third.pub\n"),
        "{printed}"
    );
    for key in ["ours.pub", "theirs.pub"] {
        assert_eq!(scene.cosign(&["verify", key, &name]).well(), "1\n", "{key}");
    }
}

#[test]
fn a_moved_signature_fails_here_and_in_official_cosign() {
    let registry = Registry::start();
    let scene = &registry.scene;
    scene.key_pair("acme");
    let signed = registry.push(1);
    let other = registry.push(2);
    registry.sign(&signed, "acme.key");
    let tag = |name: &str| {
        let (repository, digest) = name.split_once("@sha256:").unwrap();
        format!("docker://{repository}:sha256-{digest}.sig")
    };
    let mut copy = Command::new("skopeo");
    copy.args([
        "copy",
        "--quiet",
        "--insecure-policy",
        "--src-tls-verify=false",
    ])
    .args(["--dest-tls-verify=false", "--preserve-digests"])
    .args([tag(&signed), tag(&other)]);
    assert!(copy.status().unwrap().success());
    let refused = registry.verify(&other, &["acme.pub"]).refused();
    let digest = signed.split_once('@').unwrap().1;
    assert!(
        refused.contains(&format!("has signed {digest}, and this is")),
        "{refused}"
    );
    scene.cosign(&["verify", "acme.pub", &other]).refused();
}

#[test]
fn an_attestation_of_official_cosign_is_no_signature() {
    let registry = Registry::start();
    let scene = &registry.scene;
    scene.key_pair("acme");
    let name = registry.push(1);
    scene.cosign(&["attest", "acme.key", &name]).well();
    let refused = registry.verify(&name, &["acme.pub"]).refused();
    assert!(
        refused.contains("it is an attestation that says something else"),
        "{refused}"
    );
    // It harms no signature either.
    registry.sign(&name, "acme.key");
    registry.verify(&name, &["acme.pub"]).well();
}

#[test]
fn concurrent_signers_lose_no_signature() {
    let registry = Registry::start();
    let keys = ["ann", "bob", "eve", "joe"];
    for key in keys {
        registry.scene.key_pair(key);
    }
    let name = registry.push(1);
    thread::scope(|scope| {
        for key in keys {
            let (registry, name) = (&registry, &name);
            scope.spawn(move || registry.sign(name, &format!("{key}.key")));
        }
    });
    let public = keys.map(|key| format!("{key}.pub"));
    registry
        .verify(&name, &public.each_ref().map(String::as_str))
        .well();
}

#[test]
fn a_load_keeps_the_signatures_that_are_there() {
    let registry = Registry::start();
    for key in ["a", "b"] {
        registry.scene.key_pair(key);
    }
    let name = registry.push(1);
    registry.sign(&name, "a.key");
    let (source, digest) = name.split_once('@').unwrap();
    let from = format!("oci://{source}@{digest}");
    registry.wasmount(&["save", &from, "-o", "nas.tar"]).well();
    let to = format!("oci://{}/mirror/nas:1", registry.address);
    let mirror = format!("{}/mirror/nas@{digest}", registry.address);
    registry.wasmount(&["load", "nas.tar", "--to", &to]).well();
    registry.sign(&mirror, "b.key");
    registry.verify(&mirror, &["a.pub", "b.pub"]).well();
    for _ in 0..2 {
        let said = registry.wasmount(&["load", "nas.tar", "--to", &to]).well();
        assert!(said.ends_with(", 1 attached\n"), "{said}");
        registry.verify(&mirror, &["a.pub", "b.pub"]).well();
    }
}

//! Signatures beside a file: who signed is told, and whatever was changed is refused.

use crate::signatures::scene::{COMPONENT, FILE, Scene};

/// What is printed of the component of a scene.
const DIGEST_BEGINS: &str = "sha256:";

fn signed() -> Scene {
    let scene = Scene::new();
    scene.key_pair("acme");
    scene.wasmount(&["sign", FILE, "--key", "acme.key"]).well();
    scene
}

fn refusal(scene: &Scene) -> String {
    scene
        .wasmount(&["verify", FILE, "--key", "acme.pub"])
        .refused()
}

#[test]
fn a_signed_file_is_shown_with_digest_and_signer() {
    let scene = signed();
    let printed = scene
        .wasmount(&["verify", FILE, "--key", "acme.pub"])
        .well();
    let (digest, signer) = printed.split_once('\n').unwrap();
    assert!(digest.starts_with(DIGEST_BEGINS) && digest.len() == DIGEST_BEGINS.len() + 64);
    assert_eq!(signer, "signed by acme.pub\n");
}

#[test]
fn an_unsigned_file_is_refused_with_whose_signature_is_wanted() {
    let scene = Scene::new();
    scene.key_pair("acme");
    let refused = refusal(&scene);
    assert!(
        refused.contains(" has no signature, and one by acme.pub (sha256:"),
        "{refused}"
    );
}

#[test]
fn a_changed_byte_of_file_or_signature_is_refused() {
    let scene = signed();
    let mut changed = COMPONENT.to_vec();
    changed[4] ^= 1;
    scene.write(FILE, changed);
    assert!(refusal(&scene).contains("is by acme.pub"));

    scene.write(FILE, COMPONENT);
    let signature = scene.read("nas.wasm.sig");
    // A character of base64 within the numbers of the signature.
    let other = if &signature[40..41] == "A" { "B" } else { "A" };
    scene.write(
        "nas.wasm.sig",
        format!("{}{other}{}", &signature[..40], &signature[41..]),
    );
    assert!(refusal(&scene).contains("is by acme.pub"));

    scene.write("nas.wasm.sig", &signature);
    scene
        .wasmount(&["verify", FILE, "--key", "acme.pub"])
        .well();
}

#[test]
fn a_truncated_or_endless_signature_is_rejected() {
    let scene = signed();
    let signature = scene.read("nas.wasm.sig");
    for length in [0, 1, 4, signature.len() / 2, signature.len() - 4] {
        scene.write("nas.wasm.sig", &signature[..length]);
        assert!(refusal(&scene).contains("was it cut off?"), "{length}");
    }
    scene.write("nas.wasm.sig", vec![b'A'; 1 << 20]);
    assert!(refusal(&scene).contains("nas.wasm.sig: is larger than 65536 bytes"));
}

#[test]
fn another_key_and_a_missing_one_are_refused() {
    let scene = signed();
    scene.key_pair("other");
    let verify = |words: &[&str]| scene.wasmount(&[&["verify", FILE][..], words].concat());
    let refused = verify(&["--key", "other.pub"]).refused();
    assert!(refused.contains("is by other.pub (sha256:"), "{refused}");
    let either = verify(&["--key", "other.pub", "--key", "acme.pub"]).well();
    assert!(either.ends_with("\nsigned by acme.pub\n"), "{either}");
    let refused = verify(&["--key", "other.pub", "--key", "acme.pub", "--all"]).refused();
    assert!(
        refused.contains("is signed, but not by other.pub"),
        "{refused}"
    );
    scene
        .wasmount(&["sign", FILE, "--key", "other.key", "--add"])
        .well();
    let both = verify(&["--key", "other.pub", "--key", "acme.pub", "--all"]).well();
    assert!(
        both.ends_with("\nsigned by other.pub\nsigned by acme.pub\n"),
        "{both}"
    );
}

#[test]
fn a_file_is_signed_by_a_key_once() {
    let scene = signed();
    let once = scene.read("nas.wasm.sig");
    scene
        .wasmount(&["sign", FILE, "--key", "acme.key", "--add"])
        .well();
    assert_eq!(scene.read("nas.wasm.sig"), once);
    let ended = scene.wasmount(&["sign", "none.wasm", "--key", "acme.key"]);
    assert!(ended.refused().contains("none.wasm: cannot be read"));
}

#[test]
fn what_wasmount_signs_official_cosign_verifies() {
    let scene = signed();
    let words = ["verify-blob", "acme.pub", FILE, "nas.wasm.sig"];
    scene.cosign(&words).well();
    scene.write(FILE, b"another component");
    assert!(scene.cosign(&words).refused().contains("invalid signature"));
}

#[test]
fn what_official_cosign_signs_wasmount_verifies_in_both_forms() {
    let scene = Scene::new();
    scene.cosign(&["generate-key-pair", "acme"]).well();
    for (command, file) in [
        ("sign-blob", "nas.wasm.sig"),
        ("sign-blob-bundle", "nas.wasm.bundle"),
    ] {
        scene.write(FILE, COMPONENT);
        scene.cosign(&[command, "acme.key", FILE, file]).well();
        let printed = scene
            .wasmount(&["verify", FILE, "--key", "acme.pub"])
            .well();
        assert!(
            printed.ends_with("\nsigned by acme.pub\n"),
            "{command}: {printed}"
        );
        scene.write(FILE, b"another component");
        assert!(refusal(&scene).contains("is by acme.pub"), "{command}");
        std::fs::remove_file(scene.path(file)).unwrap();
    }
}

//! Key pairs: made once, never overwritten, opened by their password alone, and the same to cosign as to us.

use crate::signatures::scene::{Ended, FILE, PASSWORD, Scene};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use xtask::workspace::Workspace;

/// Of a file that only its owner reads.
const PRIVATE: u32 = 0o600;

#[test]
fn a_key_pair_is_for_its_owner_and_for_everybody() {
    let scene = Scene::new();
    let printed = scene
        .wasmount(&["keygen", "--output-key-prefix", "acme"])
        .well();
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[0], "acme.key");
    assert!(lines[1].starts_with("acme.pub sha256:"), "{printed}");
    let mode = fs::metadata(scene.path("acme.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, PRIVATE);
    assert!(
        scene
            .read("acme.key")
            .starts_with("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    );
    assert!(
        scene
            .read("acme.pub")
            .starts_with("-----BEGIN PUBLIC KEY-----\n")
    );
}

#[test]
fn a_key_is_never_overwritten() {
    let scene = Scene::new();
    for (there, said) in [
        ("a.key", "a.key is not written"),
        ("b.pub", "b.pub is not written"),
    ] {
        scene.write(there, "precious");
        let prefix = there.split_once('.').unwrap().0;
        let refused = scene
            .wasmount(&["keygen", "--output-key-prefix", prefix])
            .refused();
        assert!(
            refused.contains(said) && refused.contains("it exists"),
            "{refused}"
        );
        assert_eq!(scene.read(there), "precious");
    }
    assert!(!scene.path("a.pub").exists() && !scene.path("b.key").exists());
    // Nor is one written to where a link leads.
    symlink(scene.path("elsewhere"), scene.path("c.key")).unwrap();
    scene
        .wasmount(&["keygen", "--output-key-prefix", "c"])
        .refused();
    assert!(!scene.path("elsewhere").exists());
}

#[test]
fn a_wrong_password_opens_nothing() {
    let scene = Scene::new();
    scene.keygen("acme");
    let scene = scene.with_password("wrong");
    let refused = scene
        .wasmount(&["sign", FILE, "--key", "acme.key"])
        .refused();
    assert!(
        refused.contains("does not open with this password"),
        "{refused}"
    );
    assert!(!refused.contains("wrong ") && !scene.path("nas.wasm.sig").exists());
}

#[test]
fn a_key_that_others_can_read_is_used_with_a_warning() {
    let scene = Scene::new();
    scene.keygen("acme");
    let ended = scene.wasmount(&["sign", FILE, "--key", "acme.key"]);
    assert_eq!(ended.errors, "");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(scene.path("acme.key"), open).unwrap();
    let ended = scene.wasmount(&["sign", FILE, "--key", "acme.key"]);
    assert_eq!(
        ended.errors,
        "wasmount: warning: others than its owner may read or write the private key acme.key; `chmod 600 acme.key`\n"
    );
    assert_eq!(ended.well(), "nas.wasm.sig\n");
}

#[test]
fn what_is_no_key_is_refused_as_a_wrong_flag() {
    let scene = Scene::new();
    scene.keygen("acme");
    let half = scene.read("acme.key");
    scene.write("half.key", &half[..half.len() / 2]);
    for (words, said) in [
        (
            ["sign", FILE, "--key", "acme.pub"],
            "holds `PUBLIC KEY`, not a private key",
        ),
        (["sign", FILE, "--key", "half.key"], "is the file whole?"),
        (
            ["sign", FILE, "--key", "none.key"],
            "cannot be read: No such file",
        ),
        (
            ["verify", FILE, "--key", "acme.key"],
            "not a public key; a private one is never given",
        ),
    ] {
        let Ended { code, errors, .. } = scene.wasmount(&words);
        assert_eq!(code, Some(64), "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn keys_of_wasmount_and_of_official_cosign_are_the_same() {
    for password in [PASSWORD, ""] {
        let scene = Scene::new().with_password(password);
        scene.keygen("ours");
        let public = scene.cosign(&["public-key", "ours.key"]).well();
        assert_eq!(public, scene.read("ours.pub"));
        scene.cosign(&["generate-key-pair", "theirs"]).well();
        scene
            .wasmount(&["sign", FILE, "--key", "theirs.key"])
            .well();
        scene
            .wasmount(&["verify", FILE, "--key", "theirs.pub"])
            .well();
    }
}

/// `wasmount keygen` on a terminal of its own.
fn keygen_on_a_terminal(scene: &Scene) -> Child {
    let program = Workspace::locate().unwrap().host_program();
    let command = format!("{} keygen", program.display());
    Command::new("script")
        .args([
            "--quiet",
            "--flush",
            "--return",
            "--command",
            &command,
            "/dev/null",
        ])
        .current_dir(scene.path(""))
        .env_remove("WASMOUNT_KEY_PASSWORD")
        .env_remove("COSIGN_PASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Types each answer when its question has been asked; gives all that was shown, and whether it went well.
fn type_into(mut terminal: Child, answers: &[(&str, &str)]) -> (String, bool) {
    let mut keyboard = terminal.stdin.take().unwrap();
    let mut screen = terminal.stdout.take().unwrap();
    let mut shown = Vec::new();
    for (question, answer) in answers {
        let mut byte = [0];
        while !shown.ends_with(question.as_bytes()) {
            screen.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        keyboard.write_all(answer.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }
    screen.read_to_end(&mut shown).unwrap();
    let well = terminal.wait().unwrap().success();
    (String::from_utf8_lossy(&shown).into_owned(), well)
}

#[test]
fn a_password_is_asked_for_twice_and_never_shown() {
    let scene = Scene::new();
    let answers = [
        ("(empty for none): ", "correct horse\n"),
        ("again: ", "correct horse\n"),
    ];
    let (shown, well) = type_into(keygen_on_a_terminal(&scene), &answers);
    assert!(well && shown.contains("cosign.pub sha256:"), "{shown}");
    assert!(!shown.contains("horse"), "{shown}");
    // It is the one that was typed.
    scene
        .wasmount(&["sign", FILE, "--key", "cosign.key"])
        .well();
    scene
        .wasmount(&["verify", FILE, "--key", "cosign.pub"])
        .well();
}

#[test]
fn a_password_that_was_mistyped_makes_no_key() {
    let scene = Scene::new();
    let answers = [
        ("(empty for none): ", "correct horse\n"),
        ("again: ", "correct hrose\n"),
    ];
    let (shown, well) = type_into(keygen_on_a_terminal(&scene), &answers);
    assert!(
        !well && shown.contains("the two passwords differ"),
        "{shown}"
    );
    assert!(!scene.path("cosign.key").exists() && !scene.path("cosign.pub").exists());
}

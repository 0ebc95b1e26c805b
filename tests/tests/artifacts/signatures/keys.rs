//! Keys of cosign: opened by their password alone, which a terminal never shows.

use crate::signatures::scene::{Ended, FILE, PASSWORD, Scene};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use xtask::workspace::Workspace;

#[test]
fn a_wrong_password_opens_nothing() {
    let scene = Scene::new();
    scene.key_pair("acme");
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
    scene.key_pair("acme");
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
    scene.key_pair("acme");
    let half = scene.read("acme.key");
    scene.write("half.key", &half[..half.len() / 2]);
    for (words, said) in [
        (
            ["sign", FILE, "--key", "acme.pub"],
            "holds `PUBLIC KEY`, not a private key",
        ),
        (["sign", FILE, "--key", "half.key"], "is the file complete?"),
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
fn an_official_cosign_key_signs_and_verifies() {
    for password in [PASSWORD, ""] {
        let scene = Scene::new().with_password(password);
        scene.key_pair("acme");
        scene.wasmount(&["sign", FILE, "--key", "acme.key"]).well();
        scene
            .wasmount(&["verify", FILE, "--key", "acme.pub"])
            .well();
    }
}

/// `wasmount sign` on a terminal of its own.
fn sign_on_a_terminal(scene: &Scene) -> Child {
    let program = Workspace::locate().unwrap().host_program();
    let command = format!("{} sign {FILE} --key acme.key", program.display());
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
fn a_password_is_asked_for_and_never_shown() {
    let scene = Scene::new();
    scene.key_pair("acme");
    let typed = |password| {
        let answers = [("private key: ", password)];
        type_into(sign_on_a_terminal(&scene), &answers)
    };
    let (shown, well) = typed("correct hrose\n");
    assert!(!well && shown.contains("does not open"), "{shown}");
    let (shown, well) = typed("correct horse\n");
    assert!(well && shown.contains("nas.wasm.sig"), "{shown}");
    assert!(!shown.contains("horse"), "{shown}");
    scene
        .wasmount(&["verify", FILE, "--key", "acme.pub"])
        .well();
}

//! `push` and `pull`: what goes in comes out, by a name that never means another.

use crate::registry::server::{Server, component, good, refused, text, wasmount};
use std::fs;
use wasmount_artifact::Digest;

#[test]
fn a_component_comes_back_as_it_was_pushed_by_tag_and_by_digest() {
    let server = Server::start();
    let file = component();
    let reference = server.reference("storage/nas:1.4.0");
    let pinned = good(&mut server.wasmount(&["push", text(&file), &reference]));
    let pinned = pinned.trim();
    let (name, digest) = pinned.split_once('@').unwrap();
    assert_eq!(name, server.reference("storage/nas"));
    assert!(Digest::parse(digest).is_ok());
    let wasm = fs::read(&file).unwrap();
    let output = server.path().join("out.wasm");
    for name in [reference.as_str(), pinned] {
        let said = good(&mut server.wasmount(&["pull", name, "-o", text(&output)]));
        let wanted = format!("{pinned}\n{} {}\n", Digest::of(&wasm), output.display());
        assert_eq!(said, wanted);
        assert_eq!(fs::read(&output).unwrap(), wasm);
        fs::remove_file(&output).unwrap();
    }
    // Once more is the same artifact, also out of a file of another name.
    let renamed = server.path().join("renamed.wasm");
    fs::copy(&file, &renamed).unwrap();
    for file in [&file, &renamed] {
        let again = good(&mut server.wasmount(&["push", text(file), &reference]));
        assert_eq!(again.trim(), pinned);
    }
}

#[test]
fn without_a_file_name_the_repository_gives_one() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let folder = server.path().join("here");
    fs::create_dir(&folder).unwrap();
    good(server.wasmount(&["pull", &reference]).current_dir(&folder));
    let names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["nas.wasm"]);
}

#[test]
fn a_forbidden_push_names_user_and_credentials() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    let authority = text(&server.certificates.authority).to_owned();
    let pull = ["pull", reference.as_str(), "--ca-file", &authority];
    let said = refused(&mut wasmount(&pull));
    assert!(said.contains("(401); no credentials were sent"), "{said}");
    assert!(said.contains("--registry-config"), "{said}");
    let config = server.config();
    let wrong = fs::read_to_string(&config).unwrap().replace("YW5u", "YW5v");
    let other = server.path().join("wrong.json");
    fs::write(&other, wrong).unwrap();
    let said = refused(wasmount(&pull).arg("--registry-config").arg(&other));
    assert!(
        said.contains("(401); credentials of the user `ano`"),
        "{said}"
    );
    let said = refused(&mut server.wasmount(&["pull", &reference]));
    let wanted = format!(
        "the registry {} has no such thing; check name and tag",
        server.host()
    );
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn credentials_in_a_reference_are_rejected_and_not_shown() {
    let name = "oci://ann:hunter2@localhost:5000/storage/nas:1";
    for words in [
        &["pull", name][..],
        &["push", "p.wasm", name],
        &["verify", name, "--key", "k"],
        &["load", "p.tar", "--to", name],
        &["swap", "a.b", "--reference", name],
    ] {
        let output = wasmount(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains("registry.credentials"), "{said}");
        assert!(
            said.contains("oci://..@localhost:5000/storage/nas:1"),
            "{said}"
        );
        assert!(!said.contains("hunter2") && !said.contains("ann"), "{said}");
    }
}

#[test]
fn a_registry_of_another_authority_is_not_spoken_to() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    let config = server.config();
    let pull = [
        "pull",
        reference.as_str(),
        "--registry-config",
        text(&config),
    ];
    let said = refused(&mut wasmount(&pull));
    assert!(
        said.contains("is not trusted")
            && said.contains("`registry.caFile` in a document, --ca-file of a command that has it"),
        "{said}"
    );
}

#[test]
fn what_is_no_component_is_not_pushed() {
    let server = Server::start();
    let file = server.path().join("module.wasm");
    fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    let reference = server.reference("storage/nas:1");
    let said = refused(&mut server.wasmount(&["push", text(&file), &reference]));
    assert!(
        said.contains("it is a core module, not a component"),
        "{said}"
    );
}

//! An array that asks the node for a password by CHAP, and a backend whose document has it, or another one.

use super::{BYTES, NODE, Playground, host, iscsi};
use std::fs;
use tonic::Code;
use wasmount_tests::host::HostOptions;
use wasmount_tests::requests;

const USER: &str = "chap-of-node";
const PASSWORD: &str = "right-hunter-22";
const WRONG: &str = "wrong-hunter-22";

/// A playground whose array asks for `PASSWORD`, and whose document has this one.
async fn start(password: &str) -> Playground {
    let mut playground = Playground::start(iscsi()).await;
    playground.host.terminate().unwrap();
    let mut text = fs::read_to_string(&playground.document).unwrap();
    for (name, value) in [("chap-user", USER), ("chap-password", password)] {
        fs::write(playground.document.with_file_name(name), value).unwrap();
        let secret = format!("secrets: {{ {name}: {{ file: {name} }}, ");
        text = text.replacen("secrets: { ", &secret, 1);
    }
    fs::write(&playground.document, text).unwrap();
    let options = HostOptions {
        any_paths: true,
        ..HostOptions::default()
    };
    playground.host = host(&playground.document, options);
    assert!(playground.array().require_chap(NODE, USER, PASSWORD));
    playground
}

fn assert_no_secret(text: &str) {
    for secret in [PASSWORD, WRONG] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_lets_the_right_password_in() {
    let playground = start(PASSWORD).await;
    let node = playground.node(&[]).await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    volume.write("by CHAP").unwrap();
    node.hide(&volume).await.unwrap();
    node.show(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "by CHAP");
    node.remove(&volume).await.unwrap();
    assert_no_secret(&playground.host.log());
    playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_refuses_a_wrong_password() {
    let playground = start(WRONG).await;
    let node = playground.node(&[]).await;
    let created = node.orchestrator.create(requests::create("pvc", BYTES));
    let (id, _) = created.await.unwrap();
    let volume = node.orchestrator.place("pvc", id).unwrap();
    let refused = node.show(&volume).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let text = refused.message();
    assert!(text.contains("look at user and password of CHAP"), "{text}");
    assert_no_secret(text);
    node.remove(&volume).await.unwrap();
    assert_no_secret(&playground.host.log());
    playground.end();
}

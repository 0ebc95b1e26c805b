//! An array that asks the node for a password by CHAP, or for a key by DH-HMAC-CHAP, and a backend whose document has it, or another one.

use super::{BYTES, NODE, Playground, host, iscsi, nvme};
use std::fs;
use tonic::Code;
use wasmount_tests::array::{Array, Protocol};
use wasmount_tests::host::HostOptions;
use wasmount_tests::requests;

const USER: &str = "chap-of-node";
const PASSWORD: &str = "right-hunter-22";
const WRONG_PASSWORD: &str = "wrong-hunter-22";

/// Keys as `nvme gen-dhchap-key` makes them: bytes and their CRC-32.
const KEY: &str = "DHHC-1:00:R0CuY0ewFywBJU/1W65a/1GZ9ERuf21kPUAYWz9HUUW5xdBr:";
const WRONG_KEY: &str = "DHHC-1:00:2SmKENGwc1g33EvYXaxkGw887yekfl1TpU8vP1svz/puLdra:";

/// What an array asks for.
struct Asked {
    protocol: Protocol,
    require: fn(&Array) -> bool,
    /// The secrets of the document, one of which is right or wrong.
    names: &'static [&'static str],
    right: &'static [&'static str],
    wrong: &'static [&'static str],
    /// What is said about a wrong one.
    advice: &'static str,
}

impl Asked {
    fn chap() -> Self {
        Self {
            protocol: iscsi(),
            require: |array| array.require_chap(NODE, USER, PASSWORD),
            names: &["chap-user", "chap-password"],
            right: &[USER, PASSWORD],
            wrong: &[USER, WRONG_PASSWORD],
            advice: "look at user and password of CHAP",
        }
    }

    fn dhchap() -> Self {
        Self {
            protocol: nvme(),
            require: |array| array.require_dhchap(NODE, KEY),
            names: &["dhchap-key"],
            right: &[KEY],
            wrong: &[WRONG_KEY],
            advice: "key",
        }
    }

    /// A playground whose document has these secrets.
    async fn start(&self, secrets: &[&str]) -> Playground {
        let mut playground = Playground::start(self.protocol.clone()).await;
        playground.host.terminate().unwrap();
        let mut text = fs::read_to_string(&playground.document).unwrap();
        for (name, value) in self.names.iter().zip(secrets) {
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
        assert!((self.require)(playground.array()));
        playground
    }

    async fn lets_the_right_one_in(&self) {
        let playground = self.start(self.right).await;
        let node = playground.node(&[]).await;
        let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
        volume.write("let in").unwrap();
        node.hide(&volume).await.unwrap();
        node.show(&volume).await.unwrap();
        assert_eq!(volume.read_at(&volume.target).unwrap(), "let in");
        node.remove(&volume).await.unwrap();
        assert_no_secret(&playground.host.log());
        playground.end();
    }

    async fn refuses_the_wrong_one(&self) {
        let playground = self.start(self.wrong).await;
        let node = playground.node(&[]).await;
        let created = node.orchestrator.create(requests::create("pvc", BYTES));
        let (id, _) = created.await.unwrap();
        let volume = node.orchestrator.place("pvc", id).unwrap();
        let refused = node.show(&volume).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        let text = refused.message();
        assert!(text.contains(self.advice), "{text}");
        assert_no_secret(text);
        node.remove(&volume).await.unwrap();
        assert_no_secret(&playground.host.log());
        playground.end();
    }
}

fn assert_no_secret(text: &str) {
    for secret in [PASSWORD, WRONG_PASSWORD, KEY, WRONG_KEY] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_lets_the_right_password_in() {
    Asked::chap().lets_the_right_one_in().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_refuses_a_wrong_password() {
    Asked::chap().refuses_the_wrong_one().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_lets_the_right_key_in() {
    Asked::dhchap().lets_the_right_one_in().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_an_array_refuses_a_wrong_key() {
    Asked::dhchap().refuses_the_wrong_one().await;
}

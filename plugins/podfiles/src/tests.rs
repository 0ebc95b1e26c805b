//! Tests of the driver on the host in memory.

use super::*;
use wasmount_guest::secrets::Scope;
use wasmount_guest::testing::{self, Source};

/// Has the format of a token, so that a test would find it in an error.
const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl";

const POD: [(&str, &str); 5] = [
    ("csi.storage.k8s.io/pod.name", "web-0"),
    ("csi.storage.k8s.io/pod.namespace", "shop"),
    ("csi.storage.k8s.io/pod.uid", "5f1c"),
    ("csi.storage.k8s.io/serviceAccount.name", "web"),
    ("csi.storage.k8s.io/ephemeral", "true"),
];

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            fs_type: None,
            mount_flags: Vec::new(),
            volume_mount_group: None,
        }),
        access_mode: AccessMode::SingleNodeWriter,
    }
}

fn args(context: &[(&str, &str)]) -> NodePublishArgs {
    let pairs = context.iter();
    NodePublishArgs {
        id: "csi-1".to_owned(),
        capability: capability(),
        readonly: false,
        ephemeral: context.contains(&("csi.storage.k8s.io/ephemeral", "true")),
        publish_context: Vec::new(),
        volume_context: pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// Path, mode and content of each file.
fn published(args: NodePublishArgs) -> Result<Vec<(String, u32, String)>, Error> {
    let plan = testing::record(|plan| PodFiles::node_publish(args, plan))?;
    let Source::Files(files) = plan.source else {
        panic!("not files: {:?}", plan.source.step());
    };
    let shown = files.into_iter().map(|file| {
        let content = String::from_utf8(file.content).unwrap();
        (file.path, file.mode, content)
    });
    Ok(shown.collect())
}

fn with_tokens(document: &str) -> Result<Vec<(String, u32, String)>, Error> {
    testing::reset();
    testing::set_secret(Scope::Request, TOKENS, document);
    published(args(&POD))
}

fn paths(files: &[(String, u32, String)]) -> Vec<&str> {
    files.iter().map(|(path, _, _)| path.as_str()).collect()
}

#[test]
fn a_pod_finds_who_it_is_what_its_author_wrote_and_its_tokens() {
    testing::reset();
    let document = format!(
        r#"{{"":{{"token":"{TOKEN}","expirationTimestamp":"2026-01-01T00:00:00Z"}},"vault":{{"token":"b"}}}}"#
    );
    testing::set_secret(Scope::Request, TOKENS, &document);
    let own = [
        ("file.app.conf", "a = 1\n"),
        ("csi.storage.k8s.io/later", "x"),
    ];
    let files = published(args(&[&POD[..], &own].concat())).unwrap();
    let expected = [
        ("pod/name", 0o444, "web-0"),
        ("pod/namespace", 0o444, "shop"),
        ("pod/uid", 0o444, "5f1c"),
        ("pod/service-account", 0o444, "web"),
        ("files/app.conf", 0o444, "a = 1\n"),
        ("token", 0o400, TOKEN),
        ("tokens/vault", 0o400, "b"),
    ];
    let expected =
        expected.map(|(path, mode, content)| (path.to_owned(), mode, content.to_owned()));
    assert_eq!(files, expected);
}

#[test]
fn a_pod_without_tokens_has_its_identity_alone() {
    testing::reset();
    let files = published(args(&POD)).unwrap();
    let expected = [
        "pod/name",
        "pod/namespace",
        "pod/uid",
        "pod/service-account",
    ];
    assert_eq!(paths(&files), expected);
}

#[test]
fn missing_pod_info_is_refused_with_the_field_that_brings_it() {
    testing::reset();
    for missing in 0..IDENTITY.len() {
        let mut context = POD.to_vec();
        let (key, _) = context.remove(missing);
        let error = published(args(&context)).unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition);
        let named = format!("`{key}` is missing: set CSIDriver.podInfoOnMount");
        assert!(error.message.starts_with(&named), "{error}");
    }
}

#[test]
fn a_volume_that_is_not_inline_or_is_a_device_is_refused() {
    testing::reset();
    let of_a_claim = published(args(&POD[..4]));
    assert_eq!(
        of_a_claim.map_err(|error| error.code),
        Err(Code::FailedPrecondition)
    );
    let mut raw = args(&POD);
    raw.capability.access_type = AccessType::Block;
    assert_eq!(
        published(raw).map_err(|error| error.code),
        Err(Code::InvalidArgument)
    );
}

#[test]
fn an_unknown_attribute_is_rejected_by_name() {
    testing::reset();
    let long = format!("file.{}", "x".repeat(NAME_BYTES + 1));
    for key in [
        "File.a",
        "files.a",
        "file",
        "name",
        "",
        "file.",
        "file..",
        "file...",
        "file..hidden",
        "file.a/b",
        "file.../a",
        "file.a b",
        "file.a\0",
        "file.\u{e4}",
        &long,
    ] {
        let context = [&POD[..], &[(key, "x")]].concat();
        let error = published(args(&context)).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{key}");
        assert!(error.message.contains(&format!("`{key}`")), "{error}");
    }
}

#[test]
fn every_audience_has_a_file_of_its_own_and_none_leads_out() {
    let audiences = [
        ("a", "a"),
        (
            "https://kubernetes.default.svc",
            "https%3A%2F%2Fkubernetes.default.svc",
        ),
        ("..", "%2E."),
        ("../x", "%2E.%2Fx"),
        ("%2E.", "%252E."),
        ("A a", "A%20a"),
        ("\u{e4}", "%C3%A4"),
    ];
    for (audience, name) in audiences {
        let document = serde_json::json!({ audience: { "token": TOKEN } }).to_string();
        let files = with_tokens(&document).unwrap();
        let expected = format!("tokens/{name}");
        assert_eq!(files.last().unwrap().0, expected);
        assert_eq!(files.len(), IDENTITY.len() + 1);
    }
}

#[test]
fn tokens_that_make_no_sense_are_refused_and_not_quoted() {
    for document in [
        "",
        TOKEN,
        &format!("\"{TOKEN}\""),
        &format!(r#"{{"a":"{TOKEN}"}}"#),
        &format!(r#"{{"a":{{"token":["{TOKEN}"]}}}}"#),
        &format!(r#"{{"a":{{"Token":"{TOKEN}"}}}}"#),
        &format!(r#"{{"a":{{"token":"{TOKEN}"}}"#),
    ] {
        let error = with_tokens(document).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{document}");
        assert!(error.message.contains("not what kubelet sends"), "{error}");
        assert!(!error.message.contains("eyJ"), "{error}");
    }
}

//! A recorded plan against the grants: under a document it is granted, or refused as a host refuses it; without one the output says what a document
//! must grant.

use crate::looking_inside::program::{Bench, Told, component, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;

/// Mounted, and one node writes.
const CAPABILITY: &str = "{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}";
/// A pool, and nothing else.
const GRANTS: &str = "  grants: { pools: { volumes: { path: pools/looked-into } } }\n";

/// What the plugin records, and what is missing in a document that grants a pool.
const BEYOND: [(&str, &str); 5] = [
    ("pool-not-granted", "pool `others` is not in `grants.pools`"),
    ("filesystem-not-granted", "nfs4"),
    (
        "tmpfs-not-granted",
        "type `tmpfs` is not in `grants.filesystems`",
    ),
    ("device-not-granted", "no entry of `grants.devices`"),
    ("option-not-granted", "mount option `suid` needs a grant"),
];

/// A stage for which the misbehaving plugin records this.
fn stage(bench: &Bench, behaviour: &str, staging: &Path, more: &[&str]) -> Told {
    let request = format!(
        "{{volume_id: a, staging_target_path: {}, volume_capability: {CAPABILITY}, volume_context: {{behaviour: {behaviour}}}}}",
        staging.display()
    );
    let (plugin, cache) = (component("misbehave"), bench.path("cache"));
    let words = ["call", text(&plugin), "NodeStageVolume", &request];
    let words = [&words, &["--cache", text(&cache)][..], more].concat();
    bench.run(&words)
}

fn staged(bench: &Bench, behaviour: &str, more: &[&str]) -> Value {
    let more = [more, &["--json"]].concat();
    stage(bench, behaviour, Path::new("/a/b"), &more).json()
}

#[test]
fn what_a_document_does_not_grant_is_shown_and_refused() {
    let bench = Bench::new();
    let document = bench.document(&component("misbehave"), GRANTS);
    let under = ["--backend", text(&document)];
    for (behaviour, missing) in BEYOND {
        let answer = staged(&bench, behaviour, &under);
        assert_eq!(answer["codeName"], "PERMISSION_DENIED", "{answer:#}");
        let shown = &answer["plans"][0];
        assert!(shown["plan"]["source"].is_object(), "{answer:#}");
        assert_eq!(shown["verdict"]["word"], "refused");
        let reason = shown["verdict"]["reason"].as_str().unwrap();
        assert!(reason.contains(missing), "{behaviour}: {reason}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.ends_with(reason), "{behaviour}: {message}");
    }
    let told = stage(&bench, "tmpfs-not-granted", Path::new("/a/b"), &under);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.out.contains("  refused: step `tmpfs`"), "{}", told.out);
}

#[test]
fn what_a_document_grants_is_granted() {
    let bench = Bench::new();
    let grants = "  grants:\n    pools: { volumes: { path: p, mountOptions: [suid] }, others: { path: q } }\n    \
                  filesystems: [{ type: nfs4, sources: ['server:/export'] }, { type: tmpfs }]\n    \
                  devices: [{ facts: { by-path: 'pci-*' } }]\n";
    let document = bench.document(&component("misbehave"), grants);
    for (behaviour, _) in BEYOND {
        let answer = staged(&bench, behaviour, &["--backend", text(&document)]);
        assert_eq!(answer["codeName"], "OK", "{behaviour}: {answer:#}");
        assert_eq!(
            answer["plans"][0]["verdict"],
            json!({ "word": "granted", "reason": null, "needs": null })
        );
    }
}

#[test]
fn without_a_document_the_needed_grants_are_shown() {
    let bench = Bench::new();
    let nothing = json!({ "pools": {}, "filesystems": [], "devices": [], "attach": [] });
    let with = |part: &str, grant: Value| {
        let mut grants = nothing.clone();
        grants[part] = grant;
        json!({ "grants": grants })
    };
    for (behaviour, needs) in [
        (
            "pool-not-granted",
            with("pools", json!({ "others": { "mountOptions": [] } })),
        ),
        (
            "option-not-granted",
            with("pools", json!({ "volumes": { "mountOptions": ["suid"] } })),
        ),
        (
            "filesystem-not-granted",
            with(
                "filesystems",
                json!([
                    { "type": "nfs4", "sources": ["server:/export"], "mountOptions": [], "maxBytes": null }
                ]),
            ),
        ),
        (
            "tmpfs-not-granted",
            with(
                "filesystems",
                json!([
                    { "type": "tmpfs", "sources": [], "mountOptions": [], "maxBytes": null }
                ]),
            ),
        ),
        (
            "device-not-granted",
            with(
                "devices",
                json!([
                    { "facts": { "by-path": "pci-0000:00:00.0" }, "rescan": null, "mountOptions": [] }
                ]),
            ),
        ),
    ] {
        let answer = staged(&bench, behaviour, &[]);
        assert_eq!(answer["codeName"], "OK", "{behaviour}: {answer:#}");
        let verdict = &answer["plans"][0]["verdict"];
        assert_eq!(verdict["word"], "needs", "{behaviour}");
        assert_eq!(verdict["needs"], needs, "{behaviour}");
    }
    let told = stage(&bench, "device-not-granted", Path::new("/a/b"), &[]).well();
    assert!(
        told.out.contains("  a document must grant:\n"),
        "{}",
        told.out
    );
    assert!(
        told.out.contains("by-path: pci-0000:00:00.0\n"),
        "{}",
        told.out
    );
}

#[test]
fn what_no_document_can_grant_is_rejected_without_one() {
    let bench = Bench::new();
    for (behaviour, reason) in [
        ("parent-path", "it has a part `.` or `..`"),
        ("absolute-path", "it has an empty part"),
    ] {
        let answer = staged(&bench, behaviour, &[]);
        assert_eq!(answer["codeName"], "INVALID_ARGUMENT", "{answer:#}");
        let verdict = &answer["plans"][0]["verdict"];
        assert_eq!(verdict["word"], "refused");
        assert!(
            verdict["reason"].as_str().unwrap().contains(reason),
            "{verdict}"
        );
    }
}

#[tokio::test]
async fn privileged_a_rejected_plan_reads_as_from_a_real_host() {
    needs_root();
    let bench = Bench::new();
    let document = bench.document(&component("misbehave"), GRANTS);
    let host = Host::start(HostOptions {
        backends: vec![document.clone()],
        ..HostOptions::default()
    })
    .unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let staging = orchestrator.place("a", "a".to_owned()).unwrap().staging;
    let beyond = BEYOND.iter().map(|(behaviour, _)| *behaviour);
    for behaviour in beyond.chain(["parent-path", "absolute-path", "hosts-own-folder"]) {
        let mut request = requests::stage("a", &staging);
        let word = ("behaviour".to_owned(), behaviour.to_owned());
        request.volume_context = BTreeMap::from([word]);
        let refused = orchestrator.stage_as(request).await.unwrap_err();
        let more = ["--backend", text(&document), "--json"];
        let answer = stage(&bench, behaviour, &staging, &more).json();
        assert_eq!(answer["code"], json!(refused.code() as i32), "{behaviour}");
        assert_eq!(answer["message"], refused.message(), "{behaviour}");
    }
}

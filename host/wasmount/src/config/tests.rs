//! Valid and invalid documents as an administrator writes them, and the exact message for each error.

use super::*;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::Wasi;

/// A valid document; each test breaks one thing.
const RIGHT: &str = "\
apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata:
  name: directory
spec:
  driverName: directory.wasmount.io
  plugin:
    path: plugin.wasm
";

fn load_text(text: &str) -> Result<Vec<Configured>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backend.yaml");
    std::fs::write(&file, text).unwrap();
    load(&[file]).map_err(|complaints| {
        complaints
            .to_string()
            .replace(&format!("{}/", folder.path().display()), "")
    })
}

/// The message for [`RIGHT`] with these lines appended (its last line is 8).
fn complaint_of(lines: &str) -> String {
    load_text(&format!("{RIGHT}{lines}")).unwrap_err()
}

#[test]
fn a_right_document_is_taken_with_paths_from_where_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backend.yaml");
    std::fs::write(
        &file,
        format!(
            "{RIGHT}  settings:\n    pool: data\n  secrets:\n    password:\n      file: password\n  grants:\n    pools:\n      data:\n        path: pool\n    devices:\n    - facts: {{by-id: \"scsi-0Acme_*\", partition: \"1\"}}\n      mountOptions: [discard]\n  limits:\n    memory: 32Mi\n    time: 1m30s\n    hostCallBytes: 65536\n    stateBytes: 1Gi\n  csiDriver:\n    fsGroupPolicy: File\n    seLinuxMount: true\n"
        ),
    )
    .unwrap();
    let loaded = load(&[file]).unwrap();
    let [backend] = loaded.as_slice() else {
        panic!("one document, {} backends", loaded.len())
    };
    assert_eq!(backend.folder, folder.path());
    assert_eq!(
        backend.document.secrets.get("password"),
        Some(&SecretSource::File(folder.path().join("password")))
    );
    assert_eq!(backend.document.limits.memory_bytes, 32 << 20);
    assert_eq!(backend.document.limits.time.as_secs(), 90);
    assert_eq!(backend.document.limits.host_call_bytes, 65536);
    assert_eq!(backend.document.limits.state_bytes, 1 << 30);
    assert_eq!(backend.document.csi_driver.selinux_mount, Some(true));
    let grants = backend.document.grants.clone().resolved(Path::new("/data"));
    let data = grants.pools["data"].directory();
    assert_eq!(data, Some(Path::new("/data/pool")));
    let [device] = grants.devices.as_slice() else {
        panic!("one grant of devices, {} read", grants.devices.len())
    };
    assert_eq!(device.facts[&DeviceFact::ById], "scsi-0Acme_*");
    assert_eq!(device.facts[&DeviceFact::Partition], "1");
    assert_eq!(device.mount_options, ["discard"]);
}

#[test]
fn each_wrong_key_is_named_with_its_line_and_what_was_meant() {
    for (lines, complaint) in [
        (
            "  csi:\n    hideCapabilities: [GET_VOLUME, GET_SNAPSHOTS]\n",
            "10: spec.csi.hideCapabilities[1]: unknown capability; did you mean `GET_SNAPSHOT`?",
        ),
        (
            "  grants:\n    pool: {}\n",
            "10: spec.grants.pool: unknown key; did you mean `pools`?",
        ),
        (
            "  grants:\n    pools:\n      a: {path: x}\n    Filesystems: []\n",
            "12: spec.grants.Filesystems: unknown key; did you mean `filesystems`?",
        ),
        (
            "  zzz: 1\n",
            "9: spec.zzz: unknown key; known are `driverName`, `plugin`, `settings`, `secrets`, `grants`, `limits`, `versions`, `rollout`, `csi`, `csiDriver`",
        ),
        (
            "status: {}\n",
            "9: status: unknown key; known are `apiVersion`, `kind`, `metadata`, `spec`",
        ),
        (
            "  grants:\n    pools:\n      a:\n        fullCopies: true\n",
            "11: spec.grants.pools.a: needs `path` or `mount`, and not both",
        ),
        (
            "  csiDriver:\n    fsGroupPolicy: Fil\n",
            "10: spec.csiDriver.fsGroupPolicy: unknown value; did you mean `File`?",
        ),
        (
            "  limits: {}\n  limits: {}\n",
            "10: the key `limits` is given twice",
        ),
        (
            "  csiDriver:\n    attachRequired: true\n",
            "10: spec.csiDriver.attachRequired: unknown key; known are `fsGroupPolicy`, `volumeLifecycleModes`, `tokenRequests`, `podInfoOnMount`, `requiresRepublish`, `seLinuxMount`, `storageCapacity`, `nodeAllocatableUpdatePeriodSeconds`, `serviceAccountTokenInSecrets`, `preventPodSchedulingIfMissing`",
        ),
    ] {
        assert_eq!(
            complaint_of(lines),
            format!("backend.yaml:{complaint}"),
            "{lines}"
        );
    }
}

#[test]
fn as_much_of_wasi_is_there_as_the_document_says() {
    // The last key of the valid document belongs to the plugin.
    let wasi = |lines: &str| {
        let loaded = load_text(&format!("{RIGHT}{lines}"))?;
        Ok(loaded[0].document.plugin.wasi)
    };
    assert_eq!(wasi(""), Ok(Wasi::Minimal));
    assert_eq!(wasi("    wasi: minimal\n"), Ok(Wasi::Minimal));
    assert_eq!(wasi("    wasi: full\n"), Ok(Wasi::Full));
    assert_eq!(
        wasi("    wasi: all\n"),
        Err("backend.yaml:9: spec.plugin.wasi: must be `minimal`, or `full` for a plugin whose language runtime imports files and sockets, which then fail".to_owned())
    );
}

#[test]
fn each_wrong_value_is_named_by_its_key_and_never_repeated() {
    for (lines, complaint) in [
        (
            "  settings:\n    port: 8080\n",
            "10: spec.settings.port: must be text; put it in quotes, such as \"8080\"",
        ),
        (
            "  settings:\n    port:\n",
            "10: spec.settings.port: has no value",
        ),
        (
            "  settings: hunter2\n",
            "9: spec.settings: must be a group of keys",
        ),
        (
            "  secrets:\n    a: {file: x}\n    b: hunter2\n",
            "11: spec.secrets.b: must say where the secret is, such as `{ file: /run/secrets/token }`; its value is not allowed here",
        ),
        (
            "  secrets:\n    b: {value: hunter2}\n",
            "10: spec.secrets.b.value: unknown key; known are `file`, `secret`",
        ),
        (
            "  limits:\n    handles: many\n",
            "10: spec.limits.handles: must be a whole number",
        ),
        (
            "  limits:\n    handles: 0\n",
            "10: spec.limits.handles: must be between 1 and 2147483647",
        ),
        (
            "  limits:\n    handles: 1\n    memory: [1]\n",
            "11: spec.limits.memory: must be a quantity such as `64Mi`",
        ),
        (
            "  limits:\n    handles: 1\n    memory: 1.5\n",
            "11: spec.limits.memory: must be a quantity such as `64Mi`",
        ),
        (
            "  limits:\n    memory: 64MB\n",
            "10: spec.limits.memory: must be whole bytes, such as `67108864`, `64Mi` (1024 x 1024) or `64M`",
        ),
        (
            "  limits:\n    memory: 8Gi\n",
            "10: spec.limits.memory: must be between 64Ki and 4Gi",
        ),
        (
            "  limits:\n    time: \"60\"\n",
            "10: spec.limits.time: must be a duration such as `60s`, longer than 0s and at most 24h",
        ),
        (
            "  limits:\n    cpu: 0s\n",
            "10: spec.limits.cpu: must be a duration such as `60s`, longer than 0s and at most 24h",
        ),
        (
            "  limits:\n    longIds: 3\n",
            "10: spec.limits.longIds: must be `true` or `false`",
        ),
        (
            "  csi:\n    hideCapabilities:\n    - A\n    - {b: 1}\n",
            "12: spec.csi.hideCapabilities[1]: must be text",
        ),
        (
            "  grants:\n    pools:\n      a: {path: ../x}\n",
            "11: spec.grants.pools.a.path: must not contain `..`",
        ),
        (
            "  grants:\n    pools:\n      a: {path: /}\n",
            "11: spec.grants.pools.a.path: must be a directory for the pool alone",
        ),
        (
            "  grants:\n    pools:\n      a: {path: .}\n",
            "11: spec.grants.pools.a.path: must be a directory for the pool alone",
        ),
        (
            "  grants:\n    pools:\n      a: {path: \"\"}\n",
            "11: spec.grants.pools.a.path: is empty",
        ),
        (
            "  grants:\n    filesystems:\n    - type: nfs4\n",
            "11: spec.grants.filesystems[0].sources: grants nothing; name sources, such as `server:/export/*`",
        ),
        (
            "  grants:\n    filesystems:\n    - {type: nfs4, sources: [\"a*b\"]}\n",
            "11: spec.grants.filesystems[0].sources[0]: may have a `*` at its end only",
        ),
        (
            "  grants:\n    filesystems:\n    - type: tmpfs\n    - type: tmpfs\n",
            "12: spec.grants.filesystems[1].type: `tmpfs` is listed twice; merge the two entries",
        ),
        (
            "  grants:\n    filesystems:\n    - {type: tmpfs, mountOptions: [\"dev,suid\"]}\n",
            "11: spec.grants.filesystems[0].mountOptions[0]: must be one option, without comma or space",
        ),
        (
            "  grants:\n    devices:\n    - mountOptions: [discard]\n",
            "11: spec.grants.devices.facts: is missing",
        ),
        (
            "  grants:\n    devices:\n    - facts: {label: data}\n",
            "11: spec.grants.devices[0].facts.label: unknown fact; known are `by-id`, `by-path`, `partition`, `nguid`, `wwid`, `serial`",
        ),
        (
            "  grants:\n    devices:\n    - facts: {serial: A, partition: 1}\n",
            "11: spec.grants.devices[0].facts.partition: must be text; put it in quotes, such as \"8080\"",
        ),
        (
            "  csiDriver:\n    serviceAccountTokenInSecrets: true\n",
            "10: spec.csiDriver.serviceAccountTokenInSecrets: says where tokens go, and `tokenRequests` requests none",
        ),
        (
            "  csiDriver:\n    volumeLifecycleModes: [Ephemeral, Ephemeral]\n",
            "10: spec.csiDriver.volumeLifecycleModes[1]: is listed twice",
        ),
        (
            "  csiDriver:\n    volumeLifecycleModes: [Ephemeral]\n    podInfoOnMount: false\n",
            "11: spec.csiDriver.podInfoOnMount: contradicts `volumeLifecycleModes`: a driver learns that a volume is Ephemeral with the pod's name only",
        ),
        (
            "  csiDriver:\n    tokenRequests:\n    - {audience: a, expirationSeconds: 60}\n",
            "11: spec.csiDriver.tokenRequests[0].expirationSeconds: must be at least 600 and at most 4294967296",
        ),
        (
            "  settings: {a: *hunter2}\n",
            "9: is not valid YAML: reference to unknown value",
        ),
        (
            "---\na: b\n",
            "10: a second document begins here; write one file for each backend",
        ),
    ] {
        let message = complaint_of(lines);
        assert_eq!(message, format!("backend.yaml:{complaint}"), "{lines}");
        assert!(!message.contains("hunter2"));
    }
}

#[test]
fn what_every_document_needs_is_asked_for() {
    for (from, to, complaint) in [
        (
            "wasmount.io/v1alpha1",
            "v1",
            "1: apiVersion: this host reads `wasmount.io/v1alpha1` only",
        ),
        (
            "kind: StorageBackend",
            "kind: StorageClass",
            "2: kind: this host reads `StorageBackend` only",
        ),
        (
            "  driverName: directory.wasmount.io\n",
            "",
            "6: spec.driverName: is missing",
        ),
        (
            "driverName: directory.wasmount.io",
            "driverName: a/b",
            "6: spec.driverName: contains something else than letters, digits, `-` and `.`",
        ),
        (
            "name: directory\n",
            "name: Directory\n",
            "4: metadata.name: must be 1 to 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n    digest: sha256:12\n",
            "9: spec.plugin.digest: must be `sha256:` and 64 lower-case hexadecimal digits",
        ),
        (
            "path: plugin.wasm",
            "image: x",
            "8: spec.plugin.image: unknown key; known are `path`, `reference`, `registry`, `digest`, `wasi`, `verify`",
        ),
        (
            "path: plugin.wasm",
            "reference: oci://a.b/c",
            "8: spec.plugin.reference: names neither a tag nor a digest; write `:tag` or `@sha256:..` after it",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n    reference: oci://a.b/c:d\n",
            "7: spec.plugin: has both `path` and `reference`; name one place",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n    registry: {plainHttp: true}\n",
            "9: spec.plugin.registry: is for a `reference`; a file needs no registry",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n    verify: {}\n",
            "9: spec.plugin.verify: names no key, so any component would pass; name one in `anyOf` or `allOf`, or leave the key out",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n    verify: {anyOf: [{pem: x}]}\n",
            "9: spec.plugin.verify.anyOf[0].pem: must be a public key that begins with `-----BEGIN PUBLIC KEY-----`",
        ),
        (
            "    path: plugin.wasm\n",
            "    path: plugin.wasm\n  versions: {keep: 0}\n",
            "9: spec.versions.keep: must be between 1, the serving one alone, and 100",
        ),
    ] {
        assert!(RIGHT.contains(from), "{from}");
        let message = load_text(&RIGHT.replace(from, to)).unwrap_err();
        assert_eq!(message, format!("backend.yaml:{complaint}"));
    }
}

#[test]
fn a_text_that_is_no_document_is_refused() {
    for (text, complaint) in [
        ("", "1: is empty or ends too early;"),
        ("[1]", "1: must be a group of keys"),
        ("a: \"b", "1: a: unknown key"),
    ] {
        let message = load_text(text).unwrap_err();
        assert!(
            message.starts_with(&format!("backend.yaml:{complaint}")),
            "{message}"
        );
    }
}

#[test]
fn all_errors_of_documents_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.yaml", "b.yaml", "c.yaml"].map(|name| folder.path().join(name));
    std::fs::write(&files[0], RIGHT).unwrap();
    std::fs::write(&files[1], RIGHT).unwrap();
    let message = load(&files).unwrap_err().to_string();
    let message = message.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(
        message,
        "b.yaml:6: spec.driverName: `directory.wasmount.io` is the driver of a.yaml too; each document needs one of its own\n\
         b.yaml:4: metadata.name: `directory` is the name of a.yaml too; each document needs one of its own\n\
         c.yaml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_that_is_no_page_of_yaml_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
    let large = folder.path().join("large");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(DOCUMENT_BYTES + 1).unwrap();
    for (file, reason) in [
        (Path::new("/dev/zero"), "is not a regular file"),
        (folder.path(), "is not a regular file"),
        (&pipe, "is not a regular file"),
        (
            &large,
            "is larger than 1572864 bytes; a StorageBackend is a page of YAML",
        ),
    ] {
        let message = load(&[file.to_owned()]).unwrap_err().to_string();
        assert_eq!(message, format!("{}: {reason}", file.display()));
    }
}

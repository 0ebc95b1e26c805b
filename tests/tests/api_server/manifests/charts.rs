//! The charts of `deploy/`: Helm renders what is printed, values change what they name and nothing else, and what makes no release is rejected.

mod node_set;
mod values;

use crate::manifests::scene::{printed, run};
use crate::server::{error_of, manifests, printed as printed_by, workspace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;
use wasmount_tests::documents;
use xtask::helm::{self, Chart};

/// The namespace that manifests are printed for by default.
const NAMESPACE: &str = "wasmount-system";

fn helm(arguments: &[&str]) -> Output {
    let mut helm = helm::command(&workspace()).unwrap();
    helm.args(arguments).output().unwrap()
}

fn folder(chart: Chart) -> String {
    chart.folder(&workspace()).display().to_string()
}

/// `helm template` of a release in the default namespace.
fn template(chart: Chart, arguments: &[&str]) -> Output {
    let folder = folder(chart);
    helm(
        &[
            &["template", "a", &folder, "--namespace", NAMESPACE],
            arguments,
        ]
        .concat(),
    )
}

/// What is rendered.
fn rendered(chart: Chart, arguments: &[&str]) -> String {
    let output = template(chart, arguments);
    assert!(output.status.success(), "{}", error_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What is said about values that are rejected.
fn rejected(arguments: &[&str]) -> String {
    let output = template(Chart::Backend, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    error_of(&output)
}

/// Objects by kind and name.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let objects = objects.into_iter().filter(|it| !it.is_null());
    objects
        .map(|object| {
            let word = |path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
            let name = format!("{} {}", word("/kind"), word("/metadata/name"));
            (name, object)
        })
        .collect()
}

/// A backend on the network, as its document and what is printed of it.
fn network(directory: &TempDir, flags: &[&str]) -> PathBuf {
    let document = documents::hostpath_over_pool(directory.path(), "/srv".as_ref()).unwrap();
    let flags = [&["--topology", "network"], flags].concat();
    let (text, _) = printed(&document, &flags);
    let file = directory.path().join("printed.yaml");
    fs::write(&file, text).unwrap();
    file
}

fn as_value(file: &Path) -> String {
    format!("manifests={}", file.display())
}

#[test]
fn charts_pass_a_strict_lint_and_have_the_version() {
    for chart in Chart::ALL {
        let folder = folder(chart);
        let linted = helm(&["lint", "--strict", "--quiet", &folder]);
        let said = String::from_utf8_lossy(&linted.stdout).into_owned() + &error_of(&linted);
        assert!(linted.status.success(), "{said}");
        let shown = helm(&["show", "chart", &folder]);
        let shown: Value =
            serde_saphyr::from_str(&String::from_utf8(shown.stdout).unwrap()).unwrap();
        for key in ["version", "appVersion"] {
            assert_eq!(shown[key], env!("CARGO_PKG_VERSION"), "{folder}: {key}");
        }
    }
}

#[test]
fn the_shared_chart_renders_what_is_printed() {
    let (text, _) = printed_by(&mut manifests(&["--shared"]));
    let other = ["template", "a", &folder(Chart::Shared), "--namespace", "b"];
    let output = helm(&other);
    let rendered = String::from_utf8(output.stdout).unwrap();
    assert_eq!(objects(&rendered), objects(&text), "{rendered}");
    let none = self::rendered(Chart::Shared, &["--set", "namespace="]);
    let mut expected = objects(&text);
    expected.remove("Namespace wasmount-system").unwrap();
    assert_eq!(objects(&none), expected);
    let own = template(Chart::Shared, &[]);
    let said = error_of(&own);
    assert!(said.contains("is that of this release"), "{said}");
}

#[test]
fn the_chart_renders_what_is_printed_of_any_backend() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("printed.yaml");
    let shared = documents::hostpath_over_pool(directory.path(), "/srv".as_ref()).unwrap();
    let plugins = ["hostpath", "podfiles", "nfs"].map(|it| workspace().backend_document(it));
    for document in plugins.iter().chain([&shared]) {
        for topology in ["node-local", "network"] {
            let output = run(&[document], &["--topology", topology]);
            if !output.status.success() {
                continue;
            }
            let text = String::from_utf8(output.stdout).unwrap();
            fs::write(&file, &text).unwrap();
            let rendered = rendered(Chart::Backend, &["--set-file", &as_value(&file)]);
            assert_eq!(objects(&rendered), objects(&text), "{document:?}");
            for comment in text.lines().filter(|line| line.starts_with('#')) {
                assert!(rendered.contains(comment), "{comment}");
            }
        }
    }
}

#[test]
fn backends_of_the_image_take_namespace_and_kubelet_directory() {
    let dir = "/var/lib/k0s/kubelet";
    for name in ["hostpath", "local-images", "nfs"] {
        let text = fs::read_to_string(
            Chart::Backend
                .folder(&workspace())
                .join(format!("backends/{name}.yaml")),
        );
        let text = text.unwrap();
        let output = helm(&[
            "template",
            "a",
            &folder(Chart::Backend),
            "--namespace=storage",
            &format!("--set=backend={name},kubeletDir={dir}"),
        ]);
        let rendered = String::from_utf8(output.stdout).unwrap();
        let expected = text
            .replace(NAMESPACE, "storage")
            .replace("/var/lib/kubelet", dir);
        assert_eq!(objects(&rendered), objects(&expected), "{name}");
    }
    // As it is printed with the flags.
    let document = workspace()
        .root()
        .join("deploy/overlays/node-local/backend.yaml");
    let flags = ["--kubelet-dir", dir, "--namespace", "storage"];
    let in_image = ["--plugin-in-image", "/opt/wasmount/plugins/hostpath.wasm"];
    let (printed, _) = printed(&document, &[&flags[..], &in_image].concat());
    let output = helm(&[
        "template",
        "a",
        &folder(Chart::Backend),
        "--namespace=storage",
        &format!("--set=backend=hostpath,kubeletDir={dir}"),
    ]);
    let rendered = String::from_utf8(output.stdout).unwrap();
    assert_eq!(objects(&rendered), objects(&printed));
}

#[test]
fn an_uninstall_keeps_the_object_that_hosts_follow() {
    let directory = tempfile::tempdir().unwrap();
    let file = network(&directory, &["--storage-backends"]);
    let settings = "spec.settings.maxVolumesPerNode=7";
    let arguments = ["--set-file", &as_value(&file), "--set-string", settings];
    let all = objects(&rendered(Chart::Backend, &arguments));
    let object = &all["StorageBackend hostpath"];
    let annotations = json!({ "helm.sh/resource-policy": "keep" });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(object["spec"]["settings"]["maxVolumesPerNode"], "7");
    let kept = all
        .values()
        .filter(|it| it.to_string().contains("resource-policy"));
    assert_eq!(kept.count(), 1);
}

#[test]
fn values_that_make_no_release_are_rejected_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = as_value(&network(&directory, &[]));
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = as_value(&network(&elsewhere, &["--namespace", "b"]));
    let shared = directory.path().join("shared.yaml");
    fs::write(&shared, printed_by(&mut manifests(&["--shared"])).0).unwrap();
    let text = directory.path().join("text.yaml");
    fs::write(&text, "kind: [").unwrap();
    let (shared, text) = (as_value(&shared), as_value(&text));
    let hostpath = "--set=backend=hostpath";
    let table: [(&[&str], &str); 13] = [
        (&[], "no backend: set backend"),
        (
            &["--set=backend=ceph"],
            "none of the image: hostpath, local-images, nfs",
        ),
        (&[hostpath, "--set-file", &file], "are both set"),
        (
            &["--set-file", &elsewhere],
            "print them with --namespace wasmount-system",
        ),
        (
            &["--set-file", &shared],
            "belongs to the release wasmount-shared",
        ),
        (
            &["--set-file", &text],
            "not what `wasmount manifests` prints",
        ),
        (
            &["--set-file", &file, "--set=kubeletDir=/k"],
            "print the manifests with --kubelet-dir",
        ),
        (
            &[hostpath, "--set=spec.grants.filesystems[0].type=nfs4"],
            "grants no nfs4",
        ),
        (
            &[hostpath, "--set=spec.grants.pools.volumes.mount.type=nfs4"],
            "no pool volumes with `mount`",
        ),
        (
            &[
                hostpath,
                "--set=node.podLabels.app\\.kubernetes\\.io/name=a",
            ],
            "selects the pods",
        ),
        // By the schema.
        (
            &[hostpath, "--set=nodes.tolerations[0].operator=Exists"],
            "nodes",
        ),
        (
            &[hostpath, "--set=resources.csi-livenessprobe.limits.cpu=1"],
            "csi-livenessprobe",
        ),
        (&[hostpath, "--set=spec.driverName=b"], "driverName"),
    ];
    for (arguments, words) in table {
        let said = rejected(arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

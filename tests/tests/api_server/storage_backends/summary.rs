//! Hosts that report and one that summarises, over a real API server: what people see, what a deletion waits for, and what is left when a host is
//! no more.

use crate::storage_backends::scene::{Scene, backend, says, soon};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wasmount_kubernetes::storage_backend::{
    BackendReport, FINALIZER, FORCE_DELETE, HostIdentity, Phase, Reporter, RolledBackBy,
    StorageBackends, Summarising, summarise, write_reports,
};

/// A host as far as Kubernetes sees it.
struct Host {
    backends: Arc<StorageBackends>,
    reports: watch::Sender<BTreeMap<String, BackendReport>>,
    work: JoinSet<()>,
    _directory: TempDir,
}

impl Host {
    fn start(scene: &Scene, name: &str, selector: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let backends = StorageBackends::open(directory.path().join("kept.json"), identity(name));
        let mut work = JoinSet::new();
        let (client, followed, wanted) =
            (scene.client.clone(), backends.clone(), selector.to_owned());
        work.spawn(async move { followed.follow(client, Some(&wanted)).await });
        let (reports, reported) = watch::channel(BTreeMap::new());
        let reporter = Reporter {
            client: scene.client.clone(),
            host: name.to_owned(),
            on_node: true,
        };
        work.spawn(write_reports(reporter, reported, backends.rate_limit()));
        let who = Summarising {
            client: scene.client.clone(),
            host: name.to_owned(),
            namespace: "default".to_owned(),
            selector: Some(selector.to_owned()),
        };
        let summarised = backends.clone();
        work.spawn(async move { summarise(who, &summarised).await });
        Self {
            backends,
            reports,
            work,
            _directory: directory,
        }
    }

    /// Says how a backend stands, once it is known.
    async fn say(&self, name: &str, phase: Phase, volumes: u64) {
        let mut wanted = self.backends.desired();
        let known = wanted.wait_for(|all| all.contains_key(name)).await;
        let backend = known.unwrap()[name].clone();
        let serves = matches!(phase, Phase::Serving | Phase::RolledBack);
        let is_back = phase == Phase::RolledBack;
        let (version, digits) = if is_back {
            ("0.9", "cd")
        } else {
            ("1.0", "ab")
        };
        let report = BackendReport {
            uid: backend.uid.clone(),
            generation: backend.generation,
            phase,
            version: serves.then(|| version.to_owned()),
            digest: serves.then(|| format!("sha256:{}", digits.repeat(32))),
            reason: is_back.then(|| "it traps".to_owned()),
            rolled_back_by: is_back.then_some(RolledBackBy::PluginFaults),
            last_fault: None,
            volumes,
            rollout: backend.rollout.clone(),
        };
        self.reports
            .send_modify(|all| drop(all.insert(name.to_owned(), report)));
    }
}

fn identity(name: &str) -> HostIdentity {
    HostIdentity {
        name: name.to_owned(),
        on_node: true,
    }
}

fn labelled(name: &str) -> Value {
    let mut object = backend(name, &format!("{name}.example"));
    object["metadata"]["labels"] = json!({ "test": name });
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_shows_what_all_hosts_make_of_a_backend() {
    let scene = Scene::shared().await;
    scene.apply(&labelled("told")).await;
    let (one, two) = (
        Host::start(&scene, "n1", "test=told"),
        Host::start(&scene, "n2", "test=told"),
    );
    let nobody = scene.until("told", "a status without hosts", |it| {
        says(it, "Ready", "False", "NoHost")
    });
    let held = nobody.await;
    assert_eq!(held["metadata"]["finalizers"], json!([FINALIZER]));
    one.say("told", Phase::Serving, 0).await;
    two.say("told", Phase::Loading, 0).await;
    scene
        .until("told", "one of two", |it| {
            it["status"]["ready"] == "1/2" && says(it, "Progressing", "True", "Converging")
        })
        .await;
    two.say("told", Phase::RolledBack, 0).await;
    let object = scene
        .until("told", "a roll back", |it| {
            says(it, "RolledBack", "True", "PluginFaults")
        })
        .await;
    let mut status = object["status"].clone();
    for condition in status["conditions"].as_array_mut().unwrap() {
        let fields = condition.as_object_mut().unwrap();
        let since = fields.remove("lastTransitionTime").unwrap();
        assert!(since.as_str().unwrap().ends_with('Z'), "{since}");
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": 1,
        })
    };
    let back = "1 of 2 hosts: n2: it traps";
    let wanted = json!({
        "observedGeneration": 1,
        "version": "1.0", "digest": "abababababab", "ready": "2/2",
        "hosts": { "total": 2, "current": 1 },
        "phases": { "Serving": 1, "RolledBack": 1 },
        "versions": [
            { "digest": format!("sha256:{}", "ab".repeat(32)), "version": "1.0", "hosts": 1 },
            { "digest": format!("sha256:{}", "cd".repeat(32)), "version": "0.9", "hosts": 1 },
        ],
        "troubled": [{ "host": "n2", "phase": "RolledBack", "reason": "it traps" }],
        "conditions": [
            condition("Ready", "True", "Serving", "all 2 hosts serve it"),
            condition("Progressing", "False", "Converged", "1 of 2 hosts serve the desired version"),
            condition("Degraded", "True", "RolledBack", back),
            condition("RolledBack", "True", "PluginFaults", back),
        ],
    });
    assert_eq!(status, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_applied_beside_what_others_say() {
    let scene = Scene::shared().await;
    scene.apply(&labelled("shared")).await;
    let host = Host::start(&scene, "n1", "test=shared");
    scene
        .until("shared", "a first status", |it| {
            says(it, "Ready", "False", "NoHost")
        })
        .await;
    let audited = json!({
        "type": "Audited", "status": "True", "reason": "Seen",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let theirs = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend",
        "metadata": { "name": "shared" }, "status": { "conditions": [audited] },
    });
    let parameters = PatchParams::apply("auditor");
    let backends = scene.backends();
    backends
        .patch_status("shared", &parameters, &Patch::Apply(&theirs))
        .await
        .unwrap();
    host.say("shared", Phase::Serving, 0).await;
    let object = scene
        .until("shared", "a serving host", |it| {
            says(it, "Ready", "True", "Serving")
        })
        .await;
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 5, "{conditions:#?}");
    assert!(conditions.contains(&audited), "{conditions:#?}");
    let fields = object["metadata"]["managedFields"].as_array().unwrap();
    let of_status = fields.iter().filter(|it| it["subresource"] == "status");
    let mut managers: Vec<_> = of_status
        .map(|it| {
            (
                it["manager"].as_str().unwrap(),
                it["operation"].as_str().unwrap(),
            )
        })
        .collect();
    managers.sort_unstable();
    assert_eq!(managers, [("auditor", "Apply"), ("wasmount", "Apply")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_for_staged_volumes_and_leaves_nothing() {
    let scene = Scene::shared().await;
    scene.apply(&labelled("goes")).await;
    let host = Host::start(&scene, "n1", "test=goes");
    host.say("goes", Phase::Serving, 1).await;
    scene
        .until("goes", "a serving host", |it| {
            says(it, "Ready", "True", "Serving")
        })
        .await;
    scene.delete("goes").await;
    host.say("goes", Phase::Removing, 1).await;
    let waiting = scene
        .until("goes", "a deletion that waits", |it| {
            says(it, "Progressing", "True", "Deleting")
        })
        .await;
    let message = waiting["status"]["conditions"].to_string();
    assert!(message.contains("1 volumes are staged, on n1"), "{message}");
    host.say("goes", Phase::Removed, 0).await;
    scene.until_gone("goes").await;
    // The host sees the deletion, and keeps the finalizer until it has finished.
    let mut wanted = host.backends.desired();
    let gone = wanted.wait_for(|all| !all["goes"].there).await;
    let uid = gone.unwrap()["goes"].uid.clone();
    host.backends.forget("goes", &uid);
    assert!(host.backends.desired().borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_deletion_does_not_wait() {
    let scene = Scene::shared().await;
    scene.apply(&labelled("forced")).await;
    let host = Host::start(&scene, "n1", "test=forced");
    host.say("forced", Phase::Serving, 1).await;
    scene
        .until("forced", "a finalizer", |it| {
            it["metadata"]["finalizers"] == json!([FINALIZER])
        })
        .await;
    let backends = scene.backends();
    scene.delete("forced").await;
    host.say("forced", Phase::Removing, 1).await;
    scene
        .until("forced", "a deletion that waits", |it| {
            says(it, "Progressing", "True", "Deleting")
        })
        .await;
    let forced = json!({ "metadata": { "annotations": { FORCE_DELETE: "true" } } });
    let parameters = PatchParams::default();
    backends
        .patch("forced", &parameters, &Patch::Merge(&forced))
        .await
        .unwrap();
    scene.until_gone("forced").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_summarises_when_the_one_that_did_is_no_more() {
    let scene = Scene::shared().await;
    scene.apply(&labelled("survives")).await;
    let mut first = Host::start(&scene, "n1", "test=survives");
    scene
        .until("survives", "a first status", |it| {
            says(it, "Ready", "False", "NoHost")
        })
        .await;
    first.work.shutdown().await;
    let second = Host::start(&scene, "n2", "test=survives");
    second.say("survives", Phase::Serving, 0).await;
    scene
        .until("survives", "the second host's word", |it| {
            says(it, "Ready", "True", "Serving")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_the_api_server_knows_what_it_saw_last() {
    let scene = Scene::start().await;
    scene.apply(&labelled("kept")).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept.json");
    let follow = |backends: &Arc<StorageBackends>| {
        let (client, backends) = (scene.client.clone(), backends.clone());
        tokio::spawn(async move { backends.follow(client, None).await })
    };
    let first = StorageBackends::open(path.clone(), identity("n"));
    let task = follow(&first);
    let mut wanted = first.desired();
    wanted
        .wait_for(|all| all.contains_key("kept"))
        .await
        .unwrap();
    soon("the file", async || path.exists().then_some(())).await;
    task.abort();
    scene.plane.stop_api();
    let second = StorageBackends::open(path, identity("n"));
    let task = follow(&second);
    let mut wanted = second.desired();
    let kept = wanted.borrow_and_update()["kept"].clone();
    assert!(kept.document.is_ok() && kept.leaving.is_none());
    // It comes back with what has changed meanwhile.
    scene.plane.start_api().await.unwrap();
    let mut changed = labelled("kept");
    changed["spec"]["settings"] = json!({ "a": "b" });
    scene.apply(&changed).await;
    let newer = wanted.wait_for(|all| all["kept"].generation > kept.generation);
    tokio::time::timeout(std::time::Duration::from_secs(90), newer)
        .await
        .unwrap()
        .unwrap();
    task.abort();
}

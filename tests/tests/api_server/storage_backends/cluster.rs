//! Several hosts of one backend, and what they make of its rollout.

use crate::server::{error_of, workspace};
use crate::storage_backends::scene::{Scene, soon};
use crate::storage_backends::serving::{Serving, object};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Hosts of one backend, by the names of their nodes.
pub(crate) struct Cluster {
    pub(crate) scene: Scene,
    pub(crate) name: &'static str,
    pub(crate) driver: String,
    pub(crate) hosts: BTreeMap<String, Serving>,
}

impl Cluster {
    /// That many hosts, each with its Node; the last one has the label `tier: canary`. They serve the object before it is changed.
    pub(crate) async fn start(
        scene: Scene,
        name: &'static str,
        number: usize,
        plugin: &str,
    ) -> Self {
        let nodes = Api::<Node>::all(scene.client.clone());
        let mut hosts = BTreeMap::new();
        for index in 0..number {
            let node = format!("{name}-{index}");
            let tier = if index + 1 == number {
                "canary"
            } else {
                "gold"
            };
            let made = json!({ "metadata": { "name": node, "labels": { "tier": tier } } });
            let made = serde_json::from_value(made).unwrap();
            nodes.create(&PostParams::default(), &made).await.unwrap();
            let selector = format!("test={name}");
            let serving = Serving::start_by(&scene.kubeconfig(), &selector, &node);
            hosts.insert(node, serving);
        }
        let cluster = Self {
            scene,
            name,
            driver: format!("{name}.example"),
            hosts,
        };
        let steps = json!([{ "percent": 1 }]);
        let first = match plugin {
            "misbehave" => cluster.misbehaving(steps),
            _ => cluster.object(steps),
        };
        cluster.scene.apply(&first).await;
        cluster
            .until("Promoted", "the first install", |it| {
                it["status"]["hosts"]["current"] == number
            })
            .await;
        cluster
    }

    /// The object with these steps.
    pub(crate) fn object(&self, steps: Value) -> Value {
        let mut object = object(self.name, &self.driver);
        object["spec"]["rollout"] = json!({ "steps": steps });
        object
    }

    /// The same with the plugin that does every bad thing, and rolled back after three faults.
    pub(crate) fn misbehaving(&self, steps: Value) -> Value {
        let mut object = self.object(steps);
        object["spec"]["plugin"]["path"] = json!(workspace().component("misbehave"));
        object["spec"]["versions"] = json!({ "rollback": { "faults": 3, "window": "30s" } });
        object
    }

    /// Its object, once its rollout has this progress and the rest is as wanted.
    pub(crate) async fn until(
        &self,
        progress: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{what} ({progress})");
        let found = self.scene.until(self.name, &what, |it| {
            it["status"]["rollout"]["progress"] == progress
                && it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && wanted(it)
        });
        found.await
    }

    /// What each host reports, by its name.
    async fn reports(&self) -> BTreeMap<String, Value> {
        let backend = self.scene.backends().get(self.name).await.unwrap();
        let uid = backend.metadata.uid.unwrap();
        let those = ListParams::default().labels(&format!("wasmount.io/backend-uid={uid}"));
        let found = self.scene.reports().list(&those).await.unwrap();
        let specs = found.items.into_iter().map(|it| it.data["spec"].clone());
        specs
            .map(|it| (it["host"].as_str().unwrap().to_owned(), it))
            .collect()
    }

    /// The hosts that take the change, once there are this many and all of them serve.
    pub(crate) async fn takers(&self, number: usize) -> Vec<String> {
        soon("the hosts of the step", async || {
            let object = self.scene.backends().get(self.name).await.ok()?;
            let status = &object.data["status"];
            let rollout = &status["rollout"];
            // Reports about an earlier change say nothing about this one.
            let all = self.reports().await;
            let is_seen = status["observedGeneration"] == json!(object.metadata.generation)
                && all.values().all(|it| {
                    let part = &it["rollout"];
                    let takes = part["takes"] == true;
                    part["candidate"] == rollout["candidate"]
                        && (!takes || part["attempt"] == rollout["attempt"])
                        && it["phase"] == "Serving"
                });
            let those = all.iter().filter(|(_, it)| it["rollout"]["takes"] == true);
            let names: Vec<_> = those.map(|(name, _)| name.clone()).collect();
            Some(names).filter(|it| is_seen && it.len() == number)
        })
        .await
    }

    /// The number of the version that each host serves, by the hosts' own word.
    pub(crate) async fn numbers(&self) -> BTreeMap<String, u64> {
        let mut numbers = BTreeMap::new();
        for (node, serving) in &self.hosts {
            let admin = wasmount_control::Client::new(serving.host.data().join("admin.sock"));
            let status = soon("the host's answer", async || admin.status().await.ok()).await;
            let mut drivers = status.drivers.into_iter();
            let driver = drivers.find(|it| it.driver == self.driver).unwrap();
            numbers.insert(node.clone(), driver.status.version.unwrap().number);
        }
        numbers
    }

    /// Each host with the number of its version: the second one for these, the first one for all others.
    pub(crate) fn second_for(&self, these: &[String]) -> BTreeMap<String, u64> {
        let all = self.hosts.keys();
        all.map(|node| (node.clone(), if these.contains(node) { 2 } else { 1 }))
            .collect()
    }

    /// Calls all hosts until it is dropped or stopped, and panics at the first call that fails.
    pub(crate) async fn calling(&mut self) -> Calling {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for serving in self.hosts.values_mut() {
            let orchestrator = serving.orchestrator(&self.driver).await;
            let volume = orchestrator.created("called").await.unwrap();
            let stop = stop.clone();
            tasks.push(tokio::spawn(async move {
                let mut calls = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    orchestrator.is_known(&volume.id).await.unwrap();
                    calls += 1;
                    tokio::task::yield_now().await;
                }
                calls
            }));
        }
        Calling { stop, tasks }
    }

    /// `wasmount rollout`.
    pub(crate) fn command(&self, command: &str) -> Output {
        Command::new(workspace().host_program())
            .args(["rollout", command, self.name, "--kubeconfig"])
            .arg(self.scene.kubeconfig())
            .output()
            .unwrap()
    }

    /// The same, and what it prints.
    pub(crate) fn commanded(&self, command: &str) -> String {
        let output = self.command(command);
        assert!(output.status.success(), "{}", error_of(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn delete(self) {
        self.scene.delete(self.name).await;
        self.scene.until_gone(self.name).await;
    }
}

/// Calls under way.
pub(crate) struct Calling {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Calling {
    /// No call of any host has failed.
    pub(crate) async fn none_failed(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            assert!(task.await.unwrap() > 0);
        }
    }
}

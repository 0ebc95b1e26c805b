//! A model of Ceph: subvolumes of the file system `cephfs`, their snapshots, and clones that take some looks.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use wasmount_guest::http::{Method, Request, Response};
use wasmount_guest::testing;

/// Looks at a clone until it is complete.
const LOOKS: u32 = 3;

#[derive(Default)]
struct Subvolume {
    quota: u64,
    pool: Option<String>,
    /// Where its data lies in the pool.
    namespace: String,
    /// Only snapshots are left.
    is_removed: bool,
    snapshots: BTreeSet<String>,
    clone: Option<Clone>,
}

struct Clone {
    source: String,
    snapshot: String,
    looks: u32,
    fails: bool,
}

#[derive(Default)]
struct Inner {
    groups: BTreeSet<String>,
    /// By group and name.
    subvolumes: BTreeMap<String, Subvolume>,
    /// Clients by name, with their capabilities.
    clients: BTreeMap<String, Vec<String>>,
    clones_fail: bool,
    looks: u32,
}

/// What the requests of a test meet.
#[derive(Clone, Default)]
pub(super) struct Ceph(Rc<RefCell<Inner>>);

type Answer = Result<Value, String>;

impl Ceph {
    pub(super) fn start() -> Self {
        let ceph = Self::default();
        ceph.take_looks(LOOKS);
        let handle = ceph.clone();
        testing::http(move |request| handle.0.borrow_mut().answer(request));
        ceph
    }

    pub(super) fn take_looks(&self, looks: u32) {
        self.0.borrow_mut().looks = looks;
    }

    pub(super) fn fail_clones(&self) {
        self.0.borrow_mut().clones_fail = true;
    }

    /// What an administrator does: `ceph fs subvolume rm --force`.
    pub(super) fn remove(&self, subvolume: &str) {
        self.0.borrow_mut().subvolumes.remove(subvolume);
    }

    /// Everything that is there, as `group/name` and `group/name@snapshot`.
    pub(super) fn all(&self) -> Vec<String> {
        let inner = self.0.borrow();
        let mut all = Vec::new();
        for (name, subvolume) in &inner.subvolumes {
            all.extend((!subvolume.is_removed).then(|| name.clone()));
            all.extend(subvolume.snapshots.iter().map(|it| format!("{name}@{it}")));
        }
        all
    }

    /// All clients with what they may do, as `client.a: mon allow r`.
    pub(super) fn clients(&self) -> Vec<String> {
        let clients = &self.0.borrow().clients;
        let shown = clients
            .iter()
            .map(|(name, caps)| format!("{name}: {}", caps.join(", ")));
        shown.collect()
    }

    /// Adds a client that may do nothing.
    pub(super) fn add_client(&self, name: &str) {
        let clients = &mut self.0.borrow_mut().clients;
        clients.insert(name.to_owned(), Vec::new());
    }

    pub(super) fn quota(&self, subvolume: &str) -> u64 {
        self.0.borrow().subvolumes[subvolume].quota
    }

    pub(super) fn pool(&self, subvolume: &str) -> Option<String> {
        self.0.borrow().subvolumes[subvolume].pool.clone()
    }
}

fn refuse(text: String) -> Answer {
    Err(text)
}

impl Inner {
    fn answer(&mut self, request: &Request) -> Response {
        let accept = request.header_value("accept");
        assert_eq!(accept, Some("application/vnd.ceph.api.v1.0+json"));
        let body: Value = request.read_json().unwrap_or_default();
        if let Some(rest) = request.path().strip_prefix("/api/cluster/user") {
            return self.answer_about_client(request.method(), rest, &body);
        }
        let of = |key: &str| {
            let value = body
                .get(key)
                .filter(|it| !it.is_null())
                .map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
            value
                .or_else(|| request.query_value(key).map(str::to_owned))
                .unwrap_or_default()
        };
        let key = |name: &str| format!("{}/{name}", of("group_name"));
        let segments: Vec<_> = request.path().split('/').skip(3).collect();
        let answer = match (request.method(), segments.as_slice()) {
            (Method::Get, []) => Ok(json!([{ "id": 7, "mdsmap": { "fs_name": "cephfs" } }])),
            (Method::Get, ["7"]) => Ok(json!({ "cephfs": { "pools": [
                { "pool": "metadata", "type": "metadata", "avail": 1 },
                { "pool": "data", "type": "data", "avail": 5_u64 << 30 },
                { "pool": "fast", "type": "data", "avail": 2_u64 << 30 },
            ] } })),
            (_, ["subvolume", fs, ..]) if !matches!(*fs, "cephfs" | "group" | "snapshot") => {
                refuse(format!("FS '{fs}' not found"))
            }
            (Method::Post, ["subvolume", "group"]) => {
                self.groups.insert(of("group_name"));
                Ok(Value::Null)
            }
            _ if !self.groups.contains(&of("group_name")) => refuse(format!(
                "subvolume group '{}' does not exist",
                of("group_name")
            )),
            (Method::Post, ["subvolume"]) if of("pool_layout") == "none" => {
                refuse("invalid pool layout 'none'--need a valid data pool".to_owned())
            }
            (Method::Post, ["subvolume"]) => {
                let subvolume = self.subvolumes.entry(key(&of("subvol_name"))).or_default();
                subvolume.quota = of("size").parse().unwrap();
                subvolume.is_removed = false;
                subvolume.pool = Some(of("pool_layout")).filter(|it| !it.is_empty());
                if of("namespace_isolated") == "true" {
                    subvolume.namespace = format!("fsvolumens_{}", of("subvol_name"));
                }
                assert_eq!(of("mode"), "777");
                Ok(Value::Null)
            }
            (Method::Get, ["subvolume", "cephfs", "info"]) => self.info(&key(&of("subvol_name"))),
            (Method::Put, ["subvolume", "cephfs"]) => {
                let name = key(&of("subvol_name"));
                self.ready(&name, "resize").map(|it| {
                    it.quota = of("size").parse().unwrap();
                    Value::Null
                })
            }
            (Method::Delete, ["subvolume", "cephfs"]) => {
                assert_eq!(of("retain_snapshots"), "true");
                self.remove(&key(&of("subvol_name")))
            }
            (Method::Post, ["subvolume", "snapshot"]) => {
                let name = key(&of("subvol_name"));
                self.ready(&name, "snap-create").map(|it| {
                    it.snapshots.insert(of("snap_name"));
                    Value::Null
                })
            }
            (Method::Get, ["subvolume", "snapshot", "cephfs", name, "info"]) => {
                self.snapshot(&key(name), &of("snap_name"))
            }
            (Method::Delete, ["subvolume", "snapshot", "cephfs", name]) => {
                self.remove_snapshot(&key(name), &of("snap_name"))
            }
            (Method::Post, ["subvolume", "snapshot", "clone"]) => {
                let target = format!("{}/{}", of("target_group_name"), of("clone_name"));
                self.clone(&key(&of("subvol_name")), &of("snap_name"), target)
            }
            (method, path) => panic!("Ceph has no {method:?} {path:?}"),
        };
        match answer {
            Ok(answer) => Response::new(200).with_json(&answer),
            Err(detail) => Response::new(400).with_json(&json!({ "detail": detail })),
        }
    }

    /// The key of a client is `key of ` and its name.
    fn answer_about_client(&mut self, method: Method, rest: &str, body: &Value) -> Response {
        match (method, rest) {
            (Method::Post | Method::Put, "") => {
                let caps = body["capabilities"].as_array().unwrap().iter();
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let caps = caps.map(|it| text(&it["entity"]) + " " + &text(&it["cap"]));
                let (name, caps) = (text(&body["user_entity"]), caps.collect());
                let kept = self.clients.get(&name);
                if method == Method::Post && kept.is_some_and(|kept| *kept != caps) {
                    let detail = format!("entity {name} exists but cap mds does not match");
                    return Response::new(400).with_json(&json!({ "detail": detail }));
                }
                self.clients.insert(name, caps);
            }
            (Method::Post, "/export") => {
                let name = body["entities"][0].as_str().unwrap();
                assert!(self.clients.contains_key(name), "{name}");
                let keyring = format!("[{name}]\n\tkey = key of {name}\n\n");
                return Response::new(200).with_json(&keyring);
            }
            (Method::Delete, rest) => {
                self.clients.remove(rest.strip_prefix('/').unwrap());
            }
            (method, rest) => panic!("Ceph has no {method:?} {rest:?}"),
        }
        Response::new(200)
    }

    fn info(&mut self, name: &str) -> Answer {
        if let Some(Subvolume {
            is_removed: true, ..
        }) = self.subvolumes.get(name)
        {
            return Ok(json!({ "state": "snapshot-retained", "type": "subvolume" }));
        }
        let subvolume = self.ready(name, "info")?;
        let path = format!("/volumes/{name}/1");
        Ok(json!({
            "state": "complete", "path": path, "bytes_quota": subvolume.quota,
            "data_pool": subvolume.pool.as_deref().unwrap_or("data"), "pool_namespace": subvolume.namespace,
        }))
    }

    /// A subvolume that is complete; each question brings a clone nearer to that.
    fn ready(&mut self, name: &str, operation: &str) -> Result<&mut Subvolume, String> {
        let Some(subvolume) = self.subvolumes.get_mut(name) else {
            return Err(format!("subvolume '{name}' does not exist"));
        };
        if subvolume.is_removed {
            return Err(format!(
                "subvolume \"{name}\" is removed and has only snapshots retained"
            ));
        }
        if let Some(clone) = &mut subvolume.clone {
            clone.looks = clone.looks.saturating_sub(1);
            if clone.looks > 0 || clone.fails {
                return Err(format!(
                    "subvolume \"{name}\" is not ready for operation \"{operation}\""
                ));
            }
            subvolume.clone = None;
        }
        Ok(subvolume)
    }

    fn remove(&mut self, name: &str) -> Answer {
        if !self.subvolumes.get(name).is_some_and(|it| it.is_removed) {
            self.ready(name, "rm")?.is_removed = true;
        }
        self.purge(name);
        Ok(Value::Null)
    }

    fn purge(&mut self, name: &str) {
        self.subvolumes.retain(|it, subvolume| {
            it != name || !subvolume.is_removed || !subvolume.snapshots.is_empty()
        });
    }

    /// Names of the clones that are being made of a snapshot.
    fn pending(&self, source: &str, snapshot: &str) -> Vec<Value> {
        let is_pending = |it: &Subvolume| {
            let clone = it.clone.as_ref();
            clone.is_some_and(|it| it.source == source && it.snapshot == snapshot && it.looks > 0)
        };
        let pending = self.subvolumes.iter().filter(|(_, it)| is_pending(it));
        let name = |name: &str| json!({ "name": name.rsplit('/').next() });
        pending.map(|(it, _)| name(it)).collect()
    }

    fn snapshot(&self, source: &str, name: &str) -> Answer {
        let subvolume = self.subvolumes.get(source);
        if !subvolume.is_some_and(|it| it.snapshots.contains(name)) {
            return refuse(format!("snapshot '{name}' does not exist"));
        }
        let pending = self.pending(source, name);
        Ok(json!({ "created_at": "2026-11-26 22:47:55.826509", "pending_clones": pending }))
    }

    fn remove_snapshot(&mut self, source: &str, name: &str) -> Answer {
        self.snapshot(source, name)?;
        if !self.pending(source, name).is_empty() {
            return refuse(format!("snapshot '{name}' has pending clones"));
        }
        if let Some(subvolume) = self.subvolumes.get_mut(source) {
            subvolume.snapshots.remove(name);
        }
        self.purge(source);
        Ok(Value::Null)
    }

    fn clone(&mut self, source: &str, snapshot: &str, target: String) -> Answer {
        self.snapshot(source, snapshot)?;
        if self.subvolumes.contains_key(&target) {
            return refuse(format!("subvolume '{target}' exists"));
        }
        let clone = Clone {
            source: source.to_owned(),
            snapshot: snapshot.to_owned(),
            looks: self.looks,
            fails: self.clones_fail,
        };
        let (quota, namespace) = match self.subvolumes.get(source) {
            Some(source) => (source.quota, source.namespace.clone()),
            None => Default::default(),
        };
        let subvolume = Subvolume {
            quota,
            namespace,
            clone: Some(clone),
            ..Subvolume::default()
        };
        self.subvolumes.insert(target, subvolume);
        Ok(Value::Null)
    }
}

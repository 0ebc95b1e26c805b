//! An array in memory: objects by kind and id.

use crate::{SNAPSHOTS, VOLUMES};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wasmount_guest::http::{Method, Request, Response};

/// What the array holds, and how it behaves.
#[derive(Default)]
pub(super) struct Model {
    objects: BTreeMap<String, Value>,
    last: u64,
    /// How often a volume is answered before it is ready.
    pub(super) looks_until_ready: u64,
    /// The status of every request that would change something.
    pub(super) refuse_changes: Option<u16>,
    /// Whether no volume can be made.
    pub(super) is_broken: bool,
    /// Hosts, as they were registered last.
    pub(super) hosts: BTreeMap<String, Value>,
    /// How hosts reach attached volumes.
    pub(super) connection: Option<Value>,
}

impl Model {
    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let of_kind = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(kind));
        let name = |(_, object): (_, &Value)| object["name"].as_str().unwrap().to_owned();
        of_kind.map(name).collect()
    }

    /// A field of a volume.
    pub(super) fn of(&self, id: &str, field: &str) -> Value {
        self.objects[&format!("{VOLUMES}/{id}")][field].clone()
    }

    pub(super) fn answer(&mut self, request: &Request) -> Response {
        assert_eq!(request.grant(), "array");
        let path = request.path().to_owned();
        if let Some(host) = path.strip_prefix("/api/hosts/") {
            return self.host(host, request);
        }
        let (object, rest) = match path.split_once("/hosts") {
            Some((volume, host)) => (volume.to_owned(), Some(host.trim_start_matches('/'))),
            None => (path.clone(), None),
        };
        let is_list = object == VOLUMES || object == SNAPSHOTS;
        if request.method() != Method::Get
            && let Some(status) = self.refuse_changes
        {
            return Response::new(status);
        }
        match (request.method(), rest) {
            (Method::Get, None) if is_list => self.list(&object, request),
            (Method::Post, None) if is_list => self.create(&object, request),
            _ if !self.objects.contains_key(&object) => Response::new(404),
            (Method::Get, None) => self.show(&object),
            (Method::Patch, None) => {
                let new: Value = request.read_json().unwrap();
                self.objects.get_mut(&object).unwrap()["bytes"] = new["bytes"].clone();
                self.show(&object)
            }
            (Method::Delete, None) => {
                self.objects.remove(&object);
                Response::new(204)
            }
            (Method::Put, Some(host)) if !self.hosts.contains_key(host) => Response::new(404),
            (Method::Put, Some(host)) => {
                let volume = self.objects.get_mut(&object).unwrap();
                volume["hosts"] = json!([host]);
                volume["mode"] = request.read_json().unwrap();
                volume["connection"] = json!(self.connection);
                self.show(&object)
            }
            (Method::Delete, Some(_)) => {
                self.objects.get_mut(&object).unwrap()["hosts"] = json!([]);
                Response::new(204)
            }
            _ => Response::new(405),
        }
    }

    fn list(&self, kind: &str, request: &Request) -> Response {
        let (name, volume) = (request.query_value("name"), request.query_value("volume"));
        let is = |object: &Value, key: &str, wanted: Option<&str>| {
            wanted.is_none_or(|wanted| object[key] == wanted)
        };
        let of_kind = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(kind));
        let found: Vec<_> = of_kind
            .map(|(_, object)| object)
            .filter(|object| is(object, "name", name) && is(object, "source", volume))
            .collect();
        Response::new(200).with_json(&json!({ "items": found, "next": null }))
    }

    fn create(&mut self, kind: &str, request: &Request) -> Response {
        let new: Value = request.read_json().unwrap();
        if self.names(kind).iter().any(|name| new["name"] == **name) {
            return Response::new(409);
        }
        let snapshot = new["snapshot"].as_str();
        let source = snapshot.map_or_else(|| new["volume"].clone(), |id| json!(id));
        let volume = self
            .objects
            .get(&format!("{VOLUMES}/{}", source.as_str().unwrap_or("")));
        if kind == SNAPSHOTS && volume.is_none() {
            return Response::new(404);
        }
        let bytes = match kind {
            SNAPSHOTS => volume.unwrap()["bytes"].clone(),
            _ => new["bytes"].clone(),
        };
        self.last += 1;
        let id = format!(
            "{}-{}",
            if kind == VOLUMES { "vol" } else { "snap" },
            self.last
        );
        let state = match self.looks_until_ready {
            _ if self.is_broken => "error",
            0 => "ready",
            _ => "creating",
        };
        let object = json!({
            "id": id, "name": new["name"], "bytes": bytes, "state": state, "source": source, "created": 1, "hosts": [],
        });
        let shown = Response::new(201).with_json(&object);
        self.objects.insert(format!("{kind}/{id}"), object);
        shown
    }

    fn host(&mut self, host: &str, request: &Request) -> Response {
        if request.method() == Method::Delete {
            let is_in_use = self.objects.values().any(|it| it["hosts"] == json!([host]));
            return match self.hosts.contains_key(host) {
                false => Response::new(404),
                true if is_in_use => Response::new(409),
                true => {
                    self.hosts.remove(host);
                    Response::new(204)
                }
            };
        }
        let new: Value = request.read_json().unwrap();
        let is_same = |(name, it): (&String, &Value)| name != host && *it == new;
        if new != json!({}) && self.hosts.iter().any(is_same) {
            return Response::new(409);
        }
        self.hosts.insert(host.to_owned(), new.clone());
        Response::new(200).with_json(&new)
    }

    fn show(&mut self, path: &str) -> Response {
        let object = self.objects.get_mut(path).unwrap();
        self.looks_until_ready = self.looks_until_ready.saturating_sub(1);
        if self.looks_until_ready == 0 {
            object["state"] = json!("ready");
        }
        Response::new(200).with_json(object)
    }
}

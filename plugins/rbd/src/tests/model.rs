//! A model of Ceph: images, their snapshots, and clones that are complete after some looks.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wasmount_guest::http::{Method, Request, Response};
use wasmount_guest::testing;

/// Looks at a clone that is flattened, until it is complete.
const LOOKS: u32 = 3;
pub(super) const CLUSTER: &str = "8b0b3a5e-0000-4000-8000-000000000001";

struct Image {
    id: u32,
    size: u64,
    features: Vec<String>,
    data_pool: Option<String>,
    parent: Option<String>,
    /// Looks that are left, once it is being flattened.
    looks: Option<u32>,
    /// With their sizes, and whether they are protected.
    snapshots: BTreeMap<String, (u64, bool)>,
}

#[derive(Default)]
struct Inner {
    /// By pool, namespace and name.
    images: BTreeMap<String, Image>,
    made: u32,
    in_use: Vec<String>,
}

/// What the requests of a test meet.
#[derive(Clone, Default)]
pub(super) struct Ceph(Rc<RefCell<Inner>>);

/// The number of the error, and its text.
type Answer = Result<Value, (&'static str, String)>;

impl Ceph {
    pub(super) fn start() -> Self {
        let ceph = Self::default();
        let handle = ceph.clone();
        testing::http(move |request| handle.0.borrow_mut().answer(request));
        ceph
    }

    /// Everything that is there, as `pool/name` and `pool/name@snapshot`.
    pub(super) fn all(&self) -> Vec<String> {
        let inner = self.0.borrow();
        let mut all = Vec::new();
        for (name, image) in &inner.images {
            all.push(name.clone());
            all.extend(image.snapshots.keys().map(|it| format!("{name}@{it}")));
        }
        all
    }

    pub(super) fn size(&self, image: &str) -> u64 {
        self.0.borrow().images[image].size
    }

    /// Where its data lies, and its features.
    pub(super) fn options(&self, image: &str) -> (Option<String>, Vec<String>) {
        let image = &self.0.borrow().images[image];
        (image.data_pool.clone(), image.features.clone())
    }

    /// A node has mapped it.
    pub(super) fn map(&self, image: &str) {
        self.0.borrow_mut().in_use.push(image.to_owned());
    }
}

impl Inner {
    fn answer(&mut self, request: &Request) -> Response {
        let accept = request.header_value("accept");
        assert_eq!(accept, Some("application/vnd.ceph.api.v1.0+json"));
        let body: Value = request.read_json().unwrap_or_default();
        let path = request.path().replace("%2F", "\n").replace("%40", "@");
        let segments: Vec<_> = path
            .split('/')
            .skip(2)
            .map(|it| it.replace('\n', "/"))
            .collect();
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        let answer = match (request.method(), segments.as_slice()) {
            (Method::Get, ["health", "get_cluster_fsid"]) => Ok(json!(CLUSTER)),
            (Method::Get, ["pool", "kubernetes"]) => {
                Ok(json!({ "stats": { "max_avail": { "latest": 5_u64 << 30 } } }))
            }
            (Method::Post, ["block", "image"]) => self.create(&body),
            (method, ["block", "image", image]) => self.image(method, image, &body),
            (Method::Post, ["block", "image", image, "flatten"]) => self.found(image).map(|it| {
                it.looks.get_or_insert(LOOKS);
                Value::Null
            }),
            (Method::Post, ["block", "image", image, "snap"]) => {
                let name = text(&body, "snapshot_name").unwrap();
                self.found(image).and_then(|it| {
                    if it.snapshots.contains_key(&name) {
                        return Err(("17", "the snapshot is there".to_owned()));
                    }
                    it.snapshots.insert(name, (it.size, false));
                    Ok(Value::Null)
                })
            }
            (method, ["block", "image", image, "snap", name]) => {
                self.snapshot(method, image, name, &body)
            }
            (Method::Post, ["block", "image", image, "snap", name, "clone"]) => {
                self.clone(image, name, &body)
            }
            (method, path) => panic!("Ceph has no {method:?} {path:?}"),
        };
        match answer {
            Ok(answer) => Response::new(200).with_json(&answer),
            // As Ceph 18.2.7 answers, be it that an image is not there.
            Err(("404", _)) => Response::new(404),
            Err((code, detail)) => {
                let body = json!({ "detail": detail, "code": code, "component": "rbd" });
                Response::new(400).with_json(&body)
            }
        }
    }

    fn create(&mut self, body: &Value) -> Answer {
        let image = Image {
            id: 0,
            size: body["size"].as_u64().unwrap(),
            features: features(body),
            data_pool: text(body, "data_pool"),
            parent: None,
            looks: None,
            snapshots: BTreeMap::new(),
        };
        self.add(place(body, ["pool_name", "namespace", "name"]), image)
    }

    fn add(&mut self, name: String, image: Image) -> Answer {
        if self.images.contains_key(&name) {
            return Err(("17", "the image is there".to_owned()));
        }
        self.made += 1;
        let id = self.made;
        self.images.insert(name, Image { id, ..image });
        Ok(Value::Null)
    }

    fn image(&mut self, method: Method, name: &str, body: &Value) -> Answer {
        if method == Method::Delete && self.in_use.iter().any(|it| it == name) {
            return Err(("16", "the image has watchers".to_owned()));
        }
        let image = self.found(name)?;
        match method {
            Method::Get => {
                image.looks = image.looks.map(|looks| looks.saturating_sub(1));
                if image.looks == Some(0) {
                    image.parent = None;
                }
                let snapshots = image.snapshots.iter();
                let snapshots = snapshots.map(|(name, (size, is_protected))| {
                    json!({
                        "name": name, "size": size, "timestamp": "2026-01-02T03:04:05Z", "is_protected": is_protected,
                    })
                });
                Ok(json!({
                    "id": format!("id-{}", image.id), "size": image.size,
                    "parent": image.parent.as_ref().map(|it| json!({ "image_name": it })),
                    "snapshots": snapshots.collect::<Vec<_>>(),
                }))
            }
            Method::Put => {
                image.size = body["size"].as_u64().unwrap();
                Ok(Value::Null)
            }
            Method::Delete => {
                // With its snapshots: what the plugin must not let happen.
                self.images.remove(name);
                Ok(Value::Null)
            }
            method => panic!("Ceph has no {method:?} of an image"),
        }
    }

    fn snapshot(&mut self, method: Method, image: &str, name: &str, body: &Value) -> Answer {
        let spec = format!("{image}@{name}");
        let has_clones = self
            .images
            .values()
            .any(|it| it.parent.as_ref() == Some(&spec));
        let snapshots = &mut self.found(image)?.snapshots;
        let Some((_, is_protected)) = snapshots.get_mut(name) else {
            return Err(("2", format!("no snapshot {name}")));
        };
        match method {
            Method::Put if has_clones && body["is_protected"] == false => {
                Err(("16", "it has clones".to_owned()))
            }
            Method::Put => {
                *is_protected = body["is_protected"].as_bool().unwrap();
                Ok(Value::Null)
            }
            Method::Delete if *is_protected => Err(("16", "it is protected".to_owned())),
            Method::Delete => {
                snapshots.remove(name);
                Ok(Value::Null)
            }
            method => panic!("Ceph has no {method:?} of a snapshot"),
        }
    }

    fn clone(&mut self, image: &str, name: &str, body: &Value) -> Answer {
        let parent = format!("{image}@{name}");
        let snapshots = &self.found(image)?.snapshots;
        let size = match snapshots.get(name) {
            Some((size, true)) => *size,
            Some(_) => return Err(("22", "the snapshot is not protected".to_owned())),
            None => return Err(("2", format!("no snapshot {name}"))),
        };
        let image = Image {
            id: 0,
            size,
            features: features(body),
            data_pool: text(body, "data_pool"),
            parent: Some(parent),
            looks: None,
            snapshots: BTreeMap::new(),
        };
        let names = ["child_pool_name", "child_namespace", "child_image_name"];
        self.add(place(body, names), image)
    }

    fn found(&mut self, name: &str) -> Result<&mut Image, (&'static str, String)> {
        let found = self.images.get_mut(name);
        found.ok_or_else(|| ("404", format!("no image {name}")))
    }
}

fn text(body: &Value, key: &str) -> Option<String> {
    body[key].as_str().map(str::to_owned)
}

fn features(body: &Value) -> Vec<String> {
    let features = body["features"].as_array();
    let features = features.into_iter().flatten();
    features.map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn place(body: &Value, keys: [&str; 3]) -> String {
    let words: Vec<_> = keys.iter().filter_map(|key| text(body, key)).collect();
    words.join("/")
}

//! Images by the REST API of ceph-mgr's module `dashboard`, and what its failures mean.
use crate::Settings;
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::{http::Request, *};

pub(crate) const GRANT: &str = "ceph";
const VERSION: &str = "application/vnd.ceph.api.v1.0+json";
const IMAGES: &str = "/api/block/image";
const CLUSTER: &str = "/api/health/get_cluster_fsid";
const POOLS: &str = "/api/pool";
/// Numbers of errors of Linux that ceph-mgr answers as `code`.
const REFUSALS: [(&str, Code); 7] = [
    ("2", Code::NotFound),
    ("16", Code::FailedPrecondition), // EBUSY: in use, or clones depend on it
    ("17", Code::AlreadyExists),
    ("22", Code::InvalidArgument),
    ("28", Code::ResourceExhausted),
    ("30", Code::FailedPrecondition), // EROFS: a node uses it exclusively
    ("39", Code::FailedPrecondition), // ENOTEMPTY: it has snapshots
];

/// Where an image is; a volume's id is made of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) pool: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// What Ceph knows of an image.
#[derive(Deserialize)]
pub(crate) struct Info {
    pub(crate) id: String,
    pub(crate) size: u64,
    parent: Option<Value>, // of a clone that is not complete
    #[serde(default)]
    pub(crate) snapshots: Vec<SnapshotInfo>,
}

#[derive(Deserialize)]
pub(crate) struct SnapshotInfo {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) timestamp: String,
    is_protected: Option<bool>,
}

#[derive(Deserialize)]
struct Refusal {
    detail: String,
    #[serde(default)]
    code: Value,
}

/// A word of Ceph's that is a segment of a path, too.
pub(crate) fn is_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !matches!(word, "" | "." | "..") && word.chars().all(is_plain)
}

/// Longer work goes on after the answer (202).
fn send(request: Request) -> Result<http::Response, Error> {
    let answer = request.header("Accept", VERSION).send()?;
    let refused = (answer.status() == 400).then(|| answer.json::<Refusal>());
    if let Some(Ok(Refusal { detail, code })) = refused {
        let code = code
            .as_str()
            .map_or_else(|| code.to_string(), str::to_owned);
        let known = REFUSALS.iter().find(|(number, _)| *number == code);
        let code = known.map_or(Code::Unavailable, |(_, code)| *code);
        return Err(Error::new(code, format!("Ceph refused it: {detail}")));
    }
    answer.must_succeed()
}

/// A change that may be repeated.
fn change(request: Request) -> Result<(), Error> {
    send(request.idempotent()).map(drop)
}

/// As `result`, if what Ceph refuses with this code is done already.
fn unless(code: Code, result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.code == code => Ok(()),
        result => result,
    }
}

/// The id of the cluster.
pub(crate) fn cluster() -> Result<String, Error> {
    send(http::get(GRANT, CLUSTER))?.json()
}

/// Bytes that a pool can still take.
pub(crate) fn available(pool: &str) -> Result<u64, Error> {
    let request = http::get(GRANT, POOLS).segment(pool).query("stats", true);
    let pool: Value = send(request)?.json()?;
    let available = pool.pointer("/stats/max_avail/latest");
    Ok(available.and_then(Value::as_u64).unwrap_or(0))
}

impl Image {
    /// `None`: no id of a volume. It comes from a client, and names what is deleted.
    pub(crate) fn parse(id: &str) -> Result<Option<Self>, Error> {
        let (place, name) = id.rsplit_once('/').unwrap_or_default();
        let (pool, namespace) = match place.split_once('/') {
            Some((pool, namespace)) => (pool, Some(namespace)),
            None => (place, None),
        };
        let names = [Some(pool), namespace, Some(name)];
        if !names.into_iter().flatten().all(is_name) {
            return Ok(None);
        }
        if !Settings::read()?.has(place) {
            let what = format!("the pool `{place}` is not in the setting `pools`");
            return Err(Error::failed_precondition(what));
        }
        Ok(Some(Self {
            pool: pool.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }))
    }

    /// Or `not-found`.
    pub(crate) fn known(id: &str) -> Result<Self, Error> {
        Self::parse(id)?.ok_or_else(|| Error::not_found("there is no volume of this id"))
    }

    /// Pool, or pool and namespace.
    pub(crate) fn place(&self) -> String {
        let parts = [Some(self.pool.as_str()), self.namespace.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.place(), self.name)
    }

    pub(crate) fn find(&self) -> Result<Option<Info>, Error> {
        let answer = Error::found(send(self.at(http::get(GRANT, IMAGES))))?;
        answer.map(|it| it.json()).transpose()
    }

    /// Or `not-found`; `aborted` while it is a clone that is being completed.
    pub(crate) fn info(&self) -> Result<Info, Error> {
        match self.find()? {
            Some(info) if info.is_complete() => Ok(info),
            Some(_) => Err(Error::aborted("the volume is still being made")),
            None => Err(Error::not_found("there is no volume of this id")),
        }
    }

    pub(crate) fn create(&self, bytes: u64, options: Value) -> Result<(), Error> {
        let mut body = options;
        merge(
            &mut body,
            json!({ "pool_name": self.pool, "namespace": self.namespace, "name": self.name, "size": bytes }),
        );
        unless(
            Code::AlreadyExists,
            change(http::post(GRANT, IMAGES).json(&body)),
        )
    }

    pub(crate) fn resize(&self, bytes: u64) -> Result<(), Error> {
        let body = json!({ "size": bytes });
        change(self.at(http::put(GRANT, IMAGES)).json(&body))?;
        poll::until(&format!("the growth of `{}`", self.name), || {
            Ok((self.info()?.size == bytes).then_some(()))
        })
    }

    /// With its snapshots! What is absent is removed already.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        unless(Code::NotFound, change(self.at(http::delete(GRANT, IMAGES))))?;
        poll::until(&format!("the removal of `{}`", self.name), || {
            Ok(self.find()?.is_none().then_some(()))
        })
    }

    /// Begins to make a clone of a snapshot of another image.
    pub(crate) fn clone_from(
        &self,
        source: &Self,
        snapshot: &str,
        options: Value,
    ) -> Result<(), Error> {
        // Without this, only clusters of newer clients take it.
        let protect = json!({ "is_protected": true });
        change(
            source
                .snapshot(http::put(GRANT, IMAGES), snapshot)
                .json(&protect),
        )?;
        let mut body = options;
        merge(
            &mut body,
            json!({ "child_pool_name": self.pool, "child_namespace": self.namespace, "child_image_name": self.name }),
        );
        let clone = source
            .snapshot(http::post(GRANT, IMAGES), snapshot)
            .segment("clone");
        unless(Code::AlreadyExists, change(clone.json(&body)))
    }

    /// Waits until it is there. Into a clone is copied what it shares, until it depends on nothing.
    pub(crate) fn complete(&self) -> Result<Info, Error> {
        let mut is_begun = false;
        poll::until(&format!("the making of `{}`", self.name), || {
            let Some(info) = self.find()? else {
                return Ok(None);
            };
            if !info.is_complete() && !is_begun {
                let flatten = self.at(http::post(GRANT, IMAGES)).segment("flatten");
                change(flatten.json(&json!({})))?;
                is_begun = true;
            }
            Ok(Some(info).filter(Info::is_complete))
        })
    }

    /// Ceph leaves an existing one as it is.
    pub(crate) fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        let body = json!({ "snapshot_name": name, "mirrorImageSnapshot": false });
        let request = self
            .at(http::post(GRANT, IMAGES))
            .segment("snap")
            .json(&body);
        unless(Code::AlreadyExists, change(request))
    }

    pub(crate) fn find_snapshot(&self, name: &str) -> Result<Option<SnapshotInfo>, Error> {
        let snapshots = self.find()?.map_or_else(Vec::new, |it| it.snapshots);
        Ok(snapshots.into_iter().find(|it| it.name == name))
    }

    /// What is absent is removed already.
    pub(crate) fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let Some(snapshot) = self.find_snapshot(name)? else {
            return Ok(());
        };
        if snapshot.is_protected == Some(true) {
            let body = json!({ "is_protected": false });
            change(self.snapshot(http::put(GRANT, IMAGES), name).json(&body))?;
        }
        let request = self.snapshot(http::delete(GRANT, IMAGES), name);
        unless(Code::NotFound, change(request))?;
        poll::until(&format!("the removal of snapshot `{name}`"), || {
            Ok(self.find_snapshot(name)?.is_none().then_some(()))
        })
    }

    fn at(&self, request: Request) -> Request {
        request.segment(&self.id())
    }

    fn snapshot(&self, request: Request, name: &str) -> Request {
        self.at(request).segment("snap").segment(name)
    }
}

impl Info {
    pub(crate) fn is_complete(&self) -> bool {
        self.parent.is_none()
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

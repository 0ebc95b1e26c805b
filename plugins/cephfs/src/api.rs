//! Subvolumes by the REST API of ceph-mgr's module `dashboard`, and what its failures mean.
use crate::Settings;
use serde::Deserialize;
use serde_json::{Value, json};
use wasmount_guest::{http::Request, *};

pub(crate) const GRANT: &str = "ceph";
const VERSION: &str = "application/vnd.ceph.api.v1.0+json";
const FILE_SYSTEMS: &str = "/api/cephfs";
const SUBVOLUMES: &str = "/api/cephfs/subvolume";
const GROUPS: &str = "/api/cephfs/subvolume/group";
const SNAPSHOTS: &str = "/api/cephfs/subvolume/snapshot";
const CLONES: &str = "/api/cephfs/subvolume/snapshot/clone";
const MODE: &str = "777"; // as ceph-csi has it: users of pods differ
/// ceph-mgr answers 400 to whatever Ceph refuses, and its words alone say why.
const REFUSALS: [(&str, Code); 10] = [
    ("does not exist", Code::NotFound),
    ("only snapshots retained", Code::NotFound),
    ("is not ready for operation", Code::Aborted), // being cloned
    ("pending clones", Code::Aborted),
    ("in progress", Code::Aborted), // a removal
    ("please try again", Code::Aborted),
    ("' exists", Code::Aborted),             // the next call finds it
    ("does not match", Code::AlreadyExists), // a client with other rights
    ("invalid pool layout", Code::InvalidArgument),
    ("FS '", Code::FailedPrecondition), // not found
];

/// The names of a subvolume; a volume's id is made of them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Subvolume {
    pub(crate) fs: String,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// What Ceph knows of a subvolume.
pub(crate) enum State {
    Absent,
    Unready, // a clone that is being made, or failed
    Complete(Info),
}

#[derive(Deserialize)]
pub(crate) struct Info {
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) data_pool: String,
    #[serde(default)]
    pub(crate) pool_namespace: String, // empty: of all volumes that share the pool
    #[serde(default)]
    bytes_quota: Value, // a number, or the word `infinite`
    state: String,
}

#[derive(Deserialize)]
pub(crate) struct SnapshotInfo {
    pub(crate) created_at: String,
    #[serde(default)]
    pending_clones: Vec<PendingClone>,
}

#[derive(Deserialize)]
struct PendingClone {
    name: String,
}

#[derive(Deserialize)]
struct Refusal {
    detail: String,
}

/// A word of Ceph's that is a segment of a path, too.
pub(crate) fn is_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !matches!(word, "" | "." | "..") && word.chars().all(is_plain)
}

pub(crate) fn send(request: Request) -> Result<http::Response, Error> {
    let answer = request.header("Accept", VERSION).send()?;
    let refused = (answer.status() == 400).then(|| answer.json::<Refusal>());
    if let Some(Ok(Refusal { detail })) = refused {
        let known = REFUSALS.iter().find(|(words, _)| detail.contains(words));
        let code = known.map_or(Code::Unavailable, |(_, code)| *code);
        return Err(Error::new(code, format!("Ceph refused it: {detail}")));
    }
    // 404 and 415: a Ceph without this API.
    let codes = [404, 415].map(|status| (status, Code::FailedPrecondition));
    answer.must_succeed_as(&codes)
}

/// A change that may be repeated.
pub(crate) fn change(request: Request) -> Result<(), Error> {
    send(request.idempotent()).map(drop)
}

impl Subvolume {
    /// `None`: no id of a volume. It comes from a client, and names what is deleted.
    pub(crate) fn parse(id: &str) -> Result<Option<Self>, Error> {
        let names: Vec<_> = id.split('/').collect();
        let [fs, group, name] = names.as_slice() else {
            return Ok(None);
        };
        if !names.iter().all(|name| is_name(name)) {
            return Ok(None);
        }
        if !Settings::read()?.groups().any(|it| it == *group) {
            let what = format!("the subvolume group `{group}` is not in `subvolumeGroups`");
            return Err(Error::failed_precondition(what));
        }
        let [fs, group, name] = [fs, group, name].map(|it| (*it).to_owned());
        Ok(Some(Self { fs, group, name }))
    }

    /// Or `not-found`.
    pub(crate) fn known(id: &str) -> Result<Self, Error> {
        Self::parse(id)?.ok_or_else(|| Error::not_found("there is no volume of this id"))
    }

    pub(crate) fn id(&self) -> String {
        [self.fs.as_str(), &self.group, &self.name].join("/")
    }

    pub(crate) fn state(&self) -> Result<State, Error> {
        let request = self.named(
            http::get(GRANT, SUBVOLUMES)
                .segment(&self.fs)
                .segment("info"),
        );
        match Error::found(send(request)) {
            Err(error) if error.code == Code::Aborted => Ok(State::Unready),
            Err(error) => Err(error),
            Ok(None) => Ok(State::Absent),
            Ok(Some(answer)) => match answer.json::<Info>()? {
                info if info.state == "snapshot-retained" => Ok(State::Absent),
                info => Ok(State::Complete(info)),
            },
        }
    }

    /// Or `not-found`; `aborted` while it is being cloned.
    pub(crate) fn info(&self) -> Result<Info, Error> {
        match self.state()? {
            State::Complete(info) => Ok(info),
            State::Unready => Err(Error::aborted("the volume is still being made")),
            State::Absent => Err(Error::not_found("there is no volume of this id")),
        }
    }

    /// Ceph takes an existing one as just created. `is_isolated`: its data lies in a namespace of its own, which a key can be bound to.
    pub(crate) fn create(
        &self,
        bytes: u64,
        pool: Option<&str>,
        is_isolated: bool,
    ) -> Result<(), Error> {
        change(http::post(GRANT, SUBVOLUMES).json(&json!({
            "vol_name": self.fs, "group_name": self.group, "subvol_name": self.name, "size": bytes, "mode": MODE,
            "pool_layout": pool, "namespace_isolated": is_isolated,
        })))
    }

    pub(crate) fn create_group(&self) -> Result<(), Error> {
        let body = json!({ "vol_name": self.fs, "group_name": self.group });
        change(http::post(GRANT, GROUPS).json(&body))
    }

    /// Begins to copy a snapshot of another subvolume.
    pub(crate) fn clone_from(&self, source: &Self, snapshot: &str) -> Result<(), Error> {
        let body = json!({
            "vol_name": self.fs, "group_name": source.group, "subvol_name": source.name, "snap_name": snapshot,
            "clone_name": self.name, "target_group_name": self.group,
        });
        send(http::post(GRANT, CLONES).json(&body)).map(drop)
    }

    pub(crate) fn resize(&self, bytes: u64) -> Result<(), Error> {
        let body = json!({ "subvol_name": self.name, "group_name": self.group, "size": bytes.to_string() });
        change(http::put(GRANT, SUBVOLUMES).segment(&self.fs).json(&body))
    }

    /// Its snapshots stay; what is absent is removed already.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let request = self.named(http::delete(GRANT, SUBVOLUMES).segment(&self.fs));
        Error::found(change(request.query("retain_snapshots", true))).map(drop)
    }

    pub(crate) fn snapshot(&self, name: &str) -> Result<Option<SnapshotInfo>, Error> {
        let request = http::get(GRANT, SNAPSHOTS)
            .segment(&self.fs)
            .segment(&self.name);
        let request = request.segment("info").query("snap_name", name);
        let answer = Error::found(send(request.query("group_name", &self.group)))?;
        answer.map(|it| it.json()).transpose()
    }

    /// Ceph leaves an existing one as it is.
    pub(crate) fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        change(http::post(GRANT, SNAPSHOTS).json(&json!({
            "vol_name": self.fs, "group_name": self.group, "subvol_name": self.name, "snap_name": name,
        })))
    }

    /// With the last retained snapshot Ceph removes the subvolume, too.
    pub(crate) fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let request = http::delete(GRANT, SNAPSHOTS)
            .segment(&self.fs)
            .segment(&self.name);
        let request = request
            .query("snap_name", name)
            .query("group_name", &self.group);
        Error::found(change(request.query("force", false))).map(drop)
    }

    fn named(&self, request: Request) -> Request {
        request
            .query("subvol_name", &self.name)
            .query("group_name", &self.group)
    }
}

impl Info {
    /// 0: no quota.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_quota.as_u64().unwrap_or(0)
    }
}

impl SnapshotInfo {
    pub(crate) fn is_being_cloned_to(&self, name: &str) -> bool {
        self.pending_clones.iter().any(|it| it.name == name)
    }
}

/// Bytes that are left in a data pool, by default the first one of the file system.
pub(crate) fn available(fs: &str, pool: Option<&str>) -> Result<u64, Error> {
    let all: Vec<Value> = send(http::get(GRANT, FILE_SYSTEMS))?.json()?;
    let mut all = all.iter();
    let found = all.find(|it| it.pointer("/mdsmap/fs_name") == Some(&json!(fs)));
    let Some(id) = found.and_then(|it| it.get("id")) else {
        return Ok(0);
    };
    let status = send(http::get(GRANT, FILE_SYSTEMS).segment(&id.to_string()))?;
    let status: Value = status.json()?;
    let pools = status.pointer("/cephfs/pools").and_then(Value::as_array);
    let mut data = pools
        .into_iter()
        .flatten()
        .filter(|it| it.get("type") == Some(&json!("data")));
    let data = data.find(|it| pool.is_none_or(|pool| it.get("pool") == Some(&json!(pool))));
    Ok(data.and_then(|it| it.get("avail")?.as_u64()).unwrap_or(0))
}

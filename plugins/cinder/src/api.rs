//! Cinder's API as far as a driver needs it, and what its failures mean.
use crate::settings;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use wasmount_guest::{http::Request, *};

/// Of Cinder 20 (Yoga): snapshots of volumes in use, and paths without a project.
const MICROVERSION: &str = "volume 3.67";
/// 406 is an older Cinder; 413 is a quota, not a large request.
const CODES: [(u16, Code); 3] = [
    (406, Code::FailedPrecondition),
    (409, Code::Aborted),
    (413, Code::ResourceExhausted),
];
/// Metadata of what is created: the setting `cluster`.
pub(crate) const CLUSTER: &str = "cinder.csi.openstack.org/cluster";
/// The time of a call in `backend.yaml`: a request that arrives twice, or meets another call's, does so within it.
const TWINS_WITHIN: Duration = Duration::from_secs(120);
const ID_BYTES: usize = 36; // a UUID with its hyphens
/// In the place of `null`, which is the status of a volume whose backup found no service (`create_backup` in cinder/scheduler/manager.py): Cinder resets
/// it to one from before, if there was one. An administrator resets it as after an error.
const NO_STATUS: &str = "null";

/// A kind of object.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    path: &'static str,
    name: &'static str,
}

pub(crate) const VOLUME: Kind = Kind::of("/v3/volumes", "volume");
pub(crate) const SNAPSHOT: Kind = Kind::of("/v3/snapshots", "snapshot");
pub(crate) const BACKUP: Kind = Kind::of("/v3/backups", "backup");
pub(crate) const ATTACHMENT: Kind = Kind::of("/v3/attachments", "attachment");

/// What all kinds of objects have.
#[derive(Clone, Deserialize)]
pub(crate) struct Object {
    pub(crate) id: String,
    #[serde(deserialize_with = "status")]
    pub(crate) status: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

/// An object of any kind, with the fields that its user reads.
pub(crate) trait IsObject: DeserializeOwned + AsRef<Object> {}
impl<T: DeserializeOwned + AsRef<Object>> IsObject for T {}

#[derive(Deserialize)]
struct One<T> {
    #[serde(
        alias = "volume",
        alias = "snapshot",
        alias = "backup",
        alias = "attachment"
    )]
    one: T,
}

#[derive(Deserialize)]
struct Many<T> {
    #[serde(
        alias = "volumes",
        alias = "snapshots",
        alias = "backups",
        alias = "attachments"
    )]
    many: Vec<T>,
    #[serde(
        default,
        alias = "volumes_links",
        alias = "snapshots_links",
        alias = "backups_links"
    )]
    links: Vec<Value>, // to the next page
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

/// Sends a request with the microversion; what fails is an error.
pub(crate) fn send(request: Request) -> Result<http::Response, Error> {
    let request = request.header("OpenStack-API-Version", MICROVERSION);
    request.send()?.must_succeed_as(&CODES)
}

impl Kind {
    const fn of(path: &'static str, name: &'static str) -> Self {
        Self { path, name }
    }

    pub(crate) fn get<T: DeserializeOwned>(self, id: &str) -> Result<T, Error> {
        let one: One<T> = send(http::get("cinder", &self.path_of(id)?))?.json()?;
        Ok(one.one)
    }

    /// The object, if it is there.
    pub(crate) fn find<T: DeserializeOwned>(self, id: &str) -> Result<Option<T>, Error> {
        Error::found(self.get(id))
    }

    pub(crate) fn create<T: DeserializeOwned>(self, body: Value) -> Result<T, Error> {
        let request = http::post("cinder", self.path).json(&json!({ self.name: body }));
        let one: One<T> = send(request)?.json()?;
        Ok(one.one)
    }

    /// The object of a name; creates it if there is none. Cinder accepts a name twice, from two calls or from one request that arrived twice: the
    /// first counts, and the others are taken back.
    pub(crate) fn create_once<T: IsObject>(
        self,
        name: &str,
        body: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<T, Error> {
        let known = self.named(name)?;
        if !known.is_empty() {
            return self.first(known);
        }
        let Created { id } = self.create(body()?)?;
        let first: T = self.first(self.named(name)?)?;
        if first.as_ref().id == id {
            return Ok(first);
        }
        Err(Error::aborted(format!(
            "`{name}` was created twice at once"
        )))
    }

    /// The first object of a name. No call returned those of this cluster that were created right after it: they are deleted.
    fn first<T: IsObject>(self, named: Vec<T>) -> Result<T, Error> {
        let cluster = settings()?.cluster;
        let mut named = named.into_iter();
        let gone = || Error::aborted("what was created is gone: create it again");
        let first = named.next().ok_or_else(gone)?;
        for twin in named.filter(|it| it.as_ref().is_twin_of(first.as_ref(), &cluster)) {
            let id = &twin.as_ref().id;
            // While Cinder creates it, it refuses to delete it.
            match self.at_rest::<Object>(id) {
                Err(error) if error.code == Code::NotFound => continue,
                rests => rests.and_then(|_| self.undo(id))?,
            }
            // A snapshot would keep its volume, and both would be in lists.
            self.gone(id)?;
        }
        Ok(first)
    }

    pub(crate) fn act(self, it: &Object, action: &Value) -> Result<(), Error> {
        let path = format!("{}/action", self.path_of(&it.id)?);
        let sent = send(http::post("cinder", &path).json(action));
        sent.map(drop).map_err(|error| self.explain(it, error))
    }

    /// Waits until Cinder is done with an object.
    pub(crate) fn at_rest<T: IsObject>(self, id: &str) -> Result<T, Error> {
        poll::until(&self.called(id), || {
            let it: T = self.get(id)?;
            Ok(it.as_ref().is_at_rest().then_some(it))
        })
    }

    /// The error for what the state does not allow. If the object is another one than `before` the request, another request met it, or the same one
    /// that arrived twice: the next call sees what came of that.
    pub(crate) fn explain(self, before: &Object, error: Error) -> Error {
        if error.code != Code::InvalidArgument {
            return error;
        }
        let now: Option<Object> = match self.find(&before.id) {
            Ok(now) => now,
            Err(error) => return error,
        };
        let is_same = |now: &Object| now.is_at_rest() && now.updated_at == before.updated_at;
        forbidden(error, now.as_ref().is_some_and(is_same))
    }

    /// Deletes an object and waits until it is gone; false if there was none.
    pub(crate) fn remove(self, id: &str) -> Result<bool, Error> {
        let Ok(path) = self.path_of(id) else {
            return Ok(false);
        };
        if let Err(error) = send(http::delete("cinder", &path).idempotent()) {
            let it: Option<Object> = self.find(id)?;
            match it {
                None => return Ok(error.code != Code::NotFound),
                Some(it) if it.status == "deleting" => (),
                Some(it) => return Err(forbidden(error, it.is_at_rest())),
            }
        }
        self.gone(id).map(|()| true)
    }

    /// Waits until an object that is being deleted is gone.
    fn gone(self, id: &str) -> Result<(), Error> {
        poll::until(&self.called(id), || match self.find::<Object>(id)? {
            None => Ok(Some(())),
            Some(it) if it.is_failed() => Err(self.stuck(&it)),
            Some(_) => Ok(None),
        })
    }

    /// The error for a state that Cinder does not leave by itself, of an object that is not this call's to delete.
    pub(crate) fn stuck(self, it: &Object) -> Error {
        Error::unavailable(format!(
            "{} is in the state `{}`: let an administrator of Cinder reset it",
            self.called(&it.id),
            it.status
        ))
    }

    /// Deletes what this call, or one before it with the same arguments, has created. `aborted` while its state does not allow that, such as `creating`.
    pub(crate) fn undo(self, id: &str) -> Result<(), Error> {
        let request = http::delete("cinder", &self.path_of(id)?)
            .undo()
            .idempotent();
        let sent = Error::found(send(request)).map(drop);
        sent.map_err(|error| forbidden(error, false))
    }

    /// A page of all objects, those that are created meanwhile last.
    pub(crate) fn page<T: IsObject>(
        self,
        page: &PageRequest,
        volume: Option<&str>,
    ) -> Result<(Vec<T>, Option<String>), Error> {
        let request = self.details().query("sort", "created_at:asc");
        let request = request.page(page, "limit", "marker");
        let answer = Error::found(send(request.query_some("volume_id", volume)))?;
        let gone = || Error::aborted("the object before the page is gone: begin anew");
        let Many { many, links } = answer.ok_or_else(gone)?.json::<Many<T>>()?;
        // Fewer than were requested do not mean that these are the last.
        let next = many.last().filter(|_| !links.is_empty());
        let next = next.map(|it| it.as_ref().id.clone());
        Ok((many, next))
    }

    /// All attachments of a volume, in any state.
    pub(crate) fn of_volume(self, volume: &str) -> Result<Vec<Object>, Error> {
        let many: Many<Object> = send(self.details().query("volume_id", volume))?.json()?;
        Ok(many.many)
    }

    /// Objects of a name that are not being deleted, the first first.
    fn named<T: IsObject>(self, name: &str) -> Result<Vec<T>, Error> {
        let many: Many<T> = send(self.details().query("name", name))?.json()?;
        let mut named = many.many;
        named.retain(|it| {
            let it = it.as_ref();
            it.name.as_deref() == Some(name) && !it.status.ends_with("deleting")
        });
        named.sort_by_key(|it| (it.as_ref().created_at.clone(), it.as_ref().id.clone()));
        Ok(named)
    }

    fn details(self) -> Request {
        http::get("cinder", &format!("{}/detail", self.path))
    }

    /// Ids come from clients: another word would be another resource of the API.
    fn path_of(self, id: &str) -> Result<String, Error> {
        let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        if id.len() == ID_BYTES && id.bytes().all(is_id) {
            return Ok(format!("{}/{id}", self.path));
        }
        Err(Error::not_found(format!("no {} has such an id", self.name)))
    }

    fn called(self, id: &str) -> String {
        format!("the {} `{id}`", self.name)
    }
}

impl Object {
    /// Whether Cinder leaves the state by itself only if it is asked to.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.status.as_str(), "available" | "in-use") || self.is_failed()
    }

    pub(crate) fn created(&self) -> Option<SystemTime> {
        time(&self.created_at)
    }

    /// A value of its metadata.
    pub(crate) fn tag(&self, key: &str) -> Option<&String> {
        self.metadata.as_ref()?.get(key)
    }

    fn is_twin_of(&self, first: &Self, cluster: &str) -> bool {
        let own = self.tag(CLUSTER);
        let after = self.created().zip(first.created());
        let after = after.and_then(|(own, first)| own.duration_since(first).ok());
        own.is_some_and(|own| own == cluster) && after.is_some_and(|it| it < TWINS_WITHIN)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.status.starts_with("error") || self.status == NO_STATUS
    }
}

impl AsRef<Object> for Object {
    fn as_ref(&self) -> &Object {
        self
    }
}

/// Cinder's times are in UTC.
pub(crate) fn time(time: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(time).ok()
}

fn status<'d, D: Deserializer<'d>>(from: D) -> Result<String, D::Error> {
    let status = Option::<String>::deserialize(from)?;
    Ok(status.unwrap_or_else(|| NO_STATUS.to_owned()))
}

/// Of an object that is there. Cinder answers what a state does not allow like a wrong request, and a missing service like a missing object.
fn forbidden(error: Error, is_at_rest: bool) -> Error {
    let code = match (error.code, is_at_rest) {
        (Code::NotFound, _) => Code::Unavailable,
        (Code::InvalidArgument, true) => Code::FailedPrecondition,
        (Code::InvalidArgument, false) => Code::Aborted,
        (code, _) => code,
    };
    Error { code, ..error }
}

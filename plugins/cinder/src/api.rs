//! Cinder's API as far as a driver needs it, and what its failures mean.
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use wasmount_guest::{http::Request, *};

/// Of Cinder 20 (Yoga): snapshots of volumes in use, and paths without a project.
const MICROVERSION: &str = "volume 3.67";
/// 406 is an older Cinder; 413 is a quota, not a large request.
const CODES: [(u16, Code); 3] = [
    (406, Code::FailedPrecondition),
    (409, Code::Aborted),
    (413, Code::ResourceExhausted),
];
const ID_BYTES: usize = 36; // a UUID with its hyphens

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
    pub(crate) status: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pub(crate) created_at: String,
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
    #[serde(default, alias = "volumes_links", alias = "snapshots_links")]
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
        match self.get(id) {
            Err(error) if error.code == Code::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    pub(crate) fn create<T: DeserializeOwned>(self, body: Value) -> Result<T, Error> {
        let request = http::post("cinder", self.path).json(&json!({ self.name: body }));
        let one: One<T> = send(request)?.json()?;
        Ok(one.one)
    }

    /// The object of a name; creates it if there is none. Cinder accepts a name twice, so the request that came later takes back what it created.
    pub(crate) fn create_once<T: IsObject>(
        self,
        name: &str,
        body: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<T, Error> {
        if let Some(known) = self.named(name)?.into_iter().next() {
            return Ok(known);
        }
        let Created { id } = self.create(body()?)?;
        let mut all: Vec<T> = self.named(name)?;
        let own = all.iter().position(|it| it.as_ref().id == id);
        let own = own.ok_or_else(|| Error::aborted("what was created is gone: create it again"))?;
        let own = all.swap_remove(own);
        let is_first = |it: &T| it.as_ref().created_at <= own.as_ref().created_at;
        if all.iter().any(is_first) {
            self.undo(&id)?;
            return Err(Error::aborted(format!(
                "`{name}` was created twice at once"
            )));
        }
        Ok(own)
    }

    pub(crate) fn act(self, it: &Object, action: &Value) -> Result<(), Error> {
        let path = format!("{}/action", self.path_of(&it.id)?);
        let sent = send(http::post("cinder", &path).json(action));
        sent.map(drop).map_err(|error| it.explain(error))
    }

    /// Waits until Cinder is done with an object.
    pub(crate) fn at_rest<T: IsObject>(self, id: &str) -> Result<T, Error> {
        poll::until(&self.called(id), || {
            let it: T = self.get(id)?;
            Ok(it.as_ref().is_at_rest().then_some(it))
        })
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
                Some(it) => return Err(it.explain(error)),
            }
        }
        poll::until(&self.called(id), || match self.find::<Object>(id)? {
            None => Ok(Some(true)),
            Some(it) if it.is_failed() => Err(Error::unavailable(format!(
                "{} is in the state `{}`: let an administrator of Cinder reset it",
                self.called(id),
                it.status
            ))),
            Some(_) => Ok(None),
        })
    }

    /// Deletes what this call, or one before it with the same arguments, has created.
    pub(crate) fn undo(self, id: &str) -> Result<(), Error> {
        let request = http::delete("cinder", &self.path_of(id)?)
            .undo()
            .idempotent();
        match send(request) {
            Err(error) if error.code != Code::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A page of all objects, those that are created meanwhile last.
    pub(crate) fn page<T: IsObject>(
        self,
        page: &PageRequest,
        volume: Option<&str>,
    ) -> Result<(Vec<T>, Option<String>), Error> {
        let mut request = self.details().query("sort", "created_at:asc");
        for (name, value) in [
            ("limit", page.max_entries.map(|it| it.to_string())),
            ("marker", page.starting_token.clone()),
            ("volume_id", volume.map(str::to_owned)),
        ] {
            request = value
                .into_iter()
                .fold(request, |it, value| it.query(name, value));
        }
        let Many { many, links } = match send(request) {
            Err(error) if error.code == Code::NotFound => {
                return Err(Error::aborted(
                    "the object before the page is gone: begin anew",
                ));
            }
            sent => sent?.json::<Many<T>>()?,
        };
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

    pub(crate) fn is_failed(&self) -> bool {
        self.status.starts_with("error")
    }

    /// The error for what the state does not allow, which Cinder answers like a wrong request.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let code = match error.code {
            Code::InvalidArgument if self.is_at_rest() => Code::FailedPrecondition,
            Code::InvalidArgument => Code::Aborted,
            code => code,
        };
        Error { code, ..error }
    }
}

impl AsRef<Object> for Object {
    fn as_ref(&self) -> &Object {
        self
    }
}

//! What an array holds: the decisions, without HTTP.

use super::{ArrayOptions, PASSWORD, TOKEN_PREFIX, USER};
use axum::http::StatusCode;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What was done to an array, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Successful logins.
    pub logins: usize,
    /// Refused logins.
    pub refused_logins: usize,
    /// Sessions that are neither logged out nor expired.
    pub sessions: usize,
    /// Connections that were accepted.
    pub connections: usize,
    /// Volumes that were created, including those that are gone.
    pub created: usize,
    /// Names of the volumes that exist.
    pub volumes: Vec<String>,
    /// Names of the snapshots that exist.
    pub snapshots: Vec<String>,
    /// Attachments that exist: volume id and host.
    pub attachments: Vec<(String, String)>,
}

/// A volume or a snapshot, as it is answered.
#[derive(Debug, Clone, Serialize)]
pub struct Object {
    /// Chosen by the array.
    pub id: String,
    /// Unique among volumes, and among snapshots.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// `creating`, then `ready`.
    pub state: &'static str,
    /// The volume's snapshot, or the snapshot's volume.
    pub source: Option<String>,
    /// Seconds since 1970.
    pub created: u64,
    /// The host that it is attached to.
    pub host: Option<String>,
}

/// Why something was not done: a status and a sentence.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) &'static str);

#[derive(Debug)]
struct Record {
    object: Object,
    ready: Instant,
    readonly: bool,
}

#[derive(Debug)]
pub(super) struct Store {
    options: ArrayOptions,
    volumes: BTreeMap<String, Record>,
    snapshots: BTreeMap<String, Record>,
    tokens: BTreeSet<String>,
    logins: usize,
    refused_logins: usize,
    created: usize,
    /// For ids.
    last: u64,
}

impl Store {
    pub(super) fn new(options: ArrayOptions) -> Self {
        Self {
            options,
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            tokens: BTreeSet::new(),
            logins: 0,
            refused_logins: 0,
            created: 0,
            last: 0,
        }
    }

    pub(super) fn counts(&self, connections: usize) -> Counts {
        let names = |records: &BTreeMap<String, Record>| {
            records.values().map(|it| it.object.name.clone()).collect()
        };
        let attached = |(id, it): (&String, &Record)| Some((id.clone(), it.object.host.clone()?));
        Counts {
            logins: self.logins,
            refused_logins: self.refused_logins,
            sessions: self.tokens.len(),
            connections,
            created: self.created,
            volumes: names(&self.volumes),
            snapshots: names(&self.snapshots),
            attachments: self.volumes.iter().filter_map(attached).collect(),
        }
    }

    pub(super) fn expire_sessions(&mut self) {
        self.tokens.clear();
    }

    pub(super) fn login(&mut self, user: &str, password: &str) -> Result<String, Refusal> {
        if (user, password) != (USER, PASSWORD) {
            self.refused_logins += 1;
            return Err(Refusal(StatusCode::UNAUTHORIZED, "wrong user or password"));
        }
        self.logins += 1;
        let token = format!("{TOKEN_PREFIX}{}", self.next());
        self.tokens.insert(token.clone());
        Ok(token)
    }

    pub(super) fn logout(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    pub(super) fn has_session(&self, token: &str) -> bool {
        self.tokens.contains(token)
    }

    /// The entries after `marker`, in the order of their ids, and whether there are more.
    pub(super) fn list(
        &self,
        kind: Kind,
        name: Option<&str>,
        source: Option<&str>,
        marker: &str,
        limit: usize,
    ) -> (Vec<Object>, bool) {
        let records = self.of(kind).iter().filter(|(id, record)| {
            id.as_str() > marker
                && name.is_none_or(|name| record.object.name == name)
                && source.is_none_or(|id| record.object.source.as_deref() == Some(id))
        });
        let mut found: Vec<_> = records
            .take(limit + 1)
            .map(|(_, record)| record.shown())
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        (found, more)
    }

    pub(super) fn get(&self, kind: Kind, id: &str) -> Result<Object, Refusal> {
        let found = self.of(kind).get(id);
        found.map(Record::shown).ok_or_else(missing)
    }

    pub(super) fn create_volume(
        &mut self,
        name: &str,
        bytes: u64,
        snapshot: Option<String>,
    ) -> Result<Object, Refusal> {
        if is_named(&self.volumes, name) {
            return Err(Refusal(StatusCode::CONFLICT, "the name is in use"));
        }
        let source = snapshot.as_deref().map(|id| self.get(Kind::Snapshot, id));
        let source_bytes = source.transpose()?.map_or(0, |source| source.bytes);
        if bytes == 0 || bytes < source_bytes {
            return Err(Refusal(
                StatusCode::UNPROCESSABLE_ENTITY,
                "a volume is as large as its source at least",
            ));
        }
        if bytes > self.free_bytes() {
            return Err(Refusal(
                StatusCode::INSUFFICIENT_STORAGE,
                "the pool is full",
            ));
        }
        self.created += 1;
        let id = format!("vol-{:08}", self.next());
        let record = self.record(&id, name, bytes, snapshot);
        let shown = record.shown();
        self.volumes.insert(id, record);
        Ok(shown)
    }

    pub(super) fn create_snapshot(&mut self, name: &str, volume: &str) -> Result<Object, Refusal> {
        if is_named(&self.snapshots, name) {
            return Err(Refusal(StatusCode::CONFLICT, "the name is in use"));
        }
        let bytes = self.get(Kind::Volume, volume)?.bytes;
        let id = format!("snap-{:08}", self.next());
        let record = self.record(&id, name, bytes, Some(volume.to_owned()));
        let shown = record.shown();
        self.snapshots.insert(id, record);
        Ok(shown)
    }

    pub(super) fn grow(&mut self, id: &str, bytes: u64) -> Result<Object, Refusal> {
        let free = self.free_bytes();
        let record = self.volumes.get_mut(id).ok_or_else(missing)?;
        let more = bytes.checked_sub(record.object.bytes).ok_or(Refusal(
            StatusCode::UNPROCESSABLE_ENTITY,
            "a volume never shrinks",
        ))?;
        if more > free {
            return Err(Refusal(
                StatusCode::INSUFFICIENT_STORAGE,
                "the pool is full",
            ));
        }
        record.object.bytes = bytes;
        Ok(record.shown())
    }

    pub(super) fn delete_volume(&mut self, id: &str) -> Result<(), Refusal> {
        let record = self.volumes.get(id).ok_or_else(missing)?;
        if record.object.host.is_some() {
            return Err(Refusal(StatusCode::CONFLICT, "the volume is attached"));
        }
        self.volumes.remove(id);
        Ok(())
    }

    pub(super) fn delete_snapshot(&mut self, id: &str) -> Result<(), Refusal> {
        self.snapshots.remove(id).map(drop).ok_or_else(missing)
    }

    /// Attaches to a host, again with the same arguments or not at all.
    pub(super) fn attach(
        &mut self,
        id: &str,
        host: &str,
        readonly: bool,
    ) -> Result<Object, Refusal> {
        let is_known = self.options.hosts.iter().any(|known| known == host);
        let record = self.volumes.get_mut(id).ok_or_else(missing)?;
        if !is_known {
            return Err(Refusal(StatusCode::NOT_FOUND, "no such host"));
        }
        match record.object.host.as_deref() {
            Some(other) if other != host => Err(Refusal(
                StatusCode::LOCKED,
                "the volume is attached to another host",
            )),
            Some(_) if record.readonly != readonly => Err(Refusal(
                StatusCode::CONFLICT,
                "the volume is attached in another mode",
            )),
            _ => {
                record.object.host = Some(host.to_owned());
                record.readonly = readonly;
                Ok(record.shown())
            }
        }
    }

    /// Detaches from a host, or from all.
    pub(super) fn detach(&mut self, id: &str, host: Option<&str>) -> Result<(), Refusal> {
        let record = self.volumes.get_mut(id).ok_or_else(missing)?;
        let attached = record
            .object
            .host
            .take_if(|it| host.is_none_or(|host| host == it));
        match (attached, host) {
            (None, Some(_)) => Err(missing()),
            _ => Ok(()),
        }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let used = self.volumes.values().map(|it| it.object.bytes).sum();
        self.options.total_bytes.saturating_sub(used)
    }

    fn of(&self, kind: Kind) -> &BTreeMap<String, Record> {
        match kind {
            Kind::Volume => &self.volumes,
            Kind::Snapshot => &self.snapshots,
        }
    }

    fn record(&self, id: &str, name: &str, bytes: u64, source: Option<String>) -> Record {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Record {
            object: Object {
                id: id.to_owned(),
                name: name.to_owned(),
                bytes,
                state: "creating",
                source,
                created: since.as_ref().map_or(0, Duration::as_secs),
                host: None,
            },
            ready: Instant::now() + self.options.job,
            readonly: false,
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// What is listed and looked up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Volume,
    Snapshot,
}

impl Record {
    fn shown(&self) -> Object {
        let is_ready = Instant::now() >= self.ready;
        let state = if is_ready { "ready" } else { "creating" };
        Object {
            state,
            ..self.object.clone()
        }
    }
}

fn is_named(records: &BTreeMap<String, Record>, name: &str) -> bool {
    records.values().any(|record| record.object.name == name)
}

fn missing() -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "no such object")
}

#[cfg(test)]
mod tests;

//! What an array holds: the decisions, without HTTP, files and targets.

mod hosts;

use crate::options::{ArrayOptions, TOKEN_PREFIX};
use crate::records::{Counts, Host, Kind, Mode, NewVolume, Object, Qos, Record, State};
use crate::refusal::{Answer, Refusal, conflict, full, missing, unprocessable};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// LUNs of a target; LIO shows a device of its own as LUN 0.
const FIRST_LUN: u16 = 1;
const LAST_LUN: u16 = 255;

/// Longest name of a volume, a snapshot or a host, in bytes.
const NAME_BYTES: usize = 128;

/// The records, and what only a running array knows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Store {
    /// Chosen once: it is a part of the names that hosts see.
    id: String,
    volumes: BTreeMap<String, Record>,
    snapshots: BTreeMap<String, Record>,
    hosts: BTreeMap<String, Host>,
    /// For ids.
    last: u64,
    #[serde(skip)]
    options: ArrayOptions,
    #[serde(skip)]
    tokens: BTreeSet<String>,
    #[serde(skip)]
    logins: usize,
    #[serde(skip)]
    refused_logins: usize,
    #[serde(skip)]
    created: usize,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            id: serial(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            hosts: BTreeMap::new(),
            last: 0,
            options: ArrayOptions::default(),
            tokens: BTreeSet::new(),
            logins: 0,
            refused_logins: 0,
            created: 0,
        }
    }

    /// The same with these options, whose hosts are known from now on.
    pub(crate) fn with(mut self, options: ArrayOptions) -> Self {
        for host in &options.hosts {
            self.hosts.entry(host.clone()).or_default();
        }
        Self { options, ..self }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn counts(&self, connections: usize) -> Counts {
        let names = |records: &BTreeMap<String, Record>| {
            records.values().map(|it| it.object.name.clone()).collect()
        };
        let attached = |(id, it): (&String, &Record)| {
            let hosts: Vec<_> = it
                .luns
                .keys()
                .map(|host| (id.clone(), host.clone()))
                .collect();
            hosts
        };
        Counts {
            logins: self.logins,
            refused_logins: self.refused_logins,
            sessions: self.tokens.len(),
            connections,
            created: self.created,
            volumes: names(&self.volumes),
            snapshots: names(&self.snapshots),
            hosts: self.hosts.keys().cloned().collect(),
            attachments: self.volumes.iter().flat_map(attached).collect(),
        }
    }

    pub(crate) fn expire_sessions(&mut self) {
        self.tokens.clear();
    }

    pub(crate) fn login(&mut self, user: &str, password: &str) -> Answer<String> {
        if (user, password) != (&self.options.user, self.options.password.reveal()) {
            self.refused_logins += 1;
            let why = "wrong user or password";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
        }
        self.logins += 1;
        let token = format!("{TOKEN_PREFIX}{}", serial());
        self.tokens.insert(token.clone());
        Ok(token)
    }

    pub(crate) fn logout(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    pub(crate) fn has_session(&self, token: &str) -> bool {
        self.tokens.contains(token)
    }

    /// The entries after `marker`, in the order of their ids, and whether there are more.
    pub(crate) fn list(
        &self,
        kind: Kind,
        name: Option<&str>,
        source: Option<&str>,
        marker: &str,
        limit: usize,
    ) -> (Vec<&Record>, bool) {
        let records = self.of(kind).iter().filter(|(id, record)| {
            id.as_str() > marker
                && name.is_none_or(|name| record.object.name == name)
                && source.is_none_or(|id| record.object.source.as_deref() == Some(id))
        });
        let mut found: Vec<_> = records
            .take(limit.saturating_add(1))
            .map(|(_, it)| it)
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        (found, more)
    }

    pub(crate) fn get(&self, kind: Kind, id: &str) -> Answer<&Record> {
        self.of(kind).get(id).ok_or_else(missing)
    }

    pub(crate) fn create_volume(&mut self, new: NewVolume) -> Answer<Object> {
        check_name(&new.name)?;
        if is_named(&self.volumes, &new.name) {
            return Err(conflict("the name is in use"));
        }
        let source = match (&new.snapshot, &new.volume) {
            (None, None) => None,
            (Some(id), None) => Some(self.usable(Kind::Snapshot, id)?),
            (None, Some(id)) => Some(self.usable(Kind::Volume, id)?),
            (Some(_), Some(_)) => return Err(unprocessable("a volume has one source at most")),
        };
        let source_bytes = source.map_or(0, |source| source.bytes);
        if new.bytes == 0 || new.bytes < source_bytes {
            return Err(unprocessable("a volume is as large as its source at least"));
        }
        if self.volumes.len() >= self.options.most_volumes {
            return Err(full("the array has as many volumes as it may"));
        }
        if new.bytes > self.free_bytes() {
            return Err(full("the pool is full"));
        }
        self.created += 1;
        let id = format!("vol-{:08}", self.next());
        let source = new.snapshot.or(new.volume);
        let mut record = self.record(&id, new.name, new.bytes, source);
        record.object.qos = new.qos;
        let shown = record.shown();
        self.volumes.insert(id, record);
        Ok(shown)
    }

    pub(crate) fn create_snapshot(&mut self, name: String, volume: &str) -> Answer<Object> {
        check_name(&name)?;
        if is_named(&self.snapshots, &name) {
            return Err(conflict("the name is in use"));
        }
        let bytes = self.usable(Kind::Volume, volume)?.bytes;
        let id = format!("snap-{:08}", self.next());
        let record = self.record(&id, name, bytes, Some(volume.to_owned()));
        let shown = record.shown();
        self.snapshots.insert(id, record);
        Ok(shown)
    }

    /// Says what became of the job of a volume or a snapshot; not if that is gone.
    pub(crate) fn set_state(&mut self, id: &str, state: State) {
        let both = [&mut self.volumes, &mut self.snapshots];
        for record in both.into_iter().filter_map(|it| it.get_mut(id)) {
            record.object.state = state;
        }
    }

    pub(crate) fn change(
        &mut self,
        id: &str,
        bytes: Option<u64>,
        qos: Option<Qos>,
    ) -> Answer<Object> {
        let free = self.free_bytes();
        self.unused(id)?;
        let record = self.volumes.get_mut(id).ok_or_else(missing)?;
        let bytes = bytes.unwrap_or(record.object.bytes);
        let more = bytes
            .checked_sub(record.object.bytes)
            .ok_or_else(|| unprocessable("a volume never shrinks"))?;
        if more > free {
            return Err(full("the pool is full"));
        }
        record.object.bytes = bytes;
        record.object.qos = qos.unwrap_or(record.object.qos);
        Ok(record.shown())
    }

    pub(crate) fn delete(&mut self, kind: Kind, id: &str) -> Answer<()> {
        let record = self.get(kind, id)?;
        if !record.luns.is_empty() {
            return Err(conflict("the volume is attached"));
        }
        if record.object.state == State::Creating {
            return Err(conflict("it is being made"));
        }
        self.unused(id)?;
        self.forget(id);
        Ok(())
    }

    /// Removes the record, whatever its state: its creation failed.
    pub(crate) fn forget(&mut self, id: &str) {
        self.volumes.remove(id);
        self.snapshots.remove(id);
    }

    /// Attaches to a host, again with the same arguments or not at all.
    pub(crate) fn attach(&mut self, id: &str, host: &str, mode: Mode) -> Answer<&Record> {
        let is_known = self.hosts.contains_key(host);
        let lun = self.free_lun();
        self.get(Kind::Volume, id)?;
        if !is_known {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "no such host"));
        }
        self.usable(Kind::Volume, id)?;
        self.unused(id)?;
        let record = self.volumes.get_mut(id).ok_or_else(missing)?;
        let (is_free, is_here) = (record.luns.is_empty(), record.luns.contains_key(host));
        let now = Mode {
            readonly: record.readonly,
            shared: record.shared,
        };
        let may_have_it = is_free || is_here || (now.shared && mode.shared);
        if !may_have_it {
            return Err(Refusal::new(
                StatusCode::LOCKED,
                "the volume is attached to another host",
            ));
        }
        if !is_free && now != mode {
            return Err(conflict("the volume is attached in another mode"));
        }
        if !is_here {
            let lun = lun.ok_or_else(|| full("all LUNs of the target are in use"))?;
            record.luns.insert(host.to_owned(), lun);
            (record.readonly, record.shared) = (mode.readonly, mode.shared);
        }
        Ok(record)
    }

    /// Fails if a volume is attached to another host than this one, or to none.
    pub(crate) fn check_attached(&self, id: &str, host: Option<&str>) -> Answer<()> {
        let luns = &self.get(Kind::Volume, id)?.luns;
        match host.is_none_or(|host| luns.contains_key(host)) {
            true => Ok(()),
            false => Err(missing()),
        }
    }

    pub(crate) fn detach(&mut self, id: &str, host: &str) {
        if let Some(record) = self.volumes.get_mut(id) {
            record.luns.remove(host);
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        let used = self.volumes.values().map(|it| it.object.bytes).sum();
        self.options.total_bytes.saturating_sub(used)
    }

    /// All records of a kind.
    pub(crate) fn of(&self, kind: Kind) -> &BTreeMap<String, Record> {
        match kind {
            Kind::Volume => &self.volumes,
            Kind::Snapshot => &self.snapshots,
        }
    }

    /// What can be used as a source, or attached.
    fn usable(&self, kind: Kind, id: &str) -> Answer<Object> {
        let object = self.get(kind, id)?.shown();
        match object.state {
            State::Ready => Ok(object),
            State::Creating => Err(conflict("it is being made")),
            State::Error => Err(conflict("its creation failed: delete it")),
        }
    }

    /// Fails while a copy of it is made.
    fn unused(&self, id: &str) -> Answer<()> {
        let mut all = self.volumes.values().chain(self.snapshots.values());
        let is_copied = |it: &Record| {
            it.object.state == State::Creating && it.object.source.as_deref() == Some(id)
        };
        match all.any(is_copied) {
            true => Err(conflict("a copy of it is being made")),
            false => Ok(()),
        }
    }

    fn free_lun(&self) -> Option<u16> {
        let volumes = self.volumes.values();
        let used: BTreeSet<_> = volumes.flat_map(|it| it.luns.values().copied()).collect();
        (FIRST_LUN..=LAST_LUN).find(|lun| !used.contains(lun))
    }

    fn record(&self, id: &str, name: String, bytes: u64, source: Option<String>) -> Record {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Record {
            object: Object {
                id: id.to_owned(),
                name,
                bytes,
                state: State::Ready,
                source,
                created: since.as_ref().map_or(0, Duration::as_secs),
                hosts: Vec::new(),
                qos: Qos::default(),
                connection: None,
            },
            serial: serial(),
            readonly: false,
            shared: false,
            luns: BTreeMap::new(),
            ready: Instant::now().checked_add(self.options.job),
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// 32 hexadecimal digits that were never there before.
fn serial() -> String {
    Uuid::new_v4().simple().to_string()
}

fn is_named(records: &BTreeMap<String, Record>, name: &str) -> bool {
    records.values().any(|record| record.object.name == name)
}

fn check_name(name: &str) -> Answer<()> {
    match name.is_empty() || name.len() > NAME_BYTES || name.contains(char::is_control) {
        true => Err(unprocessable("a name has 1 to 128 bytes, in one line")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;

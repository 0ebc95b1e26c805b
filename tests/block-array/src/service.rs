//! One array: its records together with the files and the target that follow from them.

use crate::data_path::{DataPath, Lio, Nvmet};
use crate::faults::Faults;
use crate::files::Files;
use crate::options::{ArrayOptions, Protocol};
use crate::records::{Attachment, Host, Kind, Mode, NewVolume, Object, Qos, Record, State};
use crate::refusal::{Answer, conflict, missing, unprocessable};
use crate::store::Store;
use std::path::PathBuf;
use xtask::failure::Failure;

/// An array that works.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    files: Option<Files>,
    data_path: Option<Box<dyn DataPath>>,
}

/// A copy that takes long, and is made without the lock of the array.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Of the new volume or snapshot.
    pub(crate) id: String,
    from: PathBuf,
    to: PathBuf,
    bytes: u64,
}

impl Copy {
    /// Makes it; what it became.
    pub(crate) fn make(&self) -> State {
        match Files::copy(&self.from, &self.to, self.bytes) {
            Ok(()) => State::Ready,
            Err(failure) => {
                xtask::say::failure(&failure);
                State::Error
            }
        }
    }
}

impl Service {
    /// Goes on where an earlier run ended: with its records, a new target, and the copies that it did not end.
    pub(crate) fn start(options: ArrayOptions) -> Result<(Self, Vec<Copy>), Failure> {
        let files = options.directory.as_deref().map(Files::open).transpose()?;
        let known = files.as_ref().map(Files::load).transpose()?.flatten();
        let store = known.unwrap_or_else(Store::new).with(options.clone());
        let data_path: Option<Box<dyn DataPath>> = match (options.protocol, &files) {
            (Protocol::Iscsi(portals), Some(files)) => {
                Some(Box::new(Lio::new(store.id(), portals, files.contents())))
            }
            (Protocol::NvmeTcp(portals), Some(files)) => {
                Some(Box::new(Nvmet::new(store.id(), portals, files.contents())))
            }
            _ => None,
        };
        let service = Self {
            store,
            faults: Faults::default(),
            files,
            data_path,
        };
        service.save()?;
        if let Some(files) = &service.files {
            let is_known = |id: &str| service.record(id).is_some();
            files.keep_only(is_known)?;
        }
        service.restore().inspect_err(|_| {
            let _ = service.stop();
        })?;
        let copies = service.unfinished();
        Ok((service, copies))
    }

    /// Removes the target; hosts lose their paths until the next start.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        let target = self.data_path.as_deref();
        target.map_or(Ok(()), DataPath::stop)
    }

    pub(crate) fn get(&self, kind: Kind, id: &str) -> Answer<Object> {
        self.store.get(kind, id).map(|record| self.shown(record))
    }

    /// A record as it is answered, with the way to a volume that has one host.
    pub(crate) fn shown(&self, record: &Record) -> Object {
        let sole = record
            .luns
            .values()
            .next()
            .filter(|_| record.luns.len() == 1);
        self.shown_at(record, sole.copied())
    }

    /// The same with the way to this LUN.
    fn shown_at(&self, record: &Record, lun: Option<u16>) -> Object {
        let way = self.data_path.as_ref().zip(lun);
        let id = &record.object.id;
        Object {
            connection: way.map(|(target, lun)| target.connection(id, &record.serial, lun)),
            ..record.shown()
        }
    }

    pub(crate) fn create_volume(&mut self, new: NewVolume) -> Answer<(Object, Option<Copy>)> {
        let object = self.store.create_volume(new)?;
        self.fill(object)
    }

    pub(crate) fn create_snapshot(
        &mut self,
        name: String,
        volume: &str,
    ) -> Answer<(Object, Option<Copy>)> {
        let object = self.store.create_snapshot(name, volume)?;
        self.fill(object)
    }

    /// Makes the file of a new record; undoes all if it cannot.
    fn fill(&mut self, object: Object) -> Answer<(Object, Option<Copy>)> {
        let id = object.id.clone();
        let filled = self.try_fill(object).and_then(|filled| {
            self.save()?;
            Ok(filled)
        });
        filled.inspect_err(|_| {
            self.store.forget(&id);
            let _ = self.files.as_ref().map(|files| files.remove(&id));
        })
    }

    fn try_fill(&mut self, mut object: Object) -> Answer<(Object, Option<Copy>)> {
        if self.faults.fail_jobs {
            self.store.set_state(&object.id, State::Error);
            object.state = State::Error;
            return Ok((object, None));
        }
        let Some(files) = &self.files else {
            return Ok((object, None));
        };
        let Some(source) = &object.source else {
            files.create(&object.id, object.bytes)?;
            return Ok((object, None));
        };
        if files.share(source, &object.id, object.bytes)? {
            return Ok((object, None));
        }
        let is_attached = self.record(source).is_some_and(|it| !it.luns.is_empty());
        if is_attached {
            return Err(conflict(
                "the volume is attached, and the file system of the array shares no blocks: detach the volume, or keep the array on xfs or btrfs",
            ));
        }
        self.store.set_state(&object.id, State::Creating);
        object.state = State::Creating;
        let copy = self.copy(&object);
        Ok((object, copy))
    }

    /// Notes what became of a copy.
    pub(crate) fn end_copy(&mut self, id: &str, state: State) -> Result<(), Failure> {
        self.store.set_state(id, state);
        self.save()
    }

    pub(crate) fn change(
        &mut self,
        id: &str,
        bytes: Option<u64>,
        qos: Option<Qos>,
    ) -> Answer<Object> {
        self.store.change(id, bytes, qos)?;
        let record = self.store.get(Kind::Volume, id)?;
        if let (Some(files), Some(_)) = (&self.files, bytes) {
            files.grow(id, record.object.bytes)?;
            if let (Some(target), false) = (&self.data_path, record.luns.is_empty()) {
                target.grow(id)?;
            }
        }
        self.save()?;
        self.get(Kind::Volume, id)
    }

    pub(crate) fn delete(&mut self, kind: Kind, id: &str) -> Answer<()> {
        self.store.delete(kind, id)?;
        self.save()?;
        let _ = self.files.as_ref().map(|files| files.remove(id));
        Ok(())
    }

    pub(crate) fn attach(&mut self, id: &str, name: &str, mode: Mode) -> Answer<Object> {
        let was = self.lun(id, name);
        if let (Some(target), Ok(host)) = (&self.data_path, self.store.host(name))
            && target.initiator(host).is_none()
        {
            let why = "the host has no initiator: register it with `iqn` or `nqn`, as the protocol of this array needs";
            return Err(unprocessable(why));
        }
        self.store.attach(id, name, mode)?;
        if was.is_none() {
            let done = self.connect(id, name).and_then(|()| self.save());
            done.inspect_err(|_| {
                let _ = self.disconnect(id, name);
                self.store.detach(id, name);
            })?;
        }
        let record = self.store.get(Kind::Volume, id)?;
        Ok(self.shown_at(record, self.lun(id, name)))
    }

    /// Detaches from a host, or from whatever host it is attached to.
    pub(crate) fn detach(&mut self, id: &str, host: Option<&str>) -> Answer<()> {
        self.store.check_attached(id, host)?;
        let all = self.hosts_of(id);
        let hosts = all.iter().map(String::as_str);
        for host in hosts.filter(|it| host.is_none_or(|host| host == *it)) {
            self.disconnect(id, host)?;
            self.store.detach(id, host);
        }
        Ok(self.save()?)
    }

    /// Registers a host, or changes what is named of it.
    pub(crate) fn put_host(&mut self, name: &str, new: Host) -> Answer<Host> {
        let before = self.store.host(name).cloned().unwrap_or_default();
        let host = Host {
            iqn: new.iqn.or_else(|| before.iqn.clone()),
            nqn: new.nqn.or_else(|| before.nqn.clone()),
            chap: new.chap.or_else(|| before.chap.clone()),
            dhchap_key: new.dhchap_key.or_else(|| before.dhchap_key.clone()),
        };
        self.store.put_host(name, host.clone())?;
        if let Some(target) = &self.data_path {
            let (old, new) = (target.initiator(&before), target.initiator(&host));
            if let Some(old) = old.filter(|_| old != new) {
                target.dismiss(old)?;
            }
            if let Some(new) = new {
                target.admit(new, &host)?;
            }
        }
        self.save()?;
        Ok(host)
    }

    pub(crate) fn delete_host(&mut self, name: &str) -> Answer<()> {
        let host = self.store.delete_host(name)?;
        if let Some(target) = &self.data_path
            && let Some(initiator) = target.initiator(&host)
        {
            target.dismiss(initiator)?;
        }
        Ok(self.save()?)
    }

    /// Switches a portal on or off.
    pub(crate) fn set_portal(&mut self, index: usize, is_up: bool) -> Answer<()> {
        let target = self.data_path.as_ref().ok_or_else(missing)?;
        if index >= target.portals() {
            return Err(missing());
        }
        Ok(target.set_portal(index, is_up)?)
    }

    fn connect(&self, id: &str, name: &str) -> Result<(), Failure> {
        let record = self.record(id);
        let host = self.store.host(name).ok();
        let (Some(target), Some(files)) = (&self.data_path, &self.files) else {
            return Ok(());
        };
        let initiator = host.and_then(|host| target.initiator(host));
        match (record, self.lun(id, name), initiator) {
            (Some(record), Some(lun), Some(initiator)) => target.attach(
                &files.path(id),
                &Attachment {
                    id,
                    serial: &record.serial,
                    lun,
                    initiator,
                    readonly: record.readonly,
                    dhchap_key: host.and_then(|it| it.dhchap_key.as_ref()),
                },
            ),
            _ => Ok(()),
        }
    }

    fn disconnect(&self, id: &str, host: &str) -> Result<(), Failure> {
        let is_last = self.hosts_of(id).len() == 1;
        match (&self.data_path, self.lun(id, host)) {
            (Some(target), Some(lun)) => target.detach(id, lun, is_last),
            _ => Ok(()),
        }
    }

    /// The LUN of a volume that is attached to a host.
    fn lun(&self, id: &str, host: &str) -> Option<u16> {
        self.record(id)?.luns.get(host).copied()
    }

    fn hosts_of(&self, id: &str) -> Vec<String> {
        let record = self.record(id).into_iter();
        record.flat_map(|it| it.luns.keys().cloned()).collect()
    }

    /// Makes the target again, with its hosts and attached volumes.
    fn restore(&self) -> Result<(), Failure> {
        let Some(target) = &self.data_path else {
            return Ok(());
        };
        target.start()?;
        for (_, host) in self.store.hosts() {
            if let Some(initiator) = target.initiator(host) {
                target.admit(initiator, host)?;
            }
        }
        for id in self.store.of(Kind::Volume).keys() {
            let hosts = self.hosts_of(id);
            hosts.iter().try_for_each(|host| self.connect(id, host))?;
        }
        target.open()
    }

    fn unfinished(&self) -> Vec<Copy> {
        let kinds = [Kind::Volume, Kind::Snapshot];
        let all = kinds
            .into_iter()
            .flat_map(|kind| self.store.of(kind).values());
        let objects = all.map(|record| &record.object);
        let creating = objects.filter(|object| object.state == State::Creating);
        creating.filter_map(|object| self.copy(object)).collect()
    }

    fn copy(&self, object: &Object) -> Option<Copy> {
        let files = self.files.as_ref()?;
        Some(Copy {
            id: object.id.clone(),
            from: files.path(object.source.as_deref()?),
            to: files.path(&object.id),
            bytes: object.bytes,
        })
    }

    fn record(&self, id: &str) -> Option<&Record> {
        let kinds = [Kind::Volume, Kind::Snapshot];
        kinds
            .into_iter()
            .find_map(|kind| self.store.of(kind).get(id))
    }

    fn save(&self) -> Result<(), Failure> {
        let save = |files: &Files| files.save(&self.store);
        self.files.as_ref().map_or(Ok(()), save)
    }
}

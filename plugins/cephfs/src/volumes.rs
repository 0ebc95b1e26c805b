//! Volumes. Ceph knows which there are and how large; a record keeps what it does not tell: of what a volume is a copy, and which volumes are this
//! driver's. The record is written first, and completed when the volume is.
use crate::api::{Info, State, Subvolume, available};
use crate::class::Class;
use crate::client;
use crate::node::{KEY_OF_VOLUME, USER_OF_VOLUME};
use crate::snapshots::{SNAPSHOTS, SnapshotId};
use crate::{CephFs, Settings};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const VOLUMES: state::Collection<Record, 1> = state::Collection::new("volume");
/// The unit in which the kernel's client shows a quota (CEPH_BLOCK_SHIFT), and ceph-csi rounds.
const UNIT_BYTES: u64 = 4 << 20;
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const CLONE_PREFIX: &str = "csi-clone-"; // of the snapshot between a volume and its clone

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    id: String,
    source: Option<ContentSource>,
    options: Option<String>, // of its mounts
    #[serde(default)] // records of versions without it
    has_client: bool,
    complete: Option<Complete>, // none: still being made
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Complete {
    bytes: u64,
    path: String,
    #[serde(default)]
    sealed_key: Option<String>, // of its client
}

/// The snapshot that a volume is copied from.
struct Source {
    subvolume: Subvolume,
    snapshot: String,
    /// Taken for this copy alone.
    is_temporary: bool,
}

impl Controller for CephFs {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let settings = Settings::read()?;
        mounts(&args.capabilities)?;
        args.mutable_parameters.only(&[])?;
        let class = Class::read(&args.parameters, &settings)?;
        let subvolume = class.subvolume(&args.name, &settings)?;
        let range = args.capacity.in_blocks(UNIT_BYTES);
        let source = args.content_source.as_ref();
        let source = source.map(|it| Source::of(it, &subvolume)).transpose()?;
        let key = VOLUMES.id(&subvolume.id());
        let mut state = subvolume.state()?;
        let is_absent = matches!(state, State::Absent);
        // A record without a subvolume is left of an earlier volume.
        let known = VOLUMES.find(&key)?.filter(|_| !is_absent);
        let is_new = is_absent || known.as_ref().is_some_and(|it| it.complete.is_none());
        if known
            .as_ref()
            .is_some_and(|it| it.source != args.content_source)
        {
            let what = "a volume of another source has this name";
            return Err(Error::already_exists(what));
        }
        let mut record =
            known.unwrap_or_else(|| Record::new(&subvolume, args.content_source, &class));
        if is_absent {
            let bytes = source.as_ref().map(Source::bytes).transpose()?;
            let bytes = range.choose_from(bytes, UNIT_BYTES, DEFAULT_BYTES)?;
            VOLUMES.put(&key, &record)?;
            subvolume.create_group()?;
            match &source {
                None => subvolume.create(bytes, class.pool.as_deref(), record.has_client)?,
                Some(source) => source.copy_to(&subvolume)?,
            }
            state = subvolume.state()?;
        }
        let info = match state {
            State::Complete(info) => info,
            _ => wait(&subvolume, source.as_ref())?,
        };
        let bytes = match is_new {
            true => range.grown(info.bytes())?,
            false => range.agree(Some(info.bytes()), UNIT_BYTES, DEFAULT_BYTES)?,
        };
        if is_new {
            if bytes != info.bytes() {
                subvolume.resize(bytes)?;
            }
            source.iter().try_for_each(Source::release)?;
        }
        let sealed_key = match record.complete.take() {
            Some(complete) => complete.sealed_key,
            None if record.has_client => Some(client::create(&subvolume, &info)?),
            None => None,
        };
        let complete = Complete {
            bytes,
            path: info.path,
            sealed_key,
        };
        record.complete = Some(complete.clone());
        VOLUMES.put(&key, &record)?;
        Ok(record.show(&subvolume, &complete))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        // An id that this driver did not write is that of no volume.
        let Some(subvolume) = Subvolume::parse(&id)? else {
            return Ok(());
        };
        subvolume.remove()?;
        let key = VOLUMES.id(&id);
        let known = VOLUMES.find(&key)?;
        if known.as_ref().is_some_and(|it| it.has_client) {
            client::remove(&subvolume)?;
        }
        let interrupted = known.filter(|it| it.complete.is_none());
        if let Some(source) = interrupted.and_then(|it| it.source) {
            Source::of(&source, &subvolume)?.release()?;
        }
        VOLUMES.delete(&key)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        Subvolume::known(&args.id)?.info()?;
        let class = match args.parameters.is_empty() {
            true => Ok(()),
            false => Class::read(&args.parameters, &Settings::read()?).map(drop),
        };
        let mutable = args.mutable_parameters.only(&[]);
        Ok(mounts(&args.capabilities).and(class).and(mutable).into())
    }
}

impl ControllerExpand for CephFs {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let subvolume = Subvolume::known(&args.id)?;
        let info = subvolume.info()?;
        let bytes = args.capacity.in_blocks(UNIT_BYTES).grown(info.bytes())?;
        if bytes > info.bytes() {
            subvolume.resize(bytes)?;
        }
        VOLUMES.change_any(&VOLUMES.id(&args.id), |known| {
            if let Some(complete) = known.as_mut().and_then(|it| it.complete.as_mut()) {
                complete.bytes = bytes;
            }
            Ok(())
        })?;
        Ok(Expanded::to(bytes))
    }
}

impl VolumeListing for CephFs {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let page = VOLUMES.page(&page, |_, known| {
            // A group that the settings no longer name has no volumes.
            let subvolume = Subvolume::parse(&known.id).ok().flatten();
            let complete = known.complete.clone();
            let shown = subvolume
                .zip(complete)
                .map(|(at, complete)| known.show(&at, &complete));
            Ok(shown.map(VolumeEntry::new))
        })?;
        Ok(page.into())
    }
}

impl VolumeLookup for CephFs {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        let subvolume = Subvolume::known(&id)?;
        let info = subvolume.info()?;
        let known = VOLUMES.get(&VOLUMES.id(&id))?;
        let complete = Complete {
            bytes: info.bytes(),
            path: info.path,
            ..known.complete.clone().unwrap_or_default()
        };
        Ok(VolumeEntry::new(known.show(&subvolume, &complete)))
    }
}

impl Capacity for CephFs {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let class = Class::read(&args.parameters, &Settings::read()?);
        match mounts(&args.capabilities).and(class) {
            Ok(class) => {
                let bytes = available(&class.fs_name, class.pool.as_deref())?;
                Ok(Available::bytes(bytes).at_least(UNIT_BYTES))
            }
            Err(_) => Ok(Available::bytes(0)),
        }
    }
}

impl Record {
    fn new(subvolume: &Subvolume, source: Option<ContentSource>, class: &Class) -> Self {
        Self {
            id: subvolume.id(),
            source,
            options: class.kernel_mount_options.clone(),
            has_client: class.key_per_volume,
            complete: None,
        }
    }

    /// The context has ceph-csi's names, and two of its own.
    fn show(self, subvolume: &Subvolume, complete: &Complete) -> Volume {
        let user = client::user(subvolume);
        let mut context = vec![
            ("fsName", subvolume.fs.as_str()),
            ("subvolumeName", &subvolume.name),
            ("subvolumePath", &complete.path),
        ];
        context.extend(self.options.as_deref().map(|it| ("kernelMountOptions", it)));
        if let Some(key) = &complete.sealed_key {
            context.extend([(USER_OF_VOLUME, user.as_str()), (KEY_OF_VOLUME, key)]);
        }
        let volume = Volume::new(&self.id, complete.bytes).with_context(&context);
        volume.copied_from(self.source)
    }
}

impl Source {
    /// What is copied to `target`.
    fn of(content: &ContentSource, target: &Subvolume) -> Result<Self, Error> {
        let id = content.id()?;
        let source = match content {
            ContentSource::Snapshot(_) => {
                let SnapshotId { subvolume, name } = SnapshotId::known(id)?;
                Self {
                    subvolume,
                    snapshot: name,
                    is_temporary: false,
                }
            }
            _ => Self {
                subvolume: Subvolume::known(id)?,
                snapshot: format!("{CLONE_PREFIX}{}", target.name),
                is_temporary: true,
            },
        };
        if source.subvolume.fs != target.fs {
            let what = "the source is in another file system: use a StorageClass like its own";
            return Err(Error::invalid_argument(what));
        }
        Ok(source)
    }

    /// The size of what is copied; 0 if it is not known.
    fn bytes(&self) -> Result<u64, Error> {
        if self.is_temporary {
            return Ok(self.subvolume.info()?.bytes());
        }
        match self.subvolume.snapshot(&self.snapshot)? {
            Some(_) => SNAPSHOTS
                .find(&SNAPSHOTS.id(&self.snapshot))
                .map(|it| it.map_or(0, |it| it.bytes)),
            None => Err(Error::not_found("there is no snapshot of this id")),
        }
    }

    fn copy_to(&self, target: &Subvolume) -> Result<(), Error> {
        if self.is_temporary {
            self.subvolume.create_snapshot(&self.snapshot)?;
        }
        target.clone_from(&self.subvolume, &self.snapshot)
    }

    fn release(&self) -> Result<(), Error> {
        match self.is_temporary {
            true => self.subvolume.remove_snapshot(&self.snapshot),
            false => Ok(()),
        }
    }
}

/// Waits for a clone. One that is neither complete nor still to be made has failed.
fn wait(subvolume: &Subvolume, source: Option<&Source>) -> Result<Info, Error> {
    poll::until(&format!("the copy to `{}`", subvolume.name), || {
        let pending = match source {
            Some(source) => {
                let snapshot = source.subvolume.snapshot(&source.snapshot)?;
                snapshot.is_some_and(|it| it.is_being_cloned_to(&subvolume.name))
            }
            None => false,
        };
        match subvolume.state()? {
            State::Complete(info) => Ok(Some(info)),
            State::Absent => Err(Error::aborted(
                "the volume was deleted meanwhile: create it again",
            )),
            State::Unready if pending => Ok(None),
            State::Unready => {
                source.into_iter().try_for_each(Source::release)?;
                let Subvolume { fs, group, name } = subvolume;
                Err(Error::unavailable(format!(
                    "Ceph could not make the copy: see its log, and remove what is left by `ceph fs subvolume rm {fs} {name} {group} --force`"
                )))
            }
        }
    })
}

/// Any number of nodes may use a subvolume.
fn mounts(capabilities: &[VolumeCapability]) -> Result<(), Error> {
    let mut each = capabilities.iter();
    each.try_for_each(VolumeCapability::must_be_mount)
}

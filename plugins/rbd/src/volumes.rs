//! Volumes. Ceph knows which there are and how large; a record keeps what it does not tell: of what a volume is a copy, and which volumes are this
//! driver's. The record is written first, and completed when the volume is.
use crate::api::{self, Image, Info};
use crate::class::Class;
use crate::node::{CLUSTER, EXCLUSIVE, IMAGE_ID, NAMESPACE};
use crate::snapshots::{SnapshotId, absent};
use crate::{Rbd, Settings};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const VOLUMES: state::Collection<Record, 1> = state::Collection::new("volume");
const UNIT_BYTES: u64 = 1 << 20; // in which ceph-csi rounds
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const FS_TYPE: &str = "ext4"; // the host's, if the class names none
const CLONE_PREFIX: &str = "csi-clone-"; // of the snapshot between a volume and its clone

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    id: String,
    source: Option<ContentSource>,
    is_exclusive: bool,
    complete: Option<Complete>, // none: still being made
}

#[derive(Clone, Serialize, Deserialize)]
struct Complete {
    bytes: u64,
    cluster: String,
    image_id: String,
}

/// The snapshot that a volume is copied from.
struct Source {
    image: Image,
    snapshot: String,
    /// Taken for this copy alone.
    is_temporary: bool,
}

impl Controller for Rbd {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let settings = Settings::read()?;
        args.mutable_parameters.only(&[])?;
        let class = Class::read(&args.parameters, &settings)?;
        let image = class.image(&args.name, &settings)?;
        let minimum = usable(&args.capabilities)?.max(UNIT_BYTES);
        let range = args.capacity.in_blocks(UNIT_BYTES);
        let source = args.content_source.as_ref();
        let source = source.map(|it| Source::of(it, &image)).transpose()?;
        let key = VOLUMES.id(&image.id());
        let found = image.find()?;
        // A record without an image is left of an earlier volume.
        let known = VOLUMES.find(&key)?.filter(|_| found.is_some());
        let known_source = known.as_ref().map(|it| &it.source);
        if known_source.is_some_and(|it| *it != args.content_source) {
            let what = "a volume of another source has this name";
            return Err(Error::already_exists(what));
        }
        let is_incomplete = known.as_ref().is_some_and(|it| it.complete.is_none());
        let is_new = found.is_none() || is_incomplete;
        let mut record = known.unwrap_or(Record {
            id: image.id(),
            source: args.content_source,
            is_exclusive: class.is_exclusive(),
            complete: None,
        });
        if found.is_none() {
            let bytes = source.as_ref().map(Source::bytes).transpose()?;
            let bytes = range.choose_from(bytes, minimum, DEFAULT_BYTES)?;
            VOLUMES.put(&key, &record)?;
            match &source {
                None => image.create(bytes, class.options())?,
                Some(source) => source.clone_to(&image, &class)?,
            }
        }
        let info = image.complete()?;
        let bytes = match is_new {
            true => range.grown(info.size)?,
            false => range.agree(Some(info.size), minimum, DEFAULT_BYTES)?,
        };
        if is_new {
            source.iter().try_for_each(Source::release)?;
            if bytes != info.size {
                image.resize(bytes)?;
            }
        }
        record.complete = Some(Complete::of(&info, bytes)?);
        VOLUMES.put(&key, &record)?;
        record.show(&image)
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        // An id that this driver did not write is that of no volume.
        let Some(image) = Image::parse(&id)? else {
            return Ok(());
        };
        if let Some(info) = image.find()? {
            let mut snapshots = info.snapshots.iter().map(|it| it.name.as_str());
            if let Some(name) = snapshots.next() {
                // Ceph's API would delete them along with it.
                return Err(Error::failed_precondition(format!(
                    "the volume has snapshots, such as `{name}`: delete them first"
                )));
            }
            image.remove()?;
        }
        let key = VOLUMES.id(&id);
        let interrupted = VOLUMES.find(&key)?.filter(|it| it.complete.is_none());
        if let Some(source) = interrupted.and_then(|it| it.source) {
            Source::of(&source, &image)?.release()?;
        }
        VOLUMES.delete(&key)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        Image::known(&args.id)?.info()?;
        let class = match args.parameters.is_empty() {
            true => Ok(()),
            false => Class::read(&args.parameters, &Settings::read()?).map(drop),
        };
        let mutable = args.mutable_parameters.only(&[]);
        let usable = usable(&args.capabilities).map(drop);
        Ok(usable.and(class).and(mutable).into())
    }
}

impl ControllerExpand for Rbd {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let image = Image::known(&args.id)?;
        let info = image.info()?;
        let bytes = args.capacity.in_blocks(UNIT_BYTES).grown(info.size)?;
        if bytes > info.size {
            image.resize(bytes)?;
        }
        VOLUMES.change_any(&VOLUMES.id(&args.id), |known| {
            if let Some(complete) = known.as_mut().and_then(|it| it.complete.as_mut()) {
                complete.bytes = bytes;
            }
            Ok(())
        })?;
        Ok(Expanded::to(bytes).then_on_node(true))
    }
}

impl VolumeListing for Rbd {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let page = VOLUMES.page(&page, |_, known| {
            // A pool that the settings no longer name has no volumes.
            let image = Image::parse(&known.id).ok().flatten();
            let image = image.filter(|_| known.complete.is_some());
            let shown = image.map(|image| known.show(&image)).transpose()?;
            Ok(shown.map(VolumeEntry::new))
        })?;
        Ok(page.into())
    }
}

impl VolumeLookup for Rbd {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        let image = Image::known(&id)?;
        let info = image.info()?;
        let mut known = VOLUMES.get(&VOLUMES.id(&id))?;
        if let Some(complete) = &mut known.complete {
            complete.bytes = info.size;
        }
        known.show(&image).map(VolumeEntry::new)
    }
}

impl Capacity for Rbd {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let class = Class::read(&args.parameters, &Settings::read()?);
        match (class, usable(&args.capabilities)) {
            (Ok(class), Ok(_)) => {
                let bytes = api::available(class.data_pool())?;
                Ok(Available::bytes(bytes).at_least(UNIT_BYTES))
            }
            _ => Ok(Available::bytes(0)),
        }
    }
}

impl Complete {
    fn of(info: &Info, bytes: u64) -> Result<Self, Error> {
        Ok(Self {
            bytes,
            cluster: api::cluster()?,
            image_id: info.id.clone(),
        })
    }
}

impl Record {
    /// The context has ceph-csi's names, and some of its own.
    fn show(self, image: &Image) -> Result<Volume, Error> {
        let complete = self.complete;
        let complete = complete.ok_or_else(|| Error::aborted("the volume is still being made"))?;
        let mut context = vec![
            (CLUSTER, complete.cluster.as_str()),
            ("pool", &image.pool),
            ("imageName", &image.name),
            (IMAGE_ID, &complete.image_id),
        ];
        context.extend(image.namespace.as_deref().map(|it| (NAMESPACE, it)));
        context.extend(self.is_exclusive.then_some(("mapOptions", EXCLUSIVE)));
        let volume = Volume::new(&self.id, complete.bytes).with_context(&context);
        Ok(volume.copied_from(self.source))
    }
}

impl Source {
    /// What is copied to `target`.
    fn of(content: &ContentSource, target: &Image) -> Result<Self, Error> {
        let id = content.id()?;
        Ok(match content {
            ContentSource::Snapshot(_) => {
                let SnapshotId { image, name } = SnapshotId::known(id)?;
                Self {
                    image,
                    snapshot: name,
                    is_temporary: false,
                }
            }
            _ => Self {
                image: Image::known(id)?,
                snapshot: format!("{CLONE_PREFIX}{}", target.name),
                is_temporary: true,
            },
        })
    }

    fn bytes(&self) -> Result<u64, Error> {
        match self.is_temporary {
            true => Ok(self.image.info()?.size),
            false => {
                let found = self.image.find_snapshot(&self.snapshot)?;
                found.map(|it| it.size).ok_or_else(absent)
            }
        }
    }

    fn clone_to(&self, target: &Image, class: &Class) -> Result<(), Error> {
        if self.is_temporary {
            self.image.create_snapshot(&self.snapshot)?;
        }
        target.clone_from(&self.image, &self.snapshot, class.options())
    }

    fn release(&self) -> Result<(), Error> {
        match self.is_temporary {
            true => self.image.remove_snapshot(&self.snapshot),
            false => Ok(()),
        }
    }
}

/// The smallest image for these capabilities. Only raw block devices, and what is only read, are used on several nodes at a time.
fn usable(capabilities: &[VolumeCapability]) -> Result<u64, Error> {
    let each = capabilities.iter().map(|one| {
        match one.access_mode {
            AccessMode::Other(_) => {
                return Err(Error::invalid_argument("the access mode is not known"));
            }
            AccessMode::MultiNodeReaderOnly => {}
            _ => one.must_be_block_or_on_one_node()?,
        }
        one.smallest_image(FS_TYPE)
    });
    each.collect::<Result<Vec<_>, _>>()
        .map(|each| each.into_iter().max().unwrap_or(0))
}

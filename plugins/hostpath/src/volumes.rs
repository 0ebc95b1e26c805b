//! Volumes in the controller's records.
use crate::class::{Class, Kind, Mutable};
use crate::node::publish_context;
use crate::snapshots::SNAPSHOTS;
use crate::{Hostpath, here, most_volumes};
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const VOLUMES: state::Collection<Record, 1> = state::Collection::new("volume");
const BLOCK_BYTES: u64 = 4 << 10; // a block device is made of whole pages
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    class: Class,
    size_bytes: u64,
    source: Option<ContentSource>,
    mutable: Mutable,
}

impl Controller for Hostpath {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        args.must_be_at(&here())?;
        let class: Class = args.parameters.read()?;
        let minimum = class.check(&args.capabilities)?;
        let mutable = class.mutable(&args.mutable_parameters)?;
        let (id, source) = (VOLUMES.id(&args.name), args.content_source);
        let range = args.capacity.in_blocks(BLOCK_BYTES);
        if let Some(known) = VOLUMES.find(&id)? {
            if (&known.class, &known.source) != (&class, &source) {
                return Err(Error::already_exists("another volume has this name"));
            }
            range.agree(Some(known.size_bytes), minimum, DEFAULT_BYTES)?;
            let half_deleted = || Error::aborted("a volume of this name is half deleted");
            class.pool.stat(&id)?.ok_or_else(half_deleted)?;
            return Ok(known.show(id));
        }
        let from = source.as_ref().map(content_of).transpose();
        let from = class.pool.keep(&id, from)?; // which may be gone since it was copied
        let source_bytes = from.as_ref().map(|from| from.size_bytes);
        let size_bytes = range.choose_from(source_bytes, minimum, DEFAULT_BYTES)?;
        let made = class.make(&id, size_bytes, from.as_ref());
        let record = Record {
            class,
            size_bytes,
            source,
            mutable,
        };
        let made = made.and_then(|()| VOLUMES.create(&id, &record));
        record.class.pool.keep(&id, made)?;
        Ok(record.show(id))
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        let Some(known) = VOLUMES.find(&id)? else {
            return Ok(());
        };
        attachments::must_be_none(&id)?;
        known.class.pool.remove(&id)?;
        VOLUMES.delete(&id)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        let class = VOLUMES.get(&args.id)?.class;
        if !args.parameters.is_empty() && args.parameters.read().as_ref() != Ok(&class) {
            return Ok(Validation::unsupported("the volume is of another class"));
        }
        let mutable = class.mutable(&args.mutable_parameters).map(drop);
        Ok(class.check(&args.capabilities).and(mutable).into())
    }
}

impl ControllerPublish for Hostpath {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        let Record { class, mutable, .. } = VOLUMES.get(&args.id)?;
        class.check(std::slice::from_ref(&args.capability))?;
        args.must_be_here()?;
        attachments::attach(&args, most_volumes()?)?;
        Ok(publish_context(args.readonly, &mutable))
    }

    fn controller_unpublish_volume(id: String, node: Option<String>) -> Result<(), Error> {
        attachments::detach(&id, node.as_deref())
    }
}

impl ControllerExpand for Hostpath {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let known = VOLUMES.get(&args.id)?;
        let range = args.capacity.in_blocks(BLOCK_BYTES);
        let size_bytes = range.grown(known.size_bytes)?;
        known.class.pool.resize(&args.id, size_bytes)?;
        VOLUMES.change(&args.id, |volume| {
            volume.size_bytes = size_bytes;
            Ok(())
        })?;
        Ok(Expanded::to(size_bytes).then_on_node(known.class.kind != Kind::Directory))
    }
}

impl ControllerModify for Hostpath {
    fn modify_volume(id: String, parameters: Attributes) -> Result<(), Error> {
        VOLUMES.change(&id, |volume| {
            let new = volume.class.mutable(&parameters)?;
            volume.mutable.atime = new.atime.or(volume.mutable.atime);
            volume.mutable.discard = new.discard.or(volume.mutable.discard);
            Ok(())
        })
    }
}

impl VolumeListing for Hostpath {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let page = VOLUMES.page(&page, |id, known| known.entry(id).map(Some))?;
        Ok(page.into())
    }
}

impl VolumeLookup for Hostpath {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        VOLUMES.get(&id)?.entry(id)
    }
}

impl Capacity for Hostpath {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let class: Result<Class, Error> = args.parameters.read();
        let checked = class.and_then(|class| Ok((class.check(&args.capabilities)?, class.pool)));
        match checked.and_then(|it| args.must_be_at(&here()).map(|()| it)) {
            Ok((minimum, pool)) => {
                let available = pool.capacity()?.available_bytes;
                Ok(Available::bytes(available - available % BLOCK_BYTES).at_least(minimum))
            }
            Err(_) => Ok(Available::bytes(0)),
        }
    }
}

impl VolumeHealth for Hostpath {
    fn get_volume_health(id: String) -> Result<Vec<Health>, Error> {
        let known = VOLUMES.get(&id).map(|known| {
            let is_whole = known.class.kind == Kind::Image;
            (known.class.pool, is_whole.then_some(known.size_bytes))
        });
        pool::health(&id, known)
    }
}

impl Record {
    fn show(self, id: String) -> Volume {
        let Class { pool, fs_type, .. } = &self.class;
        let context = [("pool", pool.name()), ("fsType", fs_type)];
        let mut volume = Volume::new(id, self.size_bytes).with_context(&context);
        volume.content_source = self.source;
        volume.accessible_topology = here();
        volume
    }

    fn entry(self, id: String) -> Result<VolumeEntry, Error> {
        let nodes = attachments::nodes(&id)?;
        Ok(VolumeEntry::new(self.show(id)).published_to(nodes))
    }
}

/// The content of a volume.
pub(crate) fn content(id: &str) -> Result<pool::Content, Error> {
    let known = VOLUMES.get(id)?;
    Ok(pool::Content::new(known.class.pool, id, known.size_bytes))
}

fn content_of(source: &ContentSource) -> Result<pool::Content, Error> {
    match source {
        ContentSource::Snapshot(id) => SNAPSHOTS.content(id),
        source => content(source.id()?),
    }
}

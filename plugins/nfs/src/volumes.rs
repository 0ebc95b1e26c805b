//! Volumes. The id of a volume says where its directory is; a record under the hash of the id has its size, and is written last and removed last.
use crate::Nfs;
use crate::class::{Class, OnDelete};
use crate::share::{Place, Settings};
use crate::snapshots::SNAPSHOTS;
use crate::volume_id::VolumeId;
use serde::{Deserialize, Serialize};
use wasmount_guest::*;

pub(crate) const VOLUMES: state::Collection<Record, 1> = state::Collection::new("volume");
const MINIMUM_BYTES: u64 = 4 << 10; // one block of a file system
const DEFAULT_BYTES: u64 = 1 << 30; // for a claim that names no size
const MODE: u32 = 0o755; // of a directory whose owner is set, and its mode is not
const SNAPSHOT: &str = "snapshot"; // prefix of the directories of snapshots

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    id: String,
    size_bytes: u64,
    source: Option<ContentSource>,
    #[serde(default)] // records of versions without it
    is_deleting: bool, // a DeleteVolume began, and has yet to end
}

impl Controller for Nfs {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let class = check(&args.capabilities, &args.parameters)?;
        args.mutable_parameters.only(&[])?;
        let settings = Settings::read()?;
        let id = class.id(&args.name, &args.parameters)?;
        let place = place_in(&settings, &id)?;
        let (key, source) = (VOLUMES.id(&id.text()), args.content_source);
        let known = VOLUMES.find(&key)?;
        if known.as_ref().is_some_and(|known| known.is_deleting) {
            return Err(Error::aborted(
                "a volume of this name is half deleted: delete it again",
            ));
        }
        if known.as_ref().is_some_and(|known| known.source != source) {
            return Err(Error::already_exists(
                "a volume of this name is there, of another source: use another name",
            ));
        }
        let from = match known.is_none() {
            true => source.as_ref().map(content_of).transpose()?,
            false => None,
        };
        let size_bytes = match &known {
            Some(known) => {
                args.capacity
                    .agree(Some(known.size_bytes), MINIMUM_BYTES, DEFAULT_BYTES)?
            }
            None => {
                let source_bytes = from.as_ref().map(|from| from.size_bytes);
                args.capacity
                    .choose_from(source_bytes, MINIMUM_BYTES, DEFAULT_BYTES)?
            }
        };
        let record = Record {
            id: id.text(),
            size_bytes,
            source,
            is_deleting: false,
        };
        if known.is_none() {
            let is_new = place.pool.stat(&place.path)?.is_none();
            let made = make(&settings, &class, &place, size_bytes, from.as_ref());
            let made = made.and_then(|()| VOLUMES.create(&key, &record));
            match made {
                // A directory that was there is not this call's to remove: a class may name an existing one.
                Err(error) if is_new => place.pool.keep(&place.path, Err(error)),
                made => made,
            }?;
        }
        record.show(&id)
    }

    fn delete_volume(id: String) -> Result<(), Error> {
        // An id that none of these drivers wrote is that of no volume.
        let Some(parsed) = VolumeId::parse(&id) else {
            return Ok(());
        };
        let settings = Settings::read()?;
        let place = place_in(&settings, &parsed)?;
        let key = VOLUMES.id(&id);
        VOLUMES.change_any(&key, |known| {
            known.iter_mut().for_each(|known| known.is_deleting = true);
            Ok(())
        })?;
        if !is_shared(&settings, &parsed, &id)? {
            match parsed.on_delete.unwrap_or(settings.on_delete) {
                OnDelete::Delete => place.pool.remove_directory(&place.path)?,
                OnDelete::Archive => archive(&settings, &parsed, &place)?,
                OnDelete::Retain => {}
            }
        }
        VOLUMES.delete(&key)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        content(&args.id)?.is_directory()?;
        let class = match args.parameters.is_empty() {
            true => mounts(&args.capabilities),
            false => check(&args.capabilities, &args.parameters).map(drop),
        };
        Ok(class.and(args.mutable_parameters.only(&[])).into())
    }
}

impl ControllerExpand for Nfs {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        let content = content(&args.id)?;
        content.is_directory()?;
        let size_bytes = args.capacity.grown(content.size_bytes)?;
        if Settings::read()?.reserve {
            content.pool.set_quota(&content.path, Some(size_bytes))?;
        }
        VOLUMES.change_any(&VOLUMES.id(&args.id), |known| {
            // A volume of csi-driver-nfs has no record yet.
            let known = known.get_or_insert_with(|| Record {
                id: args.id.clone(),
                size_bytes,
                source: None,
                is_deleting: false,
            });
            known.size_bytes = size_bytes;
            Ok(())
        })?;
        Ok(Expanded::to(size_bytes))
    }
}

impl VolumeListing for Nfs {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        let page = VOLUMES.page(&page, |_, known| known.entry().map(Some))?;
        Ok(page.into())
    }
}

impl VolumeLookup for Nfs {
    fn get_volume(id: String) -> Result<VolumeEntry, Error> {
        VOLUMES.get(&VOLUMES.id(&id))?.entry()
    }
}

impl Capacity for Nfs {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        let class = check(&args.capabilities, &args.parameters);
        let settings = Settings::read()?;
        match class.and_then(|class| settings.place(&class.server, &class.share, "")) {
            Ok(place) => {
                let available = place.pool.capacity()?.available_bytes;
                Ok(Available::bytes(available).at_least(MINIMUM_BYTES))
            }
            Err(_) => Ok(Available::bytes(0)),
        }
    }
}

impl Record {
    fn show(self, id: &VolumeId) -> Result<Volume, Error> {
        let share = format!("/{}", id.share);
        let context = [
            ("server", id.server.as_str()),
            ("share", &share),
            ("subDir", &id.sub_dir),
        ];
        let volume = Volume::new(self.id, self.size_bytes).with_context(&context);
        Ok(volume.copied_from(self.source))
    }

    fn entry(self) -> Result<VolumeEntry, Error> {
        let id = VolumeId::known(&self.id)?;
        Ok(VolumeEntry::new(self.show(&id)?))
    }
}

/// The content of a volume, of this driver or of csi-driver-nfs.
pub(crate) fn content(id: &str) -> Result<pool::Content, Error> {
    let Place { pool, path } = place_in(&Settings::read()?, &VolumeId::known(id)?)?;
    let known = VOLUMES.find(&VOLUMES.id(id))?;
    if known.is_none() && pool.stat(&path)?.is_none() {
        return Err(Error::not_found("there is no volume of this id"));
    }
    Ok(pool::Content::new(
        pool,
        path,
        known.map_or(0, |known| known.size_bytes),
    ))
}

fn content_of(source: &ContentSource) -> Result<pool::Content, Error> {
    match source {
        ContentSource::Snapshot(id) => SNAPSHOTS.content(id),
        source => content(source.id()?),
    }
}

fn check(capabilities: &[VolumeCapability], parameters: &Attributes) -> Result<Class, Error> {
    mounts(capabilities)?;
    Class::read(parameters)
}

/// Any number of nodes may use a directory.
fn mounts(capabilities: &[VolumeCapability]) -> Result<(), Error> {
    let mut each = capabilities.iter();
    each.try_for_each(VolumeCapability::must_be_mount)
}

/// Where the directory of a volume is. The directory of a snapshot is no volume's.
fn place_in(settings: &Settings, id: &VolumeId) -> Result<Place, Error> {
    let place = settings.place(&id.server, &id.share, &id.sub_dir)?;
    match id::is_from_name(SNAPSHOT, &place.path) {
        true => Err(Error::invalid_argument(
            "the directory of a snapshot cannot be a volume",
        )),
        false => Ok(place),
    }
}

/// Creates the directory of a volume with all above it, empty or as a copy.
fn make(
    settings: &Settings,
    class: &Class,
    place: &Place,
    size_bytes: u64,
    from: Option<&pool::Content>,
) -> Result<(), Error> {
    let Place { pool, path } = place;
    parents(pool, path)?;
    match from {
        Some(from) if from.pool != *pool => {
            return Err(Error::invalid_argument(
                "the source is in another share: use a StorageClass like its own",
            ));
        }
        Some(from) => pool.clone_directory(&from.path, path)?,
        None => pool.create_directory(path)?,
    }
    let mode = class.mode.or(settings.mode);
    if mode.is_some() || class.uid.is_some() || class.gid.is_some() {
        pool.set_permissions(path, mode.unwrap_or(MODE), class.uid, class.gid)?;
    }
    if settings.reserve {
        pool.set_quota(path, Some(size_bytes))?;
    }
    Ok(())
}

fn parents(pool: &Pool, path: &str) -> Result<(), Error> {
    let above = path
        .match_indices('/')
        .filter_map(|(end, _)| path.get(..end));
    for directory in above {
        pool.create_directory(directory)?;
    }
    Ok(())
}

/// Renames the directory of a deleted volume as csi-driver-nfs does; where that name is taken, with the time.
fn archive(settings: &Settings, id: &VolumeId, from: &Place) -> Result<(), Error> {
    let archived = format!("archived-{}", id.sub_dir);
    let to = settings.place(&id.server, &id.share, &archived)?;
    if settings.reserve && from.pool.stat(&from.path)?.is_some() {
        // Before it has a name by which a retry does not find it.
        from.pool.set_quota(&from.path, None)?;
    }
    parents(&to.pool, &to.path)?;
    let renamed = match from.pool.rename(&from.path, &to.path) {
        Err(error) if error.code == Code::AlreadyExists => from
            .pool
            .rename(&from.path, &format!("{}-{}", to.path, now())),
        renamed => renamed,
    };
    match renamed {
        Err(error) if error.code == Code::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// Whether another volume has the same directory: several may, if `subDir` of the class does not name the volume. One that is being deleted, too, has
/// it only if it is to be kept: otherwise two deletions at once would leave it to each other.
fn is_shared(settings: &Settings, id: &VolumeId, own: &str) -> Result<bool, Error> {
    if id.unique.is_empty() {
        return Ok(false);
    }
    let is_same = |other: &VolumeId| {
        (&other.server, &other.share, &other.sub_dir) == (&id.server, &id.share, &id.sub_dir)
    };
    let is_kept =
        |other: &VolumeId| other.on_delete.unwrap_or(settings.on_delete) == OnDelete::Retain;
    let mut request = PageRequest {
        max_entries: None,
        starting_token: None,
    };
    loop {
        let (found, next) = VOLUMES.page(&request, |_, known| {
            let other = VolumeId::parse(&known.id).filter(is_same);
            Ok(other.filter(|it| known.id != own && (!known.is_deleting || is_kept(it))))
        })?;
        match next {
            _ if !found.is_empty() => return Ok(true),
            None => return Ok(false),
            next => request.starting_token = next,
        }
    }
}

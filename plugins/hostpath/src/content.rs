//! What volumes and snapshots hold, in the pool. Apart because images and directories differ here and nowhere else, and because here is
//! decided what becomes of content whose call fails.
//!
//! It does not know which of the two something is: both are content under an id.
use crate::record::{Kind, Record};
use wasmount_guest::*;

/// All of it lies here.
pub(crate) const POOL: Pool = Pool::named("volumes");

pub(crate) fn create(kind: Kind, id: &str, size_bytes: u64) -> Result<(), Error> {
    match kind {
        Kind::Image | Kind::NodeGrownImage => POOL.create_image(id, size_bytes),
        Kind::Directory => {
            POOL.create_directory_of(id, size_bytes)?;
            POOL.set_permissions(id, 0o777, None, None) // pods run as any user
        }
    }
}

pub(crate) fn copy(kind: Kind, source: &str, id: &str) -> Result<(), Error> {
    match kind {
        Kind::Image | Kind::NodeGrownImage => POOL.clone_image(source, id),
        Kind::Directory => POOL.clone_directory(source, id),
    }
}

pub(crate) fn resize(kind: Kind, id: &str, size_bytes: u64) -> Result<(), Error> {
    match kind {
        Kind::Image | Kind::NodeGrownImage => POOL.resize_image(id, size_bytes),
        Kind::Directory => POOL.set_quota(id, Some(size_bytes)).map(drop),
    }
}

/// Makes content and then its record; nothing is left of what could not be made. A copy that is under way goes on, for the retry to find.
pub(crate) fn keep(
    id: &str,
    record: &Record,
    make: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let is_new = POOL.stat(id)?.is_none();
    let kept = make().and_then(|()| state::create(id, record).map(drop));
    match kept {
        Err(error) if is_new && error.code != Code::Aborted => {
            remove(id)?;
            Err(error)
        }
        kept => kept,
    }
}

/// Removes content and then its record, if the id is one of ours.
pub(crate) fn delete(prefix: &str, id: &str) -> Result<(), Error> {
    if id::is_from_name(prefix, id) {
        remove(id)?;
        state::delete(id)?;
    }
    Ok(())
}

/// Asks the pool what it is: a record may be missing. What is absent is removed once more, so that its absence is durable.
fn remove(id: &str) -> Result<(), Error> {
    match POOL.stat(id)?.map(|entry| entry.kind) {
        Some(pool::Kind::Directory) => POOL.remove_directory(id),
        _ => POOL.remove_image(id),
    }
}

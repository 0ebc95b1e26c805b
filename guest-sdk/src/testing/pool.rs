//! The interface `pool` in memory: directories and images with sizes and promises, but no contents.

mod tree;

use super::attempt;
use crate::error::Error;
use crate::pool::{Entry, Extents, Kind, Usage};
use crate::volume::Extent;
pub(super) use tree::Tree;
use tree::{Node, check_path};

/// Size of an extent: a volume of 1 GiB has four.
const EXTENT_BYTES: u64 = 256 << 20;
/// Extents in an answer where the caller sets no number.
const EXTENTS: u32 = 16;

pub(crate) fn names() -> Vec<String> {
    super::with(|host| host.pools.keys().cloned().collect())
}

pub(crate) fn capacity(pool: &str) -> Result<Usage, Error> {
    in_pool(pool, &[], |tree| Ok(tree.usage()))
}

pub(crate) fn stat(pool: &str, path: &str) -> Result<Option<Entry>, Error> {
    in_pool(pool, &[path], |tree| {
        Ok(tree.get(path).map(|node| node.entry(path)))
    })
}

pub(crate) fn list(
    pool: &str,
    path: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Entry>, Error> {
    let checked: &[&str] = if path.is_empty() { &[] } else { &[path] };
    in_pool(pool, checked, |tree| {
        if !path.is_empty() {
            tree.existing(path, Some(&Kind::Directory))?;
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(tree
            .children(path)
            .filter(|(name, _)| after.is_none_or(|after| *name > after))
            .take(limit)
            .map(|(_, entry)| entry)
            .collect())
    })
}

pub(crate) fn create_directory(pool: &str, path: &str) -> Result<(), Error> {
    in_pool(pool, &[path], |tree| {
        tree.create(path, Node::new(Kind::Directory, 0))
    })
}

pub(crate) fn remove_directory(pool: &str, path: &str) -> Result<(), Error> {
    in_pool(pool, &[path], |tree| tree.remove(path, &Kind::Directory))
}

pub(crate) fn create_image(pool: &str, path: &str, size_bytes: u64) -> Result<(), Error> {
    in_pool(pool, &[path], |tree| {
        tree.create(path, Node::new(Kind::Image, size_bytes))
    })
}

pub(crate) fn resize_image(pool: &str, path: &str, size_bytes: u64) -> Result<(), Error> {
    in_pool(pool, &[path], |tree| {
        let size = tree.existing(path, Some(&Kind::Image))?.size_bytes;
        if size_bytes < size {
            return Err(Error::invalid_argument(format!(
                "`{path}` has {size} bytes: an image only grows"
            )));
        }
        tree.afford(path, size_bytes - size)?;
        tree.existing(path, None)?.size_bytes = size_bytes;
        Ok(())
    })
}

pub(crate) fn clone_image(pool: &str, source: &str, target: &str) -> Result<(), Error> {
    in_pool(pool, &[source, target], |tree| {
        tree.copy(source, target, &Kind::Image)
    })
}

pub(crate) fn clone_directory(pool: &str, source: &str, target: &str) -> Result<(), Error> {
    in_pool(pool, &[source, target], |tree| {
        tree.copy(source, target, &Kind::Directory)
    })
}

pub(crate) fn clone_images(pool: &str, copies: &[(String, String)]) -> Result<(), Error> {
    let paths: Vec<&str> = copies
        .iter()
        .flat_map(|(source, target)| [source.as_str(), target.as_str()])
        .collect();
    in_pool(pool, &paths, |tree| {
        let mut all = tree.clone();
        for (source, target) in copies {
            all.copy_now(source, target, &Kind::Image)?;
        }
        *tree = all;
        Ok(())
    })
}

/// Images have no contents here, so all of an image may hold data.
pub(crate) fn allocated_extents(
    pool: &str,
    path: &str,
    offset: u64,
    limit: u32,
) -> Result<Extents, Error> {
    in_pool(pool, &[path], |tree| {
        let size_bytes = tree.existing(path, Some(&Kind::Image))?.size_bytes;
        pieces(size_bytes, offset, limit)
    })
}

/// Images have no contents here, so all of the target may differ.
pub(crate) fn changed_extents(
    pool: &str,
    base: &str,
    target: &str,
    offset: u64,
    limit: u32,
) -> Result<Extents, Error> {
    in_pool(pool, &[base, target], |tree| {
        tree.existing(base, Some(&Kind::Image))?;
        let size_bytes = tree.existing(target, Some(&Kind::Image))?.size_bytes;
        pieces(size_bytes, offset, limit)
    })
}

/// Everything starting at `offset`, split into extents, so that there are several pages.
fn pieces(size_bytes: u64, offset: u64, limit: u32) -> Result<Extents, Error> {
    if offset > size_bytes {
        return Err(Error::out_of_range(format!(
            "offset {offset} lies behind the end: there are {size_bytes} bytes"
        )));
    }
    // 0: the host decides.
    let limit = if limit == 0 { EXTENTS } else { limit };
    let starts = (0..limit).map(|index| offset + u64::from(index) * EXTENT_BYTES);
    let extent = |offset_bytes| Extent {
        offset_bytes,
        size_bytes: EXTENT_BYTES.min(size_bytes - offset_bytes),
    };
    let next = offset.saturating_add(u64::from(limit) * EXTENT_BYTES);
    Ok(Extents {
        ranges: starts
            .take_while(|start| *start < size_bytes)
            .map(extent)
            .collect(),
        next_offset: (next < size_bytes).then_some(next),
    })
}

pub(crate) fn remove_image(pool: &str, path: &str) -> Result<(), Error> {
    in_pool(pool, &[path], |tree| tree.remove(path, &Kind::Image))
}

pub(crate) fn rename(pool: &str, source: &str, target: &str) -> Result<(), Error> {
    in_pool(pool, &[source, target], |tree| tree.rename(source, target))
}

pub(crate) fn set_permissions(
    pool: &str,
    path: &str,
    mode: u32,
    _uid: Option<u32>,
    _gid: Option<u32>,
) -> Result<(), Error> {
    /// All permission bits of a mode.
    const MODE_BITS: u32 = 0o7777;
    in_pool(pool, &[path], |tree| {
        if mode & !MODE_BITS != 0 {
            return Err(Error::invalid_argument(format!("{mode:o} is no file mode")));
        }
        tree.existing(path, Some(&Kind::Directory))?.mode = mode;
        Ok(())
    })
}

/// In memory nothing can exceed a quota, so it counts as enforced.
pub(crate) fn set_quota(pool: &str, path: &str, bytes: Option<u64>) -> Result<bool, Error> {
    in_pool(pool, &[path], |tree| {
        let promised = tree
            .existing(path, Some(&Kind::Directory))?
            .quota
            .unwrap_or(0);
        tree.afford(path, bytes.unwrap_or(0).saturating_sub(promised))?;
        tree.existing(path, None)?.quota = bytes;
        Ok(true)
    })
}

/// The tree of a granted pool, after the paths were checked.
fn in_pool<R>(
    pool: &str,
    paths: &[&str],
    call: impl FnOnce(&mut Tree) -> Result<R, Error>,
) -> Result<R, Error> {
    attempt(|host| {
        let tree = host.pools.get_mut(pool).ok_or_else(|| {
            Error::permission_denied(format!(
                "pool `{pool}` is not granted: add it to `grants.pools`"
            ))
        })?;
        for path in paths {
            check_path(path)?;
        }
        call(tree)
    })
}

#[cfg(test)]
mod tests;

//! Short functions for the calls of the contract on the pool `data`.

use wasmount_core::pool::PoolCall;

pub(super) fn create(path: &str) -> PoolCall {
    let (pool, path) = ("data".to_owned(), path.to_owned());
    PoolCall::CreateDirectory { pool, path }
}

pub(super) fn remove(path: &str) -> PoolCall {
    let (pool, path) = ("data".to_owned(), path.to_owned());
    PoolCall::RemoveDirectory { pool, path }
}

pub(super) fn sync(paths: &[&str]) -> PoolCall {
    PoolCall::Sync {
        pool: "data".to_owned(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    }
}

pub(super) fn create_image(path: &str, size_bytes: u64) -> PoolCall {
    PoolCall::CreateImage {
        pool: "data".to_owned(),
        path: path.to_owned(),
        size_bytes,
    }
}

pub(super) fn resize_image(path: &str, size_bytes: u64) -> PoolCall {
    PoolCall::ResizeImage {
        pool: "data".to_owned(),
        path: path.to_owned(),
        size_bytes,
    }
}

pub(super) fn remove_image(path: &str) -> PoolCall {
    let (pool, path) = ("data".to_owned(), path.to_owned());
    PoolCall::RemoveImage { pool, path }
}

pub(super) fn rename(source: &str, target: &str) -> PoolCall {
    PoolCall::Rename {
        pool: "data".to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
    }
}

pub(super) fn clone_image(source: &str, target: &str) -> PoolCall {
    PoolCall::CloneImage {
        pool: "data".to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
    }
}

pub(super) fn clone_directory(source: &str, target: &str) -> PoolCall {
    PoolCall::CloneDirectory {
        pool: "data".to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
    }
}

pub(super) fn clone_images(copies: &[(&str, &str)]) -> PoolCall {
    let owned = |(source, target): &(&str, &str)| ((*source).to_owned(), (*target).to_owned());
    PoolCall::CloneImages {
        pool: "data".to_owned(),
        copies: copies.iter().map(owned).collect(),
    }
}

pub(super) fn set_permissions(path: &str, mode: u32) -> PoolCall {
    PoolCall::SetPermissions {
        pool: "data".to_owned(),
        path: path.to_owned(),
        mode,
        uid: None,
        gid: None,
    }
}

pub(super) fn set_quota(path: &str, bytes: Option<u64>) -> PoolCall {
    PoolCall::SetQuota {
        pool: "data".to_owned(),
        path: path.to_owned(),
        bytes,
    }
}

pub(super) fn stat(path: &str) -> PoolCall {
    let (pool, path) = ("data".to_owned(), path.to_owned());
    PoolCall::Stat { pool, path }
}

pub(super) fn list(path: &str, after: Option<&str>, limit: u32) -> PoolCall {
    PoolCall::List {
        pool: "data".to_owned(),
        path: path.to_owned(),
        after: after.map(str::to_owned),
        limit,
    }
}

pub(super) fn allocated_extents(path: &str, offset: u64, limit: u32) -> PoolCall {
    PoolCall::AllocatedExtents {
        pool: "data".to_owned(),
        path: path.to_owned(),
        offset,
        limit,
    }
}

pub(super) fn changed_extents(base: &str, target: &str, offset: u64, limit: u32) -> PoolCall {
    PoolCall::ChangedExtents {
        pool: "data".to_owned(),
        base: base.to_owned(),
        target: target.to_owned(),
        offset,
        limit,
    }
}

/// All calls that take a place, for one place.
pub(super) fn calls_on(path: &str) -> Vec<PoolCall> {
    vec![
        stat(path),
        create(path),
        remove(path),
        create_image(path, 4096),
        resize_image(path, 4096),
        remove_image(path),
        rename(path, "other"),
        rename("other", path),
        clone_image(path, "other"),
        clone_image("other", path),
        clone_images(&[(path, "other")]),
        clone_images(&[("other", path)]),
        clone_directory(path, "other"),
        clone_directory("other", path),
        set_permissions(path, 0o700),
        set_quota(path, Some(1)),
        allocated_extents(path, 0, 0),
        changed_extents(path, "other", 0, 0),
        changed_extents("other", path, 0, 0),
    ]
}

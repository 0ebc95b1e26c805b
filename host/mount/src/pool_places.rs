//! The directories of all drivers' pools: no pool lies in another one, and none contains or lies in a directory of the host itself.
//!
//! Two pools are either the same directory or disjoint: a backend owns everything below its pool, so a pool inside it would be removed with it.
//! Directories are compared by their real location, through links and bind mounts. This module does not know what a pool contains.

use crate::block::DeviceNumber;
use crate::mountinfo::{self, MountLine};
use crate::threads::within;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_core::document::PoolGrant;
use wasmount_core::names::DriverName;

/// Deadline for following links in the paths of pools. 2 s: it takes microseconds, and a start must not wait for dead storage, whose pools are then
/// compared by their paths alone.
const RESOLVED_WITHIN: Duration = Duration::from_secs(2);

/// Two grants, or a grant and a directory of the host, overlap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{pool} overlaps with {other}: one lies in the other; give the pool a directory apart from it"
)]
pub struct OverlappingPools {
    /// The refused pool.
    pub pool: String,
    /// The pool or directory that was there before.
    pub other: String,
}

/// The pools in use, by driver, and the host's own directories.
#[derive(Debug, Default)]
pub(crate) struct PoolPlaces {
    own: Vec<Place>,
    pools: BTreeMap<DriverName, Vec<Place>>,
}

/// The real location of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// For messages.
    name: String,
    /// The path without links, as far as they could be resolved.
    path: PathBuf,
    /// The device of the file system, and the path from its root.
    within: Option<(DeviceNumber, PathBuf)>,
}

impl PoolPlaces {
    /// Starts with directories of the host, in which no pool may lie.
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        let named = own.iter().map(|path| {
            let name = format!("the host's own directory {}", path.display());
            (name, path.clone())
        });
        Self {
            own: resolved(named.collect()),
            pools: BTreeMap::new(),
        }
    }

    /// Replaces the pools of a driver. If any of the new pools overlaps, the driver keeps its old ones.
    pub(crate) fn set(
        &mut self,
        driver: &DriverName,
        new: Vec<Place>,
    ) -> Result<(), OverlappingPools> {
        let others = self.pools.iter().filter(|(other, _)| *other != driver);
        let mut others: Vec<_> = others.flat_map(|(_, places)| places).collect();
        for place in &new {
            let other = self
                .own
                .iter()
                .find(|own| place.is_at(own) || place.is_nested(own));
            let other = other.or_else(|| others.iter().find(|it| place.is_nested(it)).copied());
            if let Some(other) = other {
                return Err(OverlappingPools {
                    pool: place.name.clone(),
                    other: other.name.clone(),
                });
            }
            others.push(place);
        }
        self.pools.insert(driver.clone(), new);
        Ok(())
    }
}

impl Place {
    /// A tree of a server. Its source is a relative path, so it overlaps with sources of the same spelling and with no directory.
    fn on_server(name: String, source: &str) -> Self {
        Self {
            name,
            path: source.into(),
            within: None,
        }
    }

    fn of(name: String, path: PathBuf, table: &[MountLine]) -> Self {
        let within = mountinfo::covering(table, &path).and_then(|line| {
            let below = path.strip_prefix(&line.mount_point).ok()?;
            Some((line.device, line.root.join(below)))
        });
        Self { name, path, within }
    }

    fn is_at(&self, other: &Self) -> bool {
        self.path == other.path || self.within.is_some() && self.within == other.within
    }

    /// Whether one lies strictly in the other.
    fn is_nested(&self, other: &Self) -> bool {
        let within = match (&self.within, &other.within) {
            (Some((device, path)), Some((other_device, other_path))) => {
                device == other_device && is_nested(path, other_path)
            }
            _ => false,
        };
        within || is_nested(&self.path, &other.path)
    }
}

fn is_nested(one: &Path, other: &Path) -> bool {
    one != other && (one.starts_with(other) || other.starts_with(one))
}

/// The locations of a driver's pools. It may take [`RESOLVED_WITHIN`].
pub(crate) fn places(driver: &DriverName, pools: &BTreeMap<String, PoolGrant>) -> Vec<Place> {
    let described =
        |name: &str, place: &dyn Display| format!("pool `{name}` of {driver} at {place}");
    let directories = pools.iter().filter_map(|(name, grant)| {
        let path = grant.directory()?;
        Some((described(name, &path.display()), path.to_owned()))
    });
    let mounted = pools.iter().filter_map(|(name, grant)| {
        let source = &grant.mount()?.source;
        Some(Place::on_server(described(name, source), source))
    });
    let mut places = resolved(directories.collect());
    places.extend(mounted);
    places
}

/// Resolves links on a thread that may hang.
fn resolved(named: Vec<(String, PathBuf)>) -> Vec<Place> {
    let links = named.clone().into_iter();
    let follow = move || links.map(|(name, path)| (name, real(&path))).collect();
    let followed = within(RESOLVED_WITHIN, "pool-places", follow);
    let named: Vec<_> = followed.ok().flatten().unwrap_or(named);
    let table = mountinfo::read().unwrap_or_default();
    let places = named.into_iter();
    places
        .map(|(name, path)| Place::of(name, path, &table))
        .collect()
}

/// A pool's directory may not exist yet.
fn real(path: &Path) -> PathBuf {
    let parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let real = path.canonicalize().ok().or_else(parent);
    real.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use wasmount_core::document::{PoolMount, PoolStorage};

    fn named(name: &str) -> DriverName {
        DriverName::parse(name).unwrap()
    }

    fn pools(paths: &[&Path]) -> BTreeMap<String, PoolGrant> {
        let grant = |path: &&Path| {
            let grant = PoolGrant {
                storage: PoolStorage::Directory(path.to_path_buf()),
                full_copies: false,
                mount_options: Vec::new(),
            };
            (path.display().to_string(), grant)
        };
        paths.iter().map(grant).collect()
    }

    fn set(into: &mut PoolPlaces, driver: &str, paths: &[&Path]) -> Result<(), OverlappingPools> {
        let driver = named(driver);
        let places = places(&driver, &pools(paths));
        into.set(&driver, places)
    }

    #[test]
    fn pools_that_lie_in_one_another_are_refused_by_both_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("p/b")).unwrap();
        symlink(path("p"), path("link")).unwrap();
        let mut places = PoolPlaces::new(&[path("run")]);
        set(&mut places, "a.test", &[&path("p")]).unwrap();
        for nested in ["p/b", "p/not-yet", "link/b", "link/b/c"] {
            let refused = set(&mut places, "b.test", &[&path(nested)]);
            let refused = refused.unwrap_err().to_string();
            for name in ["of b.test at", "of a.test at"] {
                assert!(refused.contains(name), "{nested}: {refused}");
            }
        }
        for apart in ["p", "link", "p2", "q/r"] {
            let taken = set(&mut places, "b.test", &[&path(apart)]);
            assert_eq!(taken, Ok(()), "{apart}");
        }
        let own = set(&mut places, "b.test", &[&path("q"), &path("q/r")]);
        assert!(own.is_err());
        // A directory that one driver gives up is available to another.
        places.set(&named("a.test"), Vec::new()).unwrap();
        set(&mut places, "b.test", &[&path("p/b")]).unwrap();
    }

    #[test]
    fn a_pool_in_or_around_a_directory_of_the_host_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut places = PoolPlaces::new(&[path("data/mounts"), path("run")]);
        for own in [
            "data",
            "data/mounts",
            "data/mounts/pool",
            "run",
            "run/x",
            ".",
        ] {
            let refused = set(&mut places, "a.test", &[&path(own)]);
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("the host's own directory"),
                "{own}: {refused}"
            );
        }
        let usual = path("data/pools/a");
        assert_eq!(set(&mut places, "a.test", &[&usual]), Ok(()));
    }

    #[test]
    fn pools_of_one_server_are_the_same_tree_or_apart() {
        let mut places = PoolPlaces::new(&["/run/wasmount".into()]);
        let mut set = |driver: &str, source: &str| {
            let mount = PoolMount {
                fs_type: "nfs4".to_owned(),
                source: source.to_owned(),
                options: Vec::new(),
            };
            let grant = PoolGrant {
                storage: PoolStorage::Mount(mount),
                full_copies: false,
                mount_options: Vec::new(),
            };
            let driver = named(driver);
            let pools = BTreeMap::from([("nas".to_owned(), grant)]);
            places.set(&driver, super::places(&driver, &pools))
        };
        set("a.test", "nas:/export/a").unwrap();
        for nested in [
            "nas:/export/a/b",
            "nas:/export",
            "nas:/",
            "nas:/export//a/b/",
        ] {
            let refused = set("b.test", nested).unwrap_err().to_string();
            assert!(refused.contains("of a.test at nas:/export/a"), "{refused}");
        }
        for apart in ["nas:/export/a", "nas:/export/ab", "other:/export/a/b"] {
            assert_eq!(set("b.test", apart), Ok(()), "{apart}");
        }
    }

    #[test]
    fn a_bind_mount_of_what_lies_in_a_pool_is_in_the_pool() {
        let table = mountinfo::parse(
            b"1 0 8:1 / / rw - ext4 /dev/a rw
2 1 8:1 /p/b /srv rw - ext4 /dev/a rw
3 1 8:2 / /p/disk rw - ext4 /dev/b rw
",
        );
        let place = |path: &str| Place::of(path.to_owned(), path.into(), &table);
        let pool = place("/p");
        assert!(pool.is_nested(&place("/srv")) && pool.is_nested(&place("/srv/c")));
        assert!(place("/srv").is_at(&place("/p/b")));
        assert!(!place("/q").is_nested(&place("/srv")));
        // It is on another file system, and still in the way of a walk of the pool.
        assert!(pool.is_nested(&place("/p/disk/pool")));
    }
}

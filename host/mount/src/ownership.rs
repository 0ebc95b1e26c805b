//! Which mounts can be a driver's own, told without the journal: those that show something in one of its pools, and its tmpfs.
//!
//! It is apart because a tear-down without a record rests on it: the path may hold another driver's volume, or a pod's own mount. Only the
//! mount table is read, so storage that hangs is not touched. It must not know how a mount is taken off.

use crate::failure::kernel;
use crate::mountinfo::{self, MountLine};
use crate::node::Node;
use crate::observe::mount_id;
use crate::roots::{CheckedPath, open_root, real_path};
use std::path::{Path, PathBuf};
use wasmount_core::document::Grants;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;

/// What the mount table shows of a driver's pools.
pub(crate) struct Shown {
    /// Trees of the pool that was asked for, relative to it.
    pub(crate) trees: Vec<String>,
    /// The journal knows every mount of the driver's pools: it alone can be asked from now on, for this host records what it mounts.
    pub(crate) is_recorded: bool,
}

/// What mounts of one driver can show.
struct OwnSources {
    pools: Vec<PoolRoot>,
    has_tmpfs: bool,
}

/// A pool, as the mount table tells of what lies in it.
struct PoolRoot {
    device: String,
    /// From the root of its file system.
    root: PathBuf,
}

impl Node {
    /// Refuses to take down what no record of the volume names, unless all of it can be its driver's.
    pub(crate) fn refuse_foreign(
        &self,
        key: &VolumeKey,
        path: &CheckedPath,
    ) -> Result<(), MountError> {
        let entry = self.journal.entry(key);
        if entry.mounts().any(|(known, _, _)| known == path.text()) {
            return Ok(());
        }
        let Some(point) = path.in_mount_table()? else {
            return Ok(());
        };
        let table = mountinfo::read()?;
        let mut there = table.iter().filter(|line| line.mount_point == point);
        let Some(first) = there.next() else {
            return Ok(());
        };
        let own = OwnSources::of(&self.grants_of(&key.driver), &table);
        if own.include(first) && there.all(|line| own.include(line)) {
            return Ok(());
        }
        Err(MountError::InUse {
            what: path.text().to_owned(),
            by: format!(
                "what is mounted there is not a mount of this driver: it is neither in a pool nor a tmpfs that {} was granted, and the journal does not know it; if it is to go, unmount it by hand",
                key.driver
            ),
        })
    }
}

impl Node {
    /// What is mounted of one of a driver's pools, by the mount table alone.
    pub(crate) fn shown(&self, driver: &DriverName, pool: &str) -> Result<Shown, MountError> {
        let table = mountinfo::read()?;
        let grants = self.grants_of(driver);
        let own = OwnSources::of(&grants, &table);
        let has_record = |line: &MountLine| {
            let point = line.mount_point.to_str();
            point.is_some_and(|point| !self.journal.holders_of(point).is_empty())
        };
        let asked = match grants.pools.get(pool) {
            Some(grant) => PoolRoot::find(&grant.path, &table)?,
            None => None,
        };
        Ok(Shown {
            trees: asked.map_or_else(Vec::new, |root| {
                table.iter().filter_map(|line| root.tree(line)).collect()
            }),
            is_recorded: table
                .iter()
                .filter(|line| own.pools.iter().any(|root| root.holds(line)))
                .all(has_record),
        })
    }
}

impl OwnSources {
    fn of(grants: &Grants, table: &[MountLine]) -> Self {
        let pools = grants.pools.iter().filter_map(|(name, grant)| {
            PoolRoot::find(&grant.path, table).unwrap_or_else(|error| {
                tracing::warn!(pool = name, %error, "mounts of a pool cannot be told from others");
                None
            })
        });
        Self {
            pools: pools.collect(),
            has_tmpfs: grants
                .filesystems
                .iter()
                .any(|grant| grant.fs_type == "tmpfs"),
        }
    }

    fn include(&self, line: &MountLine) -> bool {
        self.pools.iter().any(|pool| pool.holds(line))
            || self.has_tmpfs && line.fs_type == "tmpfs" && line.root == Path::new("/")
    }
}

impl PoolRoot {
    /// `None`: the pool's directory does not exist.
    fn find(directory: &Path, table: &[MountLine]) -> Result<Option<Self>, MountError> {
        let Some(opened) = open_root(directory)? else {
            return Ok(None);
        };
        let id = mount_id(&opened).map_err(|errno| kernel("statx", directory.display(), errno))?;
        let real = real_path(&opened)?;
        let found = table.iter().find(|line| line.mount_id == id);
        Ok(found.and_then(|line| {
            let below = real.strip_prefix(&line.mount_point).ok()?;
            Some(Self {
                device: line.device.clone(),
                root: line.root.join(below),
            })
        }))
    }

    /// What of the pool a mount shows, relative to the pool.
    fn tree(&self, line: &MountLine) -> Option<String> {
        if !self.holds(line) {
            return None;
        }
        let tree = line.root.strip_prefix(&self.root).ok()?;
        tree.to_str().map(str::to_owned)
    }

    /// Strictly below: no plan mounts a whole pool.
    fn holds(&self, line: &MountLine) -> bool {
        line.device == self.device && line.root != self.root && line.root.starts_with(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> MountLine {
        let line = format!("9 1 {words} x rw");
        mountinfo::parse(line.as_bytes()).remove(0)
    }

    fn own(has_tmpfs: bool) -> OwnSources {
        let pool = PoolRoot {
            device: "8:1".to_owned(),
            root: "/srv/pool".into(),
        };
        OwnSources {
            pools: vec![pool],
            has_tmpfs,
        }
    }

    #[test]
    fn what_lies_in_a_pool_and_a_granted_tmpfs_can_be_the_drivers() {
        for words in [
            "8:1 /srv/pool/v /t rw - ext4",
            "8:1 /srv/pool/a/b /t rw shared:1 - ext4",
            // Removed under the mount.
            "8:1 /srv/pool/.wasmount/trash/1//deleted /t rw - ext4",
            "0:50 / /t rw - tmpfs",
        ] {
            assert!(own(true).include(&line(words)), "{words}");
        }
    }

    #[test]
    fn a_mount_tells_which_tree_of_the_pool_it_shows() {
        let own = own(false);
        let tree = |words: &str| own.pools[0].tree(&line(words));
        assert_eq!(
            tree("8:1 /srv/pool/a/b /t rw - ext4").as_deref(),
            Some("a/b")
        );
        assert_eq!(tree("8:2 /srv/pool/a/b /t rw - ext4"), None);
    }

    #[test]
    fn what_lies_elsewhere_cannot() {
        for words in [
            "8:1 /srv/pool /t rw - ext4",
            "8:1 /srv/pools/v /t rw - ext4",
            "8:1 /srv /t rw - ext4",
            "8:1 / /t rw - ext4",
            "8:2 /srv/pool/v /t rw - ext4",
            "0:50 / /t rw - tmpfs",
            "0:51 / /t rw - fuse.other",
        ] {
            assert!(!own(false).include(&line(words)), "{words}");
        }
        assert!(!own(true).include(&line("0:50 /part /t rw - tmpfs")));
    }
}

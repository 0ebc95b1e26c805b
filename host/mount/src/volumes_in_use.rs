//! Which volumes of a driver this node has in use, and where.
//!
//! Journal and mount table tell: storage that hangs is not touched. A volume whose record was lost with the run directory is not told.

use crate::journal::entry::{Entry, Progress};
use crate::node::Node;
use crate::recovery::MountPoints;
use wasmount_core::mounter::{MountError, VolumeInUse};
use wasmount_core::names::DriverName;

impl Node {
    /// In the order of their ids.
    pub(crate) fn volumes_in_use(
        &self,
        driver: &DriverName,
    ) -> Result<Vec<VolumeInUse>, MountError> {
        let table = MountPoints::read()?;
        let entries = self.journal.of_driver(driver).into_iter();
        Ok(entries
            .filter_map(|entry| self.in_use(entry, &table))
            .collect())
    }

    fn in_use(&self, entry: Entry, table: &MountPoints) -> Option<VolumeInUse> {
        // What is coming or going may be there, whatever the table says; and a path that cannot be looked at.
        let is_there = |path: &str, progress: Progress| {
            let path = self.roots.check_text(path);
            progress != Progress::Settled || path.and_then(|path| table.has(&path)).unwrap_or(true)
        };
        let staged = entry.stage.as_ref().filter(|stage| match stage.raw() {
            Some(_) => self.has_raw_device(&entry.key, stage),
            None => is_there(&stage.path, stage.progress),
        });
        let targets = entry.targets.iter();
        let targets = targets.filter(|(path, target)| is_there(path, target.progress));
        let volume = VolumeInUse {
            volume: entry.key.volume.clone(),
            staging_path: staged.map(|stage| stage.path.clone()),
            target_paths: targets.map(|(path, _)| path.clone()).collect(),
        };
        (volume.staging_path.is_some() || !volume.target_paths.is_empty()).then_some(volume)
    }
}

//! Staging and target paths in kubelet's layout. A directory is removed only if it was made here, and only while it is empty: what is still mounted is
//! never touched.

use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Mode of the directories, as kubelet's.
const MODE: u32 = 0o750;

/// The paths of one volume for one pod.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) staging: PathBuf,
    pub(crate) target: PathBuf,
    made: Made,
}

/// Directories that were made here, each after those that it is in. They are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Made(Vec<PathBuf>);

impl Paths {
    /// Makes the staging path, and the parent of the target path.
    pub(crate) fn make(kubelet: &Path, driver: &str, volume: &str) -> io::Result<Self> {
        let hash = hex::encode(Sha256::digest(volume));
        let staging = staging_of(kubelet, driver).join(hash).join("globalmount");
        let pod = pods_of(kubelet)
            .join(volume)
            .join("volumes/kubernetes.io~csi");
        let pod = pod.join(volume);
        let mut made = Made::default();
        made.make(&staging)?;
        made.make(&pod)?;
        Ok(Self {
            staging,
            target: pod.join("mount"),
            made,
        })
    }

    /// Removes the target path if the driver has left it, as kubelet does; false: it is still there.
    pub(crate) fn remove_target(&self) -> bool {
        is_gone(&fs::remove_dir(&self.target))
    }

    /// Removes all of them, and names those that could not be removed.
    pub(crate) fn remove(mut self) -> Vec<String> {
        self.remove_target();
        let left = self.made.remove().into_iter();
        left.map(|path| format!("the directory {} is not removed", path.display()))
            .collect()
    }
}

impl Made {
    /// Makes the directories that all volumes of a driver share.
    pub(crate) fn shared(&mut self, kubelet: &Path, driver: &str) -> io::Result<()> {
        self.make(&staging_of(kubelet, driver))?;
        self.make(&pods_of(kubelet))
    }

    /// Makes a directory and its missing parents.
    pub(crate) fn make(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<_> = path.ancestors().take_while(|it| !it.exists()).collect();
        for path in missing.into_iter().rev() {
            match DirBuilder::new().mode(MODE).create(path) {
                Ok(()) => self.0.push(path.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes them; those that could not be removed.
    pub(crate) fn remove(&mut self) -> Vec<PathBuf> {
        let made = std::mem::take(&mut self.0).into_iter().rev();
        made.filter(|path| !is_gone(&fs::remove_dir(path)))
            .collect()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.remove();
    }
}

fn is_gone(removal: &io::Result<()>) -> bool {
    match removal {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn staging_of(kubelet: &Path, driver: &str) -> PathBuf {
    kubelet.join("plugins/kubernetes.io/csi").join(driver)
}

fn pods_of(kubelet: &Path) -> PathBuf {
    kubelet.join("pods")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_kubelet_and_go_with_their_volume() {
        let folder = tempfile::tempdir().unwrap();
        let kubelet = folder.path().join("kubelet");
        let mut shared = Made::default();
        shared.shared(&kubelet, "a.test").unwrap();
        let paths = Paths::make(&kubelet, "a.test", "v").unwrap();
        let hash = "4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080";
        let csi = kubelet.join("plugins/kubernetes.io/csi/a.test");
        assert_eq!(paths.staging, csi.join(hash).join("globalmount"));
        let pod = kubelet.join("pods/v/volumes/kubernetes.io~csi/v");
        assert_eq!(paths.target, pod.join("mount"));
        assert!(paths.staging.is_dir() && pod.is_dir() && !paths.target.exists());
        fs::create_dir(&paths.target).unwrap();
        assert!(paths.remove_target() && !paths.target.exists());
        assert!(paths.remove_target(), "a driver has removed it");
        assert_eq!(paths.remove(), Vec::<String>::new());
        assert!(csi.is_dir() && !csi.join(hash).exists());
        assert_eq!(shared.remove(), Vec::<PathBuf>::new());
        assert!(!kubelet.exists() && folder.path().exists());
    }

    #[test]
    fn what_is_not_empty_or_was_there_stays_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let kubelet = folder.path().to_owned();
        fs::create_dir(kubelet.join("pods")).unwrap();
        let paths = Paths::make(&kubelet, "a.test", "v").unwrap();
        let staging = paths.staging.clone();
        fs::write(staging.join("data"), "of a pod").unwrap();
        fs::create_dir_all(paths.target.join("data")).unwrap();
        assert!(!paths.remove_target());
        let left = paths.remove();
        let named = |path: &Path| format!("the directory {} is not removed", path.display());
        assert!(left.contains(&named(&staging)), "{left:?}");
        assert!(left.contains(&named(&kubelet.join("pods/v"))), "{left:?}");
        assert_eq!(fs::read(staging.join("data")).unwrap(), b"of a pod");
        assert!(kubelet.join("pods").is_dir());
    }
}

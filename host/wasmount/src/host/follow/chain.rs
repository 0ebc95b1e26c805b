//! The directories whose events tell that a path leads to another file. A Secret that Kubernetes mounts is a link to a link, and only the middle one
//! is ever changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Links that are followed on one path: the kernel's own bound (path_resolution(7)).
const LINKS: usize = 40;

/// Every directory that holds a link on the way, and the one that holds the file; of what is not there, the nearest that is.
pub(super) fn directories(file: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut path = file.to_owned();
    for _ in 0..LINKS {
        match first_link(&path) {
            Way::Link { holder, target } => {
                found.insert(holder);
                path = target;
            }
            Way::Plain { holder } => {
                found.insert(holder);
                break;
            }
        }
    }
    found
}

/// What the beginning of a path shows.
enum Way {
    /// A link in this directory, and the path with the link's target in its place.
    Link { holder: PathBuf, target: PathBuf },
    /// No link; the nearest directory that is there.
    Plain { holder: PathBuf },
}

fn first_link(path: &Path) -> Way {
    let mut reached = PathBuf::new();
    let mut holder = PathBuf::from("/");
    let mut rest = path.components();
    while let Some(component) = rest.next() {
        match component {
            Component::ParentDir => {
                reached.pop();
                continue;
            }
            Component::CurDir => continue,
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                reached.push(component);
            }
        }
        let Ok(status) = fs::symlink_metadata(&reached) else {
            return Way::Plain { holder };
        };
        let above = reached.parent().unwrap_or(Path::new("/")).to_owned();
        if status.is_symlink()
            && let Ok(target) = fs::read_link(&reached)
        {
            let target = above.join(target).join(rest.as_path());
            return Way::Link {
                holder: above,
                target,
            };
        }
        if status.is_dir() {
            holder.clone_from(&reached);
        }
    }
    // The path names a directory where a file should be: its own coming and going counts.
    let above = reached.parent().map(Path::to_owned);
    Way::Plain {
        holder: if reached.is_dir() {
            above.unwrap_or(holder)
        } else {
            holder
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_watch_names_the_directory_or_the_nearest_parent() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::write(root.join("a"), "").unwrap();
        for path in ["a", "b", "c/d/e"] {
            let found = directories(&root.join(path));
            assert_eq!(found, BTreeSet::from([root.clone()]), "{path}");
        }
    }

    #[test]
    fn a_secret_of_kubernetes_is_told_by_each_link_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let first = root.join("..2026");
        fs::create_dir(&first).unwrap();
        fs::write(first.join("password"), "").unwrap();
        symlink("..2026", root.join("..data")).unwrap();
        symlink("..data/password", root.join("password")).unwrap();
        assert_eq!(
            directories(&root.join("password")),
            BTreeSet::from([root, first])
        );
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(directories(&root.join("a")), BTreeSet::from([root]));
    }
}

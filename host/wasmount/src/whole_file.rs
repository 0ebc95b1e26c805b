//! Writes a file completely or not at all.
//!
//! The bytes are first written to a file without a name, and are on stable storage before it gets one: a process that is killed meanwhile leaves
//! nothing, since the kernel removes a file without a name. On file systems without such files a temporary file with a name is used.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// Mode of a new file before the user's umask: the usual mode for `open`.
pub(crate) const NEW_FILE: u32 = 0o666;
/// Mode of a file that only its owner may access.
pub(crate) const PRIVATE_FILE: u32 = 0o600;

/// Writes with `write`, then renames the file to its path. `mode` is that of a new file.
pub(crate) fn write<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(name) = path.file_name() else {
        let no_file = io::Error::new(io::ErrorKind::InvalidInput, "is not the name of a file");
        return Err(no_file.into());
    };
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return through(path, write);
    }
    // The target of a link is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or(name);
    let mut aside = OsString::from(".");
    aside.push(name);
    // Two processes may write the same file at the same time.
    aside.push(format!(".{}.part", process::id()));
    let aside = path.with_file_name(aside);
    let written = match nameless(path, mode)? {
        Some(file) => whole(&file, write).and_then(|()| Ok(give_name(&file, &aside)?)),
        None => whole(&named(&aside, mode)?, write),
    };
    let done = written.and_then(|()| Ok(fs::rename(&aside, path)?));
    if done.is_err() {
        // The write error is reported; a leftover part is not worth another line.
        let _ = fs::remove_file(&aside);
    }
    done
}

/// Writes into a device or a pipe, which is not replaced.
fn through<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(File::options().write(true).open(path)?);
    write(&mut file)?;
    Ok(file.flush()?)
}

/// A file without a name in the folder of `path`, if the file system supports it (open(2), `O_TMPFILE`) and /proc is mounted, to link it by name.
fn nameless(path: &Path, mode: u32) -> io::Result<Option<File>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)) {
        Ok(file) => {
            let file = File::from(file);
            Ok(magic_link(&file).exists().then_some(file))
        }
        Err(error) if has_no_nameless(error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A new file: an existing one is removed, so that neither that file nor the target of a link is written.
fn named(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    let options = options.write(true).create_new(true).mode(mode);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        done => done,
    }
}

/// Whether the file system lacks such files; two of the errors are those of kernels that do not know the flag (open(2), "BUGS").
fn has_no_nameless(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::INVAL, Errno::ISDIR].contains(&error)
}

/// Gives it a temporary name just before it is renamed: a link(2) never replaces a file.
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let named = || linkat(CWD, magic_link(file), CWD, name, AtFlags::SYMLINK_FOLLOW);
    match named() {
        // A leftover of a process with the same id that was killed at that moment.
        Err(Errno::EXIST) => {
            fs::remove_file(name)?;
            Ok(named()?)
        }
        done => Ok(done?),
    }
}

fn magic_link(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn whole<E: From<io::Error>>(
    file: &File,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(file.try_clone()?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.wasm");
        fs::write(&path, "old").unwrap();
        write(&path, NEW_FILE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
    }

    #[test]
    fn what_is_written_has_no_name_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.wasm");
        write(&path, NEW_FILE, |file| {
            file.write_all(b"half")?;
            file.flush()?;
            assert_eq!(names(folder.path()), [""; 0]);
            io::Result::Ok(())
        })
        .unwrap();
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
        // A leftover of a process with the same id does not prevent the write.
        let left = folder
            .path()
            .join(format!(".plugin.wasm.{}.part", process::id()));
        fs::write(&left, "left").unwrap();
        write(&path, NEW_FILE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_with_a_name_is_for_want_of_nameless_ones_alone() {
        assert!(has_no_nameless(Errno::OPNOTSUPP));
        assert!(!has_no_nameless(Errno::NOSPC));
        let folder = tempfile::tempdir().unwrap();
        let nameless = |name| nameless(&folder.path().join(name), NEW_FILE);
        assert!(nameless("x").unwrap().is_some());
        assert!(nameless("none/x").is_err());
    }

    #[test]
    fn a_named_output_file_is_new_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, planted] = ["victim", "planted"].map(|name| folder.path().join(name));
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &planted).unwrap();
        let mut file = named(&planted, PRIVATE_FILE).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        assert_eq!(mode_of(&planted), PRIVATE_FILE);
    }

    #[test]
    fn a_private_file_is_its_owners_alone_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(NEW_FILE)).unwrap();
        write(&path, PRIVATE_FILE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode_of(&path), PRIVATE_FILE);
        write(&path, NEW_FILE, |file| file.write_all(b"open")).unwrap();
        assert_ne!(mode_of(&path), PRIVATE_FILE);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["plugin.wasm", "link"].map(|name| folder.path().join(name));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, NEW_FILE, |file| file.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_device_and_a_pipe_take_what_is_written_and_stay() {
        let written = write(Path::new("/dev/null"), NEW_FILE, |file| {
            file.write_all(b"new")
        });
        written.unwrap();
        let full = write(Path::new("/dev/full"), NEW_FILE, |file| {
            file.write_all(b"new")
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        for device in ["/dev/null", "/dev/full"] {
            assert!(!fs::metadata(device).unwrap().is_file());
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, NEW_FILE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(reader.join().unwrap(), b"new");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.wasm");
        fs::write(&path, "old").unwrap();
        let failed = write(&path, NEW_FILE, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
        assert!(write(Path::new("/"), NEW_FILE, |_| io::Result::Ok(())).is_err());
    }
}

//! Writes a file whole or not at all.
//!
//! The bytes go to a file without a name first, and are on stable storage before it gets one: whoever is killed meanwhile leaves nothing, since the
//! kernel removes what has no name. File systems that have no such files get one with a name of its own.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// Of a file before the user's own mask: what `open` gives a new file elsewhere.
const NEW_FILE: u32 = 0o666;
/// Of a file for its owner alone.
const PRIVATE_FILE: u32 = 0o600;

/// Writes by `write`, then puts the file in its place.
pub(crate) fn write<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    write_as(path, NEW_FILE, write)
}

/// The same, for the eyes of the user alone.
pub(crate) fn write_private<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    write_as(path, PRIVATE_FILE, write)
}

fn write_as<E: From<io::Error>>(
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
    // What a link leads to is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or(name);
    let mut aside = OsString::from(".");
    aside.push(name);
    // Two processes may write the same file at once.
    aside.push(format!(".{}.part", process::id()));
    let aside = path.with_file_name(aside);
    let written = match nameless(path, mode)? {
        Some(file) => whole(&file, write).and_then(|()| Ok(give_name(&file, &aside)?)),
        None => whole(&named(&aside, mode)?, write),
    };
    let done = written.and_then(|()| Ok(fs::rename(&aside, path)?));
    if done.is_err() {
        // What went wrong is said; that a part is left is not worth another line.
        let _ = fs::remove_file(&aside);
    }
    done
}

/// Into a device or a pipe, which takes what it is given and stays.
fn through<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(File::options().write(true).open(path)?);
    write(&mut file)?;
    Ok(file.flush()?)
}

/// A file without a name in the folder of `path`, where the file system has such (open(2), `O_TMPFILE`) and /proc is there to give it one.
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

/// A new file: never one that is there, whoever put it there, nor what a link leads to.
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

/// Whether it is for want of such files; two of the words are of kernels that do not know the flag (open(2), "BUGS").
fn has_no_nameless(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::INVAL, Errno::ISDIR].contains(&error)
}

/// One moment before it is renamed: a link never takes the place of a file.
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let named = || linkat(CWD, magic_link(file), CWD, name, AtFlags::SYMLINK_FOLLOW);
    match named() {
        // Of one that had our number before, and was killed in that moment.
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
        write(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
    }

    #[test]
    fn what_is_written_has_no_name_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.wasm");
        write(&path, |file| {
            file.write_all(b"half")?;
            file.flush()?;
            assert_eq!(names(folder.path()), [""; 0]);
            io::Result::Ok(())
        })
        .unwrap();
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
        // What one with our number left is no hindrance.
        let left = folder
            .path()
            .join(format!(".plugin.wasm.{}.part", process::id()));
        fs::write(&left, "left").unwrap();
        write(&path, |file| file.write_all(b"new")).unwrap();
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
        write_private(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode_of(&path), PRIVATE_FILE);
        write(&path, |file| file.write_all(b"open")).unwrap();
        assert_ne!(mode_of(&path), PRIVATE_FILE);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["plugin.wasm", "link"].map(|name| folder.path().join(name));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, |file| file.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_device_and_a_pipe_take_what_is_written_and_stay() {
        let written = write(Path::new("/dev/null"), |file| file.write_all(b"new"));
        written.unwrap();
        let full = write(Path::new("/dev/full"), |file| file.write_all(b"new"));
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
        write(&pipe, |file| file.write_all(b"new")).unwrap();
        assert_eq!(reader.join().unwrap(), b"new");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.wasm");
        fs::write(&path, "old").unwrap();
        let failed = write(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["plugin.wasm"]);
        assert!(write(Path::new("/"), |_| io::Result::Ok(())).is_err());
    }
}

//! Writes a file whole or not at all. Apart because whoever reads a plugin while it is being written must find the old one or the new one,
//! never a half.
//!
//! The bytes go to a name beside it first, and are on stable storage before it has its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process;

/// Writes by `write`, then puts the file in its place.
pub(crate) fn write<E: From<io::Error>>(
    path: &Path,
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
    let done = whole(&aside, write).and_then(|()| Ok(fs::rename(&aside, path)?));
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

fn whole<E: From<io::Error>>(
    aside: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(File::create(aside)?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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

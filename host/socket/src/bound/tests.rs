//! Sockets in a temporary directory.

use super::*;
use crate::{SocketState, remove_stale};
use rustix::fs::inotify;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(directory: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_bound_socket_is_private_and_has_one_name() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    let _socket = BoundSocket::bind(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    UnixStream::connect(&path).unwrap();
    assert_eq!(names(directory.path()), ["csi.sock"]);
}

#[test]
fn a_socket_bound_in_place_shows_its_own_name_alone() {
    let directory = directory();
    let path = directory.path().join("a@reg.sock");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let seen = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVE;
    inotify::add_watch(&watch, directory.path(), seen).unwrap();
    let socket = BoundSocket::bind_in_place(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let event = events.next().unwrap();
    assert_eq!(event.events(), inotify::ReadFlags::CREATE);
    assert_eq!(event.file_name().unwrap().to_bytes(), b"a@reg.sock");
    assert_eq!(events.next().unwrap_err(), Errno::AGAIN);

    let taken = BoundSocket::bind_in_place(&path);
    assert!(matches!(taken, Err(SocketError::Live { .. })), "{taken:?}");
    drop(socket);
    // The socket of a killed process is replaced.
    drop(StdListener::bind(&path).unwrap());
    BoundSocket::bind_in_place(&path).unwrap();
}

#[test]
fn a_dropped_socket_is_removed() {
    let directory = directory();
    drop(BoundSocket::bind(&directory.path().join("csi.sock")).unwrap());
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_dropped_socket_leaves_that_of_a_successor() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    let first = BoundSocket::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = BoundSocket::bind(&path).unwrap();
    let inode = std::fs::metadata(&path).unwrap().ino();
    drop(first);
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn a_stale_socket_is_replaced_under_either_name() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    for stale in ["csi.sock", ".csi.soc"] {
        drop(StdListener::bind(directory.path().join(stale)).unwrap());
    }
    let _socket = BoundSocket::bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    assert_eq!(names(directory.path()), ["csi.sock"]);
}

#[test]
fn a_live_socket_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    let _first = BoundSocket::bind(&path).unwrap();
    let error = BoundSocket::bind(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "another process serves on {}: stop it first",
            path.display()
        )
    );
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_live_socket_whose_backlog_is_full_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    let listener = stream_socket().unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    assert!(matches!(
        BoundSocket::bind(&path),
        Err(SocketError::Live { .. })
    ));
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(
        BoundSocket::bind(&path),
        Err(SocketError::NotASocket { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();

    let target = directory.path().join("elsewhere");
    drop(StdListener::bind(&target).unwrap());
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(matches!(
        BoundSocket::bind(&path),
        Err(SocketError::NotASocket { .. })
    ));
}

#[test]
fn a_path_of_107_bytes_is_bound() {
    let directory = directory();
    let name = "s".repeat(SOCKET_PATH_BYTES - directory.path().as_os_str().len() - 1);
    let path = directory.path().join(name);
    assert_eq!(path.as_os_str().len(), 107);
    let _socket = BoundSocket::bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_path_of_108_bytes_is_refused_before_anything_is_touched() {
    let path = Path::new("/").join("s".repeat(107));
    let error = BoundSocket::bind(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "socket path {} is 108 bytes long, the system takes 107: choose a shorter directory",
            path.display()
        )
    );
}

#[test]
fn a_path_without_a_proper_file_name_is_refused() {
    for path in ["/", "..", "s", "..."] {
        assert!(
            matches!(
                BoundSocket::bind(Path::new(path)),
                Err(SocketError::NoFileName { .. })
            ),
            "{path}"
        );
    }
}

#[test]
fn a_directory_that_is_missing_is_an_error_that_names_it() {
    let error = BoundSocket::bind(Path::new("/nonexistent/csi.sock")).unwrap_err();
    assert_eq!(error.to_string(), "could not bind /nonexistent/.csi.soc");
}

#[test]
fn a_live_socket_of_another_type_differs_from_a_stale_one() {
    let directory = directory();
    let path = directory.path().join("a.sock");
    let flags = SocketFlags::CLOEXEC;
    let packets = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&packets, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&packets, BACKLOG).unwrap();
    let refused = BoundSocket::bind(&path);
    assert!(
        matches!(refused, Err(SocketError::Live { .. })),
        "{refused:?}"
    );
    drop(packets);
    drop(BoundSocket::bind(&path).unwrap());
}

#[test]
fn a_stale_socket_is_removed_and_a_live_one_is_not() {
    let directory = directory();
    let path = directory.path().join("a.sock");
    assert!(!remove_stale(&path).unwrap());
    drop(StdListener::bind(&path).unwrap());
    assert!(remove_stale(&path).unwrap());
    assert!(!path.exists());
    let _live = StdListener::bind(&path).unwrap();
    assert!(matches!(remove_stale(&path), Err(SocketError::Live { .. })));
    assert!(path.exists());
}

#[test]
fn a_file_knows_whether_its_name_still_leads_to_it() {
    let directory = directory();
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("a.sock");
    let (_listener, file) = BoundSocket::bind(&path).unwrap().into_parts();
    assert_eq!(file.state().unwrap(), SocketState::Ours);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(file.state().unwrap(), SocketState::Gone);
    let _other = StdListener::bind(&path).unwrap();
    assert_eq!(file.state().unwrap(), SocketState::Anothers);
    std::fs::remove_dir_all(&inner).unwrap();
    assert_eq!(file.state().unwrap(), SocketState::Gone);
}

#[test]
fn a_socket_of_this_user_is_this_users() {
    let directory = directory();
    let path = directory.path().join("mounter.sock");
    let own = rustix::process::geteuid().as_raw();
    let socket = BoundSocket::bind_for(&path, own).unwrap();
    let metadata = std::fs::symlink_metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert_eq!(metadata.uid(), own);
    drop(socket);
    assert!(names(directory.path()).is_empty());
}

#[test]
fn privileged_a_socket_for_another_user_is_that_users_alone() {
    const NOBODY: u32 = 65534;
    let directory = directory();
    let path = directory.path().join("mounter.sock");
    let _socket = BoundSocket::bind_for(&path, NOBODY)
        .expect("this test needs root: it gives a file to another user");
    let metadata = std::fs::symlink_metadata(&path).unwrap();
    assert_eq!(
        (metadata.uid(), metadata.permissions().mode() & 0o7777),
        (NOBODY, 0o600)
    );
}

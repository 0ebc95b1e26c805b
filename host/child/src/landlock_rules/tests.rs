//! What a confined process cannot do. Each act is also done by the same program without restrictions, where it succeeds; then with the restrictions
//! of every kernel, and with Landlock and the seccomp filter, each alone, to show what each adds and what remains possible where a kernel lacks one.
//!
//! The program is this test itself, started again as the host starts its children; the act is sent on its standard input.

mod held;
mod scene;

use super::*;
use crate::confine::{confine, filter, give_up_rights};
use held::{CLOSED, DENIED, DONE, HELD, Held, Row};
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_lock, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketType, socket};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpgid, getppid, kill_process, pidfd_getfd,
    pidfd_open, setpgid,
};
use scene::{NOBODY, Scene, TOLD};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The child's side: restricts itself, reads the act, does it, prints the result, exits.
fn act_as_child(held: &str, readable: &Path) -> ! {
    let held = HELD.into_iter().find(|it| it.word() == held).unwrap();
    let bounds = held.bounds(readable);
    match held {
        Held::Free => {}
        Held::Nobody => give_up_rights(&bounds).unwrap(),
        Held::Landlock(_) => {
            give_up_rights(&bounds).unwrap();
            raise(&bounds).unwrap();
        }
        Held::Filter(_) => {
            give_up_rights(&bounds).unwrap();
            filter(&bounds).unwrap();
        }
        Held::All(_) => confine(&bounds).unwrap(),
    }
    let mut act = String::new();
    io::stdin().read_to_string(&mut act).unwrap();
    let (act, object) = act.split_once(' ').unwrap();
    // The test runner has already written the beginning of a line.
    match done(act, object) {
        Ok(told) => println!("\n{TOLD}{}", told.replace('\n', "|")),
        Err(error) => println!("\n{TOLD}error {}", error.raw_os_error().unwrap_or(-1)),
    }
    std::process::exit(0)
}

fn done(act: &str, object: &str) -> io::Result<String> {
    let process = || Pid::from_raw(object.parse().unwrap()).unwrap();
    match act {
        "read" => return fs::read_to_string(object),
        "create" => drop(File::create(object)?),
        "mkdir" => fs::create_dir(object)?,
        "remove" => fs::remove_file(object)?,
        "exec" => return Err(Command::new(object).arg(format!("{TOLD}ok")).exec()),
        "start" => drop(Command::new(object).spawn()?),
        "connect" => drop(TcpStream::connect(object)?),
        "listen" => drop(TcpListener::bind(object)?),
        "datagrams" => drop(UdpSocket::bind(object)?),
        "dial" => drop(UnixStream::connect(object)?),
        "call" => {
            let address = SocketAddr::from_abstract_name(object)?;
            drop(UnixStream::connect_addr(&address)?);
        }
        // Out of reach of a process that kills the child's process group.
        "leave" => setpgid(None, Some(getpgid(getppid())?))?,
        "thread" => {
            let thread = std::thread::Builder::new().spawn(|| vec![1_u8; 1 << 20].len())?;
            return Ok(thread.join().unwrap().to_string());
        }
        // As a runtime does with descriptors that it is given.
        "flags" => fcntl_setfl(io::stdin(), fcntl_getfl(io::stdin())? | OFlags::NONBLOCK)?,
        "signals" => fcntl_setfl(io::stdin(), fcntl_getfl(io::stdin())? | OFlags::ASYNC)?,
        "lock" => fcntl_lock(io::stdin(), FlockOperation::NonBlockingLockShared)?,
        "netlink" => {
            let protocol = object.parse().ok().and_then(RawProtocol::new);
            let protocol = protocol.map(Protocol::from_raw);
            drop(socket(AddressFamily::NETLINK, SocketType::RAW, protocol)?);
        }
        "signal" => kill_process(process(), Signal::CONT)?,
        // As a debugger may (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS).
        "take-descriptor" => {
            let process = pidfd_open(process(), PidfdFlags::empty())?;
            drop(pidfd_getfd(process, 0, PidfdGetfdFlags::empty())?);
        }
        other => panic!("{other}"),
    }
    Ok(String::new())
}

#[tokio::test]
async fn privileged_forbidden_system_calls_fail_in_the_sandbox() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word.starts_with("held=")) {
        act_as_child(&arguments[at], Path::new(&arguments[at + 1]));
    }
    let scene = Scene::new();
    let path = |name: &str| scene.path(name).display().to_string();
    let port = scene.listener.local_addr().unwrap().to_string();
    let neighbour = scene.neighbour.id().to_string();
    let rows: [Row; 21] = [
        (
            "read",
            path("inside/file"),
            ABI::V1,
            [DONE, CLOSED],
            [DONE, DENIED],
        ),
        (
            "read",
            path("outside/file"),
            ABI::V1,
            [CLOSED; 2],
            [DONE, DENIED],
        ),
        (
            "create",
            path("outside/made"),
            ABI::V1,
            [CLOSED; 2],
            [DENIED; 2],
        ),
        (
            "mkdir",
            path("outside/folder"),
            ABI::V1,
            [CLOSED; 2],
            [DENIED; 2],
        ),
        (
            "remove",
            path("outside/taken"),
            ABI::V1,
            [CLOSED; 2],
            [DENIED; 2],
        ),
        (
            "exec",
            "/bin/echo".to_owned(),
            ABI::V1,
            [CLOSED; 2],
            [DENIED; 2],
        ),
        (
            "start",
            "/bin/true".to_owned(),
            ABI::V1,
            [CLOSED; 2],
            [DENIED; 2],
        ),
        (
            "leave",
            "the-group".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DENIED; 2],
        ),
        (
            "thread",
            "of-its-own".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DONE; 2],
        ),
        ("connect", port, ABI::V4, [DONE, CLOSED], [DONE, DENIED]),
        (
            "listen",
            "127.0.0.1:0".to_owned(),
            ABI::V4,
            [DONE, CLOSED],
            [DENIED; 2],
        ),
        (
            "datagrams",
            "127.0.0.1:0".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DONE, DENIED],
        ),
        (
            "dial",
            path("inside/socket"),
            ABI::V1,
            [DONE; 2],
            [DENIED; 2],
        ),
        (
            "call",
            scene.abstract_name.clone(),
            ABI::V6,
            [DENIED; 2],
            [DENIED; 2],
        ),
        (
            "flags",
            "of-its-own".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DONE; 2],
        ),
        (
            "signals",
            "of-a-pipe".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DENIED; 2],
        ),
        (
            "lock",
            "of-a-pipe".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DENIED; 2],
        ),
        // The kernel's routes (0), and the events of its devices (15).
        (
            "netlink",
            "0".to_owned(),
            ABI::V1,
            [DONE; 2],
            [DONE, DENIED],
        ),
        ("netlink", "15".to_owned(), ABI::V1, [DONE; 2], [DENIED; 2]),
        (
            "signal",
            neighbour.clone(),
            ABI::V6,
            [DENIED; 2],
            [DENIED; 2],
        ),
        (
            "take-descriptor",
            neighbour,
            ABI::V1,
            [DENIED; 2],
            [DENIED; 2],
        ),
    ];
    for row in &rows {
        for held in HELD {
            let told = scene.told(held, &format!("{} {}", row.0, row.1)).await;
            assert_eq!(
                told.map(drop),
                held.end(row).map_err(Errno::raw_os_error),
                "{held:?}: {} {}",
                row.0,
                row.1
            );
        }
    }
    // `create` and `mkdir` of a child that may only compute were the last acts: nothing was created.
    assert!(!scene.path("outside/made").exists() && !scene.path("outside/folder").exists());
}

#[tokio::test]
async fn privileged_rights_are_dropped_without_landlock_too() {
    let scene = Scene::new();
    let status = scene
        .told(Held::Nobody, "read /proc/thread-self/status")
        .await;
    let status = status.unwrap();
    let nobody = format!("{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}");
    for line in [
        format!("Uid:\t{nobody}"),
        format!("Gid:\t{nobody}"),
        "Groups:\t ".to_owned(),
        "NoNewPrivs:\t1".to_owned(),
        "CapInh:\t0000000000000000".to_owned(),
        "CapPrm:\t0000000000000000".to_owned(),
        "CapEff:\t0000000000000000".to_owned(),
    ] {
        assert!(status.lines().any(|it| it == line), "{line}: {status}");
    }
    let limits = scene
        .told(Held::Nobody, "read /proc/thread-self/limits")
        .await;
    let limits = limits.unwrap();
    let soft_and_hard = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        let words = line.unwrap().split_whitespace().take(2);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, soft, hard) in [
        ("Max data size", "1073741824", "1073741824"),
        ("Max address space", "3221225472", "3221225472"),
        ("Max cpu time", "30", "31"),
        ("Max core file size", "0", "0"),
        ("Max file size", "0", "0"),
        ("Max locked memory", "0", "0"),
    ] {
        assert_eq!(soft_and_hard(name), [soft, hard], "{name}");
    }
    let free = scene
        .told(Held::Free, "read /proc/thread-self/status")
        .await;
    assert!(free.unwrap().contains("NoNewPrivs:\t0"));
}

#[test]
fn what_is_said_of_this_kernel_is_what_it_has() {
    assert_eq!(are_here(), held::landlock_version() != ABI::Unsupported);
    // A line that exists only in kernels with seccomp filters (proc(5)).
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let has_filters = status.contains("\nSeccomp_filters:");
    assert_eq!(crate::system_calls::are_held_here(), has_filters);
}

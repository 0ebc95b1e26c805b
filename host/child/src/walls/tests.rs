//! What a confined process cannot do, each act beside the same one of the same program where it succeeds: held by nothing, and held by all walls
//! but Landlock, so that it is seen what Landlock adds, and what is left where a kernel has none.
//!
//! The program is this test itself, started again as the host starts its children; the act comes on its standard input.

use super::*;
use crate::confine::{confine, give_up_rights};
use crate::run::run_program;
use crate::{Bounds, Task};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, geteuid, kill_process, pidfd_getfd, pidfd_open,
};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tempfile::TempDir;

/// This test, as the test runner calls it.
const NAME: &str = "walls::tests::privileged_acts_are_refused_behind_the_walls_and_done_without";
/// Begins the line that tells how an act ended.
const TOLD: &str = "ACT ";
/// Whoever owns nothing.
const NOBODY: u32 = 65534;
/// Who holds a child.
const HELD: [Held; 5] = [
    Held::Free,
    Held::Nobody,
    Held::Reader,
    Held::Client,
    Held::Nothing,
];

/// What holds a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Nothing.
    Free,
    /// Everything but Landlock and the limit on descriptors.
    Nobody,
    /// It may read one directory.
    Reader,
    /// It may read one directory, and reach the network.
    Client,
    /// It may open nothing: as a compiler, and whoever checks a file.
    Nothing,
}

/// How an act ended: what it told, or its error.
type Told = Result<String, i32>;

/// What is to be expected of an act, in the order of [`HELD`].
type Row = [Result<(), Errno>; 5];

const DONE: Result<(), Errno> = Ok(());
/// Landlock's word for files and for TCP.
const CLOSED: Result<(), Errno> = Err(Errno::ACCESS);
/// Landlock's word for other processes.
const FOREIGN: Result<(), Errno> = Err(Errno::PERM);
/// That of a process that has its three descriptors.
const FULL: Result<(), Errno> = Err(Errno::MFILE);

impl Held {
    fn word(self) -> String {
        format!("held={self:?}")
    }

    fn bounds(self, readable: &Path) -> Bounds {
        Bounds {
            memory_bytes: 1 << 30,
            cpu: Duration::from_secs(30),
            wall: Duration::from_secs(60),
            output_bytes: 1 << 20,
            network: self == Self::Client,
            readable: match self {
                Self::Reader | Self::Client => vec![readable.to_owned()],
                Self::Free | Self::Nobody | Self::Nothing => Vec::new(),
            },
        }
    }
}

/// What the acts are done to: all of it in reach of everybody, so that nothing but a wall is in the way.
struct Scene {
    folder: TempDir,
    listener: TcpListener,
    abstract_name: String,
    _abstract: UnixListener,
    neighbour: Child,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.neighbour.kill();
        let _ = self.neighbour.wait();
    }
}

impl Scene {
    fn new() -> Self {
        assert!(
            geteuid().is_root(),
            "this test becomes nobody: run it as root"
        );
        let folder = tempfile::tempdir().unwrap();
        let everybody = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        everybody(folder.path(), 0o777);
        for name in ["inside", "outside"] {
            let place = folder.path().join(name);
            fs::create_dir(&place).unwrap();
            everybody(&place, 0o777);
            fs::write(place.join("file"), name).unwrap();
            everybody(&place.join("file"), 0o644);
        }
        let abstract_name = format!("wasmount-walls-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        // Of the same user as a child: between them the system knows no other wall.
        let user = NOBODY.to_string();
        let neighbour = Command::new("setpriv")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(["--pdeathsig", "KILL", "sleep", "600"])
            .spawn()
            .unwrap();
        Self {
            folder,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            neighbour,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inside(&self) -> PathBuf {
        self.path("inside")
    }

    async fn told(&self, held: Held, act: &str) -> Told {
        // What an act before it made would be in its way.
        let _ = fs::remove_file(self.path("outside/made"));
        let _ = fs::remove_dir(self.path("outside/folder"));
        let taken = self.path("outside/taken");
        fs::write(&taken, "").unwrap();
        chown(&taken, Some(NOBODY), Some(NOBODY)).unwrap();
        let inside = self.inside();
        let task = Task {
            subcommand: "--exact",
            arguments: [NAME, "--nocapture", &held.word(), inside.to_str().unwrap()]
                .map(Into::into)
                .to_vec(),
            bounds: held.bounds(&inside),
        };
        let this = std::env::current_exe().unwrap();
        let answer = run_program(&this, &task, act.as_bytes().to_vec()).await;
        let answer = String::from_utf8(answer.unwrap()).unwrap();
        let line = answer.lines().find_map(|line| line.split_once(TOLD));
        let (_, end) = line.unwrap_or_else(|| panic!("{held:?} {act}: {answer}"));
        match end.split_once(' ') {
            Some(("error", number)) => Err(number.trim().parse().unwrap()),
            _ => Ok(end.replace('|', "\n")),
        }
    }
}

/// The child's side: is held, hears, acts, tells, ends.
fn act_as_child(held: &str, readable: &Path) -> ! {
    let held = HELD.into_iter().find(|it| it.word() == held).unwrap();
    let bounds = held.bounds(readable);
    match held {
        Held::Free => {}
        Held::Nobody => give_up_rights(&bounds).unwrap(),
        Held::Reader | Held::Client | Held::Nothing => confine(&bounds).unwrap(),
    }
    let mut act = String::new();
    io::stdin().read_to_string(&mut act).unwrap();
    let (act, object) = act.split_once(' ').unwrap();
    // The test runner has begun a line.
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
        "connect" => drop(TcpStream::connect(object)?),
        "bind" => drop(TcpListener::bind(object)?),
        "call" => {
            let address = SocketAddr::from_abstract_name(object)?;
            drop(UnixStream::connect_addr(&address)?);
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

/// What this kernel has of Landlock.
fn landlock_version() -> ABI {
    let raised = std::thread::spawn(|| raise(&Held::Nothing.bounds(Path::new("/"))).unwrap());
    match raised.join().unwrap() {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    }
}

/// Where Landlock lacks something, the act succeeds as it does for nobody: docs/security.md says so, and here it is held to it.
fn where_landlock_has(since: ABI, row: Row) -> Row {
    if landlock_version() >= since {
        return row;
    }
    let is_of_landlock = |end: &Result<(), Errno>| *end == CLOSED || *end == FOREIGN;
    row.map(|end| if is_of_landlock(&end) { DONE } else { end })
}

/// Another wall of some systems (Yama): then nobody looks into processes that are not its own children.
fn debugs_strangers() -> bool {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0")
}

#[tokio::test]
async fn privileged_acts_are_refused_behind_the_walls_and_done_without() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word.starts_with("held=")) {
        act_as_child(&arguments[at], Path::new(&arguments[at + 1]));
    }
    let scene = Scene::new();
    let path = |name: &str| scene.path(name).display().to_string();
    let port = scene.listener.local_addr().unwrap().to_string();
    let neighbour = scene.neighbour.id().to_string();
    let attach = if debugs_strangers() { FOREIGN } else { DONE };
    // Since which version Landlock has it (landlock(7)), and the ends: free, nobody, reader, client, who may open nothing.
    let rows: [(&str, String, ABI, Row); 11] = [
        (
            "read",
            path("inside/file"),
            ABI::V1,
            [DONE, DONE, DONE, DONE, FULL],
        ),
        (
            "read",
            path("outside/file"),
            ABI::V1,
            [DONE, DONE, CLOSED, CLOSED, FULL],
        ),
        (
            "create",
            path("outside/made"),
            ABI::V1,
            [DONE, DONE, CLOSED, CLOSED, FULL],
        ),
        (
            "mkdir",
            path("outside/folder"),
            ABI::V1,
            [DONE, DONE, CLOSED, CLOSED, CLOSED],
        ),
        (
            "remove",
            path("outside/taken"),
            ABI::V1,
            [DONE, DONE, CLOSED, CLOSED, CLOSED],
        ),
        (
            "exec",
            "/bin/echo".to_owned(),
            ABI::V1,
            [DONE, DONE, CLOSED, CLOSED, CLOSED],
        ),
        ("connect", port, ABI::V4, [DONE, DONE, CLOSED, DONE, FULL]),
        (
            "bind",
            "127.0.0.1:0".to_owned(),
            ABI::V4,
            [DONE, DONE, CLOSED, DONE, FULL],
        ),
        (
            "call",
            scene.abstract_name.clone(),
            ABI::V6,
            [DONE, DONE, FOREIGN, FOREIGN, FULL],
        ),
        (
            "signal",
            neighbour.clone(),
            ABI::V6,
            [DONE, DONE, FOREIGN, FOREIGN, FOREIGN],
        ),
        (
            "take-descriptor",
            neighbour,
            ABI::V1,
            [DONE, attach, FOREIGN, FOREIGN, FULL],
        ),
    ];
    for (act, object, since, row) in rows {
        for (held, end) in HELD.into_iter().zip(where_landlock_has(since, row)) {
            let told = scene.told(held, &format!("{act} {object}")).await;
            let told = told.map(drop);
            assert_eq!(
                told,
                end.map_err(Errno::raw_os_error),
                "{held:?}: {act} {object}"
            );
        }
    }
    // `create` and `mkdir` of who may open nothing were the last: nothing is there.
    assert!(!scene.path("outside/made").exists() && !scene.path("outside/folder").exists());
}

#[tokio::test]
async fn privileged_what_no_kernel_lacks_is_given_up_without_landlock_too() {
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

//! Volumes whose mounter is killed at a step of a stage, at a step of an expansion, and at a step of the unstage.
//!
//! The mounter is a process of its own, to which strace is attached when it is ready. strace kills it, or the program that it runs, when one of its threads
//! enters the N-th system call of a kind. A first round without a kill shows how many there are; each of the others has a blank disk.

use crate::host::{Host, Volume};
use crate::support::run;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

/// What the process reads: its directory, the test's protocol, the number of the disk, and what it does.
const VARIABLES: [&str; 4] = [
    "WASMOUNT_TEST_DIRECTORY",
    "WASMOUNT_TEST_PROTOCOL",
    "WASMOUNT_TEST_DISK",
    "WASMOUNT_TEST_CALL",
];
/// Repeats a run: the seed that it printed.
const SEED: &str = "WASMOUNT_TEST_SEED";
/// The seed of a run without the variable: each default run kills at the same steps.
const DEFAULT_SEED: usize = 1;
/// Rounds of a default run: a round takes some seconds.
const ROUNDS: usize = 6;
/// The same where each round makes keys of a passphrase several times, which is slow by design.
pub(crate) const ROUNDS_WITH_KEYS: usize = 3;
/// A line of the process, once its mounter is open.
const READY: &str = "the mounter is ready";
/// A word of strace, once it is attached to all threads.
const ATTACHED: &str = " attached";
/// The calls that change something, and those by which programs are started and awaited. One that only looks, such as `openat`, has the state of the
/// change before it. Left out is `pwrite64`, by which `mkfs.ext4` writes some 300 blocks: they would be most of what a default run chooses, and an
/// unfinished file system is what a kill at each `fsync` leaves, too.
const CALLS: [&str; 35] = [
    "clone",
    "clone3",
    "execve",
    "fallocate",
    "fchmod",
    "fchmodat",
    "fchown",
    "fdatasync",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fsync",
    "ftruncate",
    "ioctl",
    "mkdir",
    "mkdirat",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "pidfd_open",
    "poll",
    "quotactl_fd",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendto",
    "umount2",
    "unlink",
    "unlinkat",
    "unshare",
    "wait4",
    "write",
    "writev",
];
/// The calls of a volume's life in which the mounter is killed.
const LIFE: [&str; 3] = ["stage", "expand", "unstage"];
/// What a volume grows to.
pub(crate) const GROWN_BYTES: u64 = 128 << 20;
/// How long a client repeats its call: a login or logout that the killed mounter began is finished by `iscsid`.
const REPEATED_FOR: Duration = Duration::from_secs(60);
/// What a round writes.
const CONTENT: &str = "written before the kill";

/// A protocol of attached disks, with its target.
pub(crate) trait Scene {
    type Volume: Volume + Sync;
    /// By which the process finds it again.
    const NAME: &'static str;
    /// Rounds of a default run.
    const ROUNDS: usize = ROUNDS;

    /// A host in a directory that may have been another one's.
    fn host(folder: &Path) -> Host;
    /// The volume on the disk with a number.
    fn volume(number: u32) -> Self::Volume;
    /// Offers a blank disk.
    fn offer(&mut self, number: u32);
    /// Makes the disk as large as `GROWN_BYTES`.
    fn grow(&mut self, number: u32);
    /// A file or a device with the file system, until the disk is withdrawn.
    fn file(&self, number: u32) -> PathBuf;
    /// Takes it away.
    fn withdraw(&mut self, number: u32);
    /// Nothing of it is left on the node.
    fn assert_nothing_left(host: &Host);
}

/// A step at which a process is killed.
#[derive(Debug, Clone, Copy)]
struct Step {
    call: &'static str,
    number: usize,
}

/// How often each call is made, by the thread that makes it most often.
type Counts = BTreeMap<&'static str, usize>;

/// Kills in rounds, of which a default run has some: which, a seed says.
pub(crate) async fn kill_at_each_step<S: Scene>(mut scene: S) {
    let seed = std::env::var(SEED).map_or(DEFAULT_SEED, |it| it.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut life = {
        scene.offer(0);
        let counts = LIFE.map(|call| {
            if call == "expand" {
                scene.grow(0);
            }
            counted::<S>(folder.path(), call)
        });
        S::assert_nothing_left(&S::host(folder.path()));
        scene.withdraw(0);
        counts.map(|it| steps(&it))
    };
    let all = life.each_ref().map(Vec::len);
    if !crate::is_thorough() {
        life = life.map(|it| sample(&it, S::ROUNDS, seed));
    }
    let chosen = life.each_ref().map(Vec::len);
    println!(
        "{}: {all:?} steps of {LIFE:?}, of which {chosen:?}; {SEED}={seed}",
        S::NAME
    );
    let rounds = chosen.into_iter().max().unwrap();
    let mut killed = [0; LIFE.len()];
    for round in 0..rounds {
        let number = u32::try_from(round + 1).unwrap();
        let steps = life.each_ref().map(|it| it[round % it.len()]);
        let died = survive::<S>(&mut scene, folder.path(), number, steps).await;
        for (count, died) in killed.iter_mut().zip(died) {
            *count += usize::from(died);
        }
    }
    println!("{}: killed {killed:?}", S::NAME);
    // Which thread makes a call differs from run to run, but not for most.
    assert!(killed.iter().all(|it| *it * 2 > rounds), "{killed:?}");
}

/// One volume from a blank disk to nothing; returns which of its calls met a kill.
async fn survive<S: Scene>(
    scene: &mut S,
    folder: &Path,
    number: u32,
    steps: [Step; LIFE.len()],
) -> [bool; LIFE.len()] {
    scene.offer(number);
    let mut killed = [false; LIFE.len()];
    for ((call, step), killed) in LIFE.into_iter().zip(steps).zip(&mut killed) {
        if call == "expand" {
            scene.grow(number);
        }
        *killed = !killed_at::<S>(folder, number, call, step);
        let host = S::host(folder);
        host.recover().await;
        let volume = S::volume(number);
        let begin = Instant::now();
        while let Err(refused) = work(&host, &volume, call).await {
            assert!(begin.elapsed() < REPEATED_FOR, "{steps:?}: {refused}");
        }
        let staging = host.staging(&volume);
        match call {
            "stage" => {
                let mut content = fs::File::create(staging.join("file")).unwrap();
                content.write_all(CONTENT.as_bytes()).unwrap();
                content.sync_all().unwrap();
            }
            "expand" => {
                let seen = rustix::fs::statvfs(staging).unwrap();
                let bytes = seen.f_blocks * seen.f_frsize;
                assert!(bytes > GROWN_BYTES / 2, "{steps:?}: {bytes}");
            }
            _ => S::assert_nothing_left(&host),
        }
    }
    let file = scene.file(number);
    let file = file.to_str().unwrap();
    let read = run("debugfs", &["-R", "cat /file", file]);
    assert_eq!(read, CONTENT, "{steps:?}");
    run("e2fsck", &["-f", "-n", file]);
    scene.withdraw(number);
    killed
}

/// One of the calls of a life.
async fn work<V: Volume>(host: &Host, volume: &V, call: &str) -> Result<(), MountError> {
    match call {
        "stage" => host.stage(volume).await,
        "expand" => host.expand(volume, GROWN_BYTES).await.map(drop),
        _ => host.unstage(volume).await,
    }
}

/// Makes one call in a process, and counts its system calls.
fn counted<S: Scene>(folder: &Path, call: &str) -> Counts {
    let calls = folder.join("calls");
    let (mut process, strace) = started::<S>(folder, 0, call, |strace| {
        strace.arg("-o").arg(&calls);
    });
    finish(&mut process, strace);
    assert!(process.wait().unwrap().success(), "{call}");
    let mut by_thread: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for line in fs::read_to_string(calls).unwrap().lines() {
        // `<thread> <name>(<arguments>) = <result>`; a call that another thread's interrupted continues in a line with `<...`.
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        if let Some(call) = CALLS.iter().find(|it| **it == name) {
            *by_thread.entry((thread.to_owned(), *call)).or_default() += 1;
        }
    }
    let mut counts = Counts::new();
    for ((_, call), count) in by_thread {
        let most = counts.entry(call).or_default();
        *most = count.max(*most);
    }
    counts
}

/// Makes one call in a process that is killed at a step; returns whether it succeeded all the same.
fn killed_at<S: Scene>(folder: &Path, number: u32, call: &str, step: Step) -> bool {
    let Step {
        call: name,
        number: nth,
    } = step;
    let (mut process, strace) = started::<S>(folder, number, call, |strace| {
        strace.args(["-o", "/dev/null", "-e"]);
        strace.arg(format!("inject={name}:signal=SIGKILL:when={nth}"));
    });
    finish(&mut process, strace);
    process.wait().unwrap().success()
}

/// Starts the process, with strace attached.
fn started<S: Scene>(
    folder: &Path,
    number: u32,
    call: &str,
    options: impl FnOnce(&mut Command),
) -> (Child, Child) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    let values = [folder.to_str().unwrap(), S::NAME, &number.to_string(), call];
    let mut process = process
        .args(["kills::worker", "--exact", "--ignored", "--nocapture"])
        .envs(VARIABLES.into_iter().zip(values))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    assert!(said.any(|line| line.contains(READY)), "{call}");
    // Both processes go on to write.
    std::thread::spawn(move || said.for_each(drop));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", &format!("trace={}", CALLS.join(","))]);
    options(&mut strace);
    strace.args(["-p", &process.id().to_string()]);
    let strace = strace.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut strace = strace.spawn().expect("this test needs strace: install it");
    let said = BufReader::new(strace.stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    let first = said.next().unwrap_or_default();
    assert!(first.contains(ATTACHED), "{call}: {first}");
    std::thread::spawn(move || said.for_each(drop));
    (process, strace)
}

/// Lets the process make its call, and waits until it and everything that it started is gone.
fn finish(process: &mut Child, mut strace: Child) {
    let mut input = process.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    strace.wait().unwrap();
}

fn steps(counts: &Counts) -> Vec<Step> {
    let steps = counts
        .iter()
        .flat_map(|(call, count)| (1..=*count).map(|number| Step { call, number }));
    steps.collect()
}

/// So many of them, at equal distances, from one on that the seed says.
fn sample(steps: &[Step], rounds: usize, seed: usize) -> Vec<Step> {
    let distance = steps.len().div_ceil(rounds).max(1);
    let chosen = steps.iter().skip(seed % distance).step_by(distance);
    chosen.copied().collect()
}

#[tokio::test]
#[ignore = "the process that the other tests kill"]
async fn worker() {
    let [folder, protocol, disk, call] =
        VARIABLES.map(|name| std::env::var(name).expect("started by another test"));
    let (folder, disk) = (Path::new(&folder), disk.parse().unwrap());
    match protocol.as_str() {
        crate::iscsi::Killed::NAME => wait::<crate::iscsi::Killed>(folder, disk, &call).await,
        crate::iscsi::KilledMaps::NAME => {
            wait::<crate::iscsi::KilledMaps>(folder, disk, &call).await;
        }
        crate::nvme::Killed::NAME => wait::<crate::nvme::Killed>(folder, disk, &call).await,
        crate::rbd::Killed::NAME => wait::<crate::rbd::Killed>(folder, disk, &call).await,
        other => panic!("{other}"),
    }
}

/// Works when strace is attached.
async fn wait<S: Scene>(folder: &Path, disk: u32, call: &str) {
    let host = S::host(folder);
    let volume = S::volume(disk);
    println!("{READY}");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    work(&host, &volume, call).await.unwrap();
}

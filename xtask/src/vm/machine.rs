//! One VM: a process that is the kernel, a temporary directory that both sides write to, and the exit code that the VM leaves there.

use super::PREFIX;
use super::system::KERNEL;
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::interrupt::Interrupt;
use crate::process::last_lines;
use crate::say;
use rustix::thread::sched_getcpu;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, LineWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::SignalKind;
use tokio::time::{sleep, timeout};

/// The first process of a VM.
const INIT: &str = include_str!("init.sh");

/// The file by which it knows that it has run.
const STARTED: &str = "started";

/// Size of the VM's disk, in bytes: a sparse file, so only what a command writes is used.
const DISK_BYTES: u64 = 16 << 30;

/// The file of the directory by which a command asks for a power cut.
const POWER_CUT: &str = "power-cut";

/// The files of the directory by which the VM is asked what its threads do, and in which it answers.
const TASKS_ASKED: &str = "tasks-asked";
const TASKS: &str = "tasks";

/// How long it may take to answer: `init.sh` looks every 10 s, and some hundred threads take a second. `timeout` kills us after a minute.
const TASKS_TIME: Duration = Duration::from_secs(40);

/// Pause between two looks for a file.
const LOOK: Duration = Duration::from_millis(20);

/// Lines of the console that a failure shows: a panic prints about 40.
const TAIL: usize = 60;

/// What a VM is made of.
#[derive(Debug)]
pub(super) struct Machine {
    /// The root file system, with the kernel in it.
    pub(super) system: PathBuf,
    /// In MiB.
    pub(super) memory: u32,
    /// A line for the first process about each directory of this machine that the VM has: see [`share`].
    pub(super) shares: Vec<u8>,
    /// Whether it loads the policy of SELinux.
    pub(super) selinux: bool,
}

/// One end of a network of two VMs.
#[derive(Debug)]
pub(super) struct Link {
    /// The VM's address is `10.0.0.NUMBER`.
    number: u8,
    /// Carries Ethernet frames.
    socket: OwnedFd,
}

impl Link {
    /// Both ends.
    pub(super) fn pair() -> Result<[Self; 2], Failure> {
        let (one, two) =
            UnixDatagram::pair().map_err(Failure::cannot("make a network of two VMs"))?;
        let link = |number, socket: UnixDatagram| Self {
            number,
            socket: socket.into(),
        };
        Ok([link(1, one), link(2, two)])
    }
}

impl Machine {
    /// Runs the command in two VMs with a network between them. Both end when the first of them fails, with its exit code.
    pub(super) async fn run_two(&self, command: &[OsString]) -> Result<u8, Failure> {
        let [one, two] = Link::pair()?;
        let end = async |link| match self.run(command, Some(link)).await {
            Ok(0) => Ok(()),
            failed => Err(failed),
        };
        match tokio::try_join!(end(one), end(two)) {
            Ok(((), ())) => Ok(0),
            Err(failed) => failed,
        }
    }

    /// Runs the command until it asks for a power cut, kills the VM, and runs it again in a VM with the same disk.
    pub(super) async fn run_through_power_cut(&self, command: &[OsString]) -> Result<u8, Failure> {
        let directory = self.directory(command)?;
        let _lock = files::hold(directory.path())?;
        let directory = directory.path();
        let cut = directory.join(POWER_CUT);
        let first = self.boot(directory, 1, None, Some(&cut)).await;
        if !cut.exists() {
            return match first? {
                0 => Err(Failure::Unexpected(format!(
                    "the command ended, and did not ask for a power cut by making /media/{POWER_CUT}"
                ))),
                failed => Ok(failed),
            };
        }
        fs::remove_file(directory.join(STARTED))
            .map_err(Failure::cannot("prepare the second VM"))?;
        self.boot(directory, 2, None, None).await
    }

    /// Boots, runs the command in our working directory, and returns its exit code. The VM ends with the future, and with this process.
    pub(super) async fn run(
        &self,
        command: &[OsString],
        link: Option<Link>,
    ) -> Result<u8, Failure> {
        let directory = self.directory(command)?;
        // As long as it is held, the directory is no leftover.
        let _lock = files::hold(directory.path())?;
        self.boot(directory.path(), 1, link, None).await
    }

    /// Boots for the first or the second time with a directory. The VM is killed when there is a file `cut`. Everything of it is gone afterwards.
    async fn boot(
        &self,
        directory: &Path,
        number: u8,
        link: Option<Link>,
        cut: Option<&Path>,
    ) -> Result<u8, Failure> {
        let mut interrupt = Interrupt::listen()?;
        let console = directory.join("console");
        let console_file =
            File::create(&console).map_err(Failure::cannot("write the VM's console"))?;
        let (mut output, input) = io::pipe().map_err(Failure::cannot("make a pipe"))?;
        let mut kernel = self.kernel(directory, number, link.as_ref());
        let is_alone = link.is_none();
        let child = kernel
            .stdin(link.map_or_else(Stdio::null, |link| link.socket.into()))
            .stdout(input)
            .stderr(console_file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(command::cannot_start(kernel.as_std()))?;
        // It has the other end of the pipe.
        drop(kernel);
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let mut stdout = File::from(stdout.map_err(Failure::cannot("print"))?);
        // A reader that left is no reason to stop: the exit code is worth something.
        let printer = thread::spawn(move || match is_alone {
            // At once: the last line of a test that hangs has its name, and no end.
            true => io::copy(&mut output, &mut stdout),
            false => io::copy(&mut output, &mut LineWriter::new(stdout)),
        });
        let ended = tokio::select! {
            ended = child.wait() => ended.map(drop),
            () = appears(cut) => child.kill().await,
            signal = interrupt.wait() => {
                // A time limit, and not a user who waits for the end.
                if signal == SignalKind::terminate() {
                    say::line(&tasks(directory).await?);
                }
                return Err(Interrupt::failure());
            }
        };
        ended.map_err(Failure::cannot("wait for the VM"))?;
        // Each of its processes has our output.
        let _ = printer.join();
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        status.trim().parse().map_err(|_| {
            let text = fs::read(&console).unwrap_or_default();
            Failure::Unexpected(format!(
                "the VM ended before the command did; the end of its console:\n{}",
                last_lines(&String::from_utf8_lossy(&text), TAIL)
            ))
        })
    }

    /// The directory that both sides have.
    fn directory(&self, command: &[OsString]) -> Result<TempDir, Failure> {
        let directory = files::temporary(PREFIX)?;
        let here = std::env::current_dir().map_err(Failure::cannot("find the directory"))?;
        let files = [
            ("init", INIT.as_bytes()),
            ("command", &script(&here, command)),
            ("shares", &self.shares),
        ];
        for (name, content) in files {
            files::write(&directory.path().join(name), content)?;
        }
        let disk = directory.path().join("disk");
        File::create(&disk)
            .and_then(|file| file.set_len(DISK_BYTES))
            .map_err(Failure::cannot(format!("create {}", disk.display())))?;
        Ok(directory)
    }

    /// The command line of the kernel. Its starter is the first process of a namespace, so that nothing of it outlives it; and it ends with us. The
    /// kernel is not that process itself, since it ends by a signal after a panic, which a first process does not get (pid_namespaces(7)). The
    /// VM's first serial line is our standard output, its console our standard error, its network our standard input.
    ///
    /// It stays on one processor of the machine. The kernel stops and resumes its programs by ptrace at each system call and page fault, so one of them
    /// always waits for the other: on two processors, every change of turns is an interrupt of the other one.
    fn kernel(&self, directory: &Path, number: u8, link: Option<&Link>) -> Command {
        let directory = directory.display();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(["taskset", "--cpu-list", &sched_getcpu().to_string()])
            .args(["unshare", "--pid", "--fork", "--kill-child=KILL", "--"])
            .args(["sh", "-c", "\"$0\" \"$@\" 3>&1 4<&0 </dev/null >&2; exit"])
            .arg(self.system.join(KERNEL))
            .arg(format!("mem={}M", self.memory))
            .args(["root=/dev/root", "rootfstype=hostfs", "ro", "quiet"])
            .arg(format!("rootflags={}", self.system.display()))
            .arg(format!("ubd0={directory}/disk"))
            .args(["con=null", "con0=null,fd:2", "ssl=null", "ssl0=null,fd:3"])
            .args([format!("uml_dir={directory}"), format!("umid=vm{number}")])
            .arg(format!("VM_BOOT={number}"))
            // The modules of Linux security that are on, and a variable of the first process.
            .args(match self.selinux {
                true => ["lsm=selinux", "VM_SELINUX=1"],
                false => ["lsm=yama", "VM_SELINUX=0"],
            })
            .args(link.map(|it| format!("VM_NUMBER={}", it.number)))
            .args(
                link.map(|it| format!("vec0:transport=fd,fd=4,mac=02:00:00:00:00:0{}", it.number)),
            )
            .args(["panic=-1", "init=/bin/sh", "--", "-c"])
            .arg(format!(
                "\"mount -n -t hostfs -o {directory} none /media && exec sh /media/init\""
            ))
            // Where it has its memory: it looks for a tmpfs itself.
            .env_remove("TMPDIR");
        command
    }
}

/// What the threads of the VM do: a command that hangs says nothing itself.
async fn tasks(directory: &Path) -> Result<String, Failure> {
    files::write(&directory.join(TASKS_ASKED), b"")?;
    let answer = directory.join(TASKS);
    Ok(match timeout(TASKS_TIME, appears(Some(&answer))).await {
        Ok(()) => {
            let text = files::read(&answer)?;
            format!(
                "threads of the VM, and where each is in the kernel:\n{}",
                String::from_utf8_lossy(&text)
            )
        }
        Err(_) => "the VM does not say what its threads do: its kernel hangs".to_owned(),
    })
}

/// The line for the first process about a directory that the VM has at the same path, as the kernel names it.
pub(super) fn share(directory: &Path, writable: bool) -> Result<Vec<u8>, Failure> {
    let failed = Failure::cannot(format!("share {}", directory.display()));
    let directory = directory.canonicalize().map_err(failed)?;
    let mode: &[u8] = if writable { b"rw " } else { b"ro " };
    Ok([mode, directory.as_os_str().as_bytes(), b"\n"].concat())
}

/// Waits until there is this file. Without one, it waits for ever.
async fn appears(file: Option<&Path>) {
    let Some(file) = file else {
        return pending().await;
    };
    while !file.exists() {
        sleep(LOOK).await;
    }
}

/// A script that changes to the directory, if the VM has it, and becomes the command. A single word is a script itself.
fn script(directory: &Path, command: &[OsString]) -> Vec<u8> {
    let mut script = b"cd ".to_vec();
    script.extend(quoted(directory.as_os_str()));
    script.extend(b" 2>/dev/null || cd /\n");
    match command {
        [line] => script.extend(line.as_bytes()),
        words => {
            script.extend(b"exec");
            for word in words {
                script.push(b' ');
                script.extend(quoted(word));
            }
        }
    }
    script.push(b'\n');
    script
}

/// As one word of a shell (POSIX, "Quoting").
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn run_script(command: &[&str]) -> std::process::Output {
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        let script = OsString::from_vec(script(Path::new("/usr"), &command));
        let mut shell = std::process::Command::new("sh");
        command::try_read(shell.arg("-c").arg(script)).unwrap()
    }

    #[test]
    fn every_word_of_a_command_arrives_as_it_is() {
        let output = run_script(&["printf", "%s|", "it's", "a  b", "$HOME", "\n", ""]);
        assert_eq!(output.stdout, b"it's|a  b|$HOME|\n||");
    }

    #[test]
    fn one_word_is_a_line_for_the_shell() {
        let output = run_script(&["pwd && exit 7"]);
        assert_eq!(output.stdout, b"/usr\n");
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn a_failure_shows_the_end_of_a_console() {
        let lines: Vec<_> = (0..=TAIL).map(|it| it.to_string()).collect();
        let shown = last_lines(&lines.join("\n"), TAIL);
        assert_eq!(shown, lines[1..].join("\n"));
    }
}

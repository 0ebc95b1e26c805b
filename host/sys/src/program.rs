//! Starts a program that the kernel kills when its parent dies (`PR_SET_PDEATHSIG`, prctl(2)), and that inherits only three descriptors.
//!
//! It is started without a copy of this process: the child runs in our memory until its exec (`CLONE_VM`, `CLONE_VFORK`), as with posix_spawn(3), which
//! has no such setting. A fork copies each memory region, and a host has thousands.

use crate::check;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
    waitpid,
};
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

/// Stack of a child until its exec, in bytes: some calls deep, and what is not touched takes no memory.
const STACK_BYTES: usize = 64 << 10;
/// The last signal of Linux; the first is 1.
const SIGNALS: c_int = 64;

/// A program and what it gets.
#[derive(Debug)]
pub struct Program {
    /// Where it may be. The first of these that exists is run.
    pub paths: Vec<PathBuf>,
    /// Its arguments; the first is its name.
    pub arguments: Vec<OsString>,
    /// Its environment variables, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// Its standard input, output and error. It inherits no other descriptor.
    pub streams: [OwnedFd; 3],
}

/// A program that was started, in a process group of its own and the root directory. Its process stays until it is waited for (waitpid(2)).
#[derive(Debug)]
pub struct Started {
    /// Its process id, and that of its group.
    pub id: Pid,
    /// Readable when it has ended (pidfd_open(2)).
    pub process: OwnedFd,
}

/// What parent and child share.
struct Shared {
    paths: Vec<CString>,
    streams: [OwnedFd; 3],
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    parent: Pid,
    /// Set by the child.
    failure: Option<Errno>,
}

/// Starts a program. It is killed when the *thread* that starts it ends, so that thread must live as long as the host. A program with set-user bits
/// clears the setting. Returns when it runs, or cannot.
pub fn start(program: Program) -> Result<Started, Errno> {
    let arguments = texts(program.arguments)?;
    let environment = texts(program.environment)?;
    let mut shared = Shared {
        paths: texts(program.paths)?,
        streams: program.streams,
        arguments: pointers(&arguments),
        environment: pointers(&environment),
        parent: getpid(),
        failure: None,
    };
    let mut stack = Vec::<u128>::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end.cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (shared_with, mut process) = (&raw mut shared, -1);
    // SAFETY: this thread waits until the child has ended or has memory of its own, so nobody else uses the stack and `shared` meanwhile. No handler
    // of a signal runs in the child: signals are blocked until it has none.
    let id = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let id = libc::clone(run, top, flags, shared_with.cast(), &raw mut process);
        let id = check(id.into());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        id?
    };
    // SAFETY: the kernel made the descriptor for this call.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let id = id.ok_or(Errno::SRCH)?;
    match shared.failure {
        None => Ok(Started { id, process }),
        Some(failure) => {
            waitpid(Some(id), WaitOptions::empty())?;
            Err(failure)
        }
    }
}

/// As the kernel takes them: without NUL.
fn texts(texts: Vec<impl Into<OsString>>) -> Result<Vec<CString>, Errno> {
    let texts = texts.into_iter().map(|text| text.into().into_vec());
    let texts: Result<_, _> = texts.map(CString::new).collect();
    texts.map_err(|_| Errno::INVAL)
}

/// As exec takes them: the last one is null.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    let texts = texts.iter().map(|text| text.as_ptr());
    texts.chain([ptr::null()]).collect()
}

/// The child. Its memory is that of the parent, so it allocates nothing and takes no lock.
extern "C" fn run(shared: *mut c_void) -> c_int {
    // SAFETY: it is that of `start`, which does not use it meanwhile.
    let shared = unsafe { &mut *shared.cast::<Shared>() };
    shared.failure = prepare(shared).and_then(|()| exec(shared)).err();
    libc::EXIT_FAILURE
}

fn prepare(shared: &Shared) -> Result<(), Errno> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: these change how this process takes signals, which it shares with no other.
    unsafe {
        for signal in 1..=SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    still_child_of(shared.parent)?;
    setpgid(None, None)?;
    chdir(c"/")?;
    for (number, stream) in (0..).zip(&shared.streams) {
        // SAFETY: it changes descriptors of this process alone.
        check(unsafe { libc::dup2(stream.as_raw_fd(), number) }.into())?;
    }
    let (first, last) = (libc::STDERR_FILENO + 1, libc::c_uint::MAX);
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: it sets flags of descriptors of this process alone.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// A parent that died before the setting was made sends no signal: its child has another parent by now.
fn still_child_of(parent: Pid) -> Result<(), Errno> {
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(Errno::SRCH),
    }
}

/// Returns only if there is no such program, or it cannot be run.
fn exec(shared: &Shared) -> Result<(), Errno> {
    let (arguments, environment) = (shared.arguments.as_ptr(), shared.environment.as_ptr());
    for path in &shared.paths {
        // SAFETY: the path and what the lists point to end with NUL, and the lists with a null pointer.
        let failed = unsafe { libc::execve(path.as_ptr(), arguments, environment) };
        match check(failed.into()) {
            Err(Errno::NOENT) => {}
            failed => return failed.map(drop),
        }
    }
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests;

//! A child process that the kernel kills when its parent dies (`PR_SET_PDEATHSIG`, prctl(2)), or that inherits only three descriptors
//! (`close_range(2)`).

use crate::check;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child is killed when the *thread* that starts it ends, so that thread must live as long as the host. A program with set-user bits clears the
/// setting.
pub fn dies_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    // SAFETY: two system calls and a comparison; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            still_child_of(parent)
        })
    }
}

/// The child gets standard input, output and error and no other descriptor, not even one that this program inherited.
pub fn keeps_standard_streams(command: &mut Command) -> &mut Command {
    let (first, last) = (libc::STDERR_FILENO + 1, libc::c_uint::MAX);
    // SAFETY: one system call, which closes nothing before exec: until then the standard library needs its own descriptor.
    unsafe {
        command.pre_exec(move || {
            let flags = libc::CLOSE_RANGE_CLOEXEC;
            check(libc::syscall(libc::SYS_close_range, first, last, flags))?;
            Ok(())
        })
    }
}

/// A parent that died before the setting was made sends no signal: its child has another parent by now.
fn still_child_of(parent: Pid) -> io::Result<()> {
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(Errno::SRCH.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_child_is_killed_when_the_thread_that_started_it_ends() {
        let start = || dies_with_parent(Command::new("sleep").arg("60")).spawn();
        let mut child = std::thread::spawn(start).join().unwrap().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_child_runs_while_its_parent_lives() {
        let status = dies_with_parent(&mut Command::new("true")).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn a_child_is_given_three_descriptors() {
        let careless = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
        let listed = |command: &mut Command| command.arg("/proc/self/fd").output().unwrap().stdout;
        // The fourth descriptor is the directory that `ls` reads.
        let few = listed(keeps_standard_streams(&mut Command::new("ls")));
        assert_eq!(few, b"0\n1\n2\n3\n");
        assert!(listed(&mut Command::new("ls")).len() > few.len());
    }

    #[test]
    fn a_child_without_its_parent_does_not_run() {
        assert!(still_child_of(getppid().unwrap()).is_ok());
        let refused = still_child_of(getpid()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::SRCH.raw_os_error()));
    }
}

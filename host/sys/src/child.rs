//! A child process that the kernel kills when its parent dies (`PR_SET_PDEATHSIG`, prctl(2)). Apart because code between fork and exec is
//! `unsafe`: only calls that are safe in a signal handler may be made there (`CommandExt::pre_exec`).
//!
//! It knows no program: which are run, and for how long, is decided elsewhere.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child is killed when the *thread* that starts it ends, so that must be one that lives as long as the host. A program with set-user
/// bits sheds the order.
pub fn dies_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    // SAFETY: two system calls and a comparison; nothing is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            still_child_of(parent)
        })
    }
}

/// A parent that died before the order was given sends no signal: its child belongs to another by now.
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
    fn whoever_lost_its_parent_before_the_order_does_not_run() {
        assert!(still_child_of(getppid().unwrap()).is_ok());
        let refused = still_child_of(getpid()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::SRCH.raw_os_error()));
    }
}

//! The child's side: permanently gives up every right that its work does not need.
//!
//! It must run before any other thread is started: identity, rights and Landlock are per thread, and are inherited by new threads.

use crate::error::{REFUSED, UNCONFINED};
use crate::{Bounds, ChildError, landlock_rules, system_calls};
use rustix::io::Errno;
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, geteuid, getppid, getrlimit,
    set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::fmt::Display;
use std::fs;
use std::io::{self, Read, Write};
use std::process;

/// The user and the group without any files, by the kernel's own number (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65534;
/// The nice value of a child (`nice(2)`): it gets half of the CPU time that a client's call gets beside it.
const NICE: i32 = 3;
/// Makes the kernel kill a child first when memory runs out (proc(5), `oom_score_adj`).
const TAKE_FIRST: &str = "1000";
/// Address space beyond the memory that the child may write to, in bytes: program, libraries, and what the allocator reserves and does not use. It
/// bounds what `RLIMIT_DATA` does not count: shared memory.
const ADDRESS_SPACE_EXTRA_BYTES: u64 = 2 << 30;
/// Descriptors of a child that may open files or connections: those, and the descriptors of a runtime.
const DESCRIPTORS: u64 = 64;
/// Standard input, output and error: the only descriptors of a child that may open nothing. The limit bounds descriptor numbers, not open files: a
/// child that closes one of the three is kept from opening another by the seccomp filter.
const STANDARD_STREAMS: u64 = 3;
/// Seconds from SIGXCPU, which ends a program that does not expect it, to SIGKILL.
const CPU_GRACE_SECONDS: u64 = 1;

/// Gives up every right beyond `bounds`. A mechanism that the kernel lacks is skipped; a failure is an error, and then no work may be done.
pub fn confine(bounds: &Bounds) -> Result<(), ChildError> {
    give_up_rights(bounds)?;
    // After the next step this file cannot be read any more.
    let calls_are_held = system_calls::are_held_here();
    landlock_rules::raise(bounds).map_err(|error| failed("Landlock", io::Error::other(error)))?;
    // Not earlier, since the steps above open files.
    let descriptors = descriptors(bounds);
    limit(Resource::Nofile, descriptors, descriptors)?;
    // Last, since it permits none of the calls above.
    if calls_are_held {
        filter(bounds)?;
    }
    Ok(())
}

/// Confines this process, runs the work on the bytes of standard input, writes the answer to standard output, and exits. Must be called before any
/// thread is started.
pub fn serve<E: Display>(bounds: &Bounds, work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, E>) -> ! {
    if let Err(error) = confine(bounds) {
        end(UNCONFINED, &error);
    }
    let mut input = Vec::new();
    if let Err(source) = io::stdin().lock().read_to_end(&mut input) {
        end(UNCONFINED, &ChildError::Unreadable { source });
    }
    match work(input) {
        Ok(answer) => {
            let mut stdout = io::stdout().lock();
            match stdout.write_all(&answer).and_then(|()| stdout.flush()) {
                Ok(()) => process::exit(0),
                Err(source) => end(UNCONFINED, &ChildError::Unreadable { source }),
            }
        }
        Err(refusal) => end(REFUSED, &refusal),
    }
}

fn end(status: i32, message: &dyn Display) -> ! {
    // If the parent does not read the message, the exit status still reports the failure.
    let _ = writeln!(io::stderr(), "{message}");
    process::exit(status)
}

/// Permits only the system calls that the work needs.
pub(crate) fn filter(bounds: &Bounds) -> Result<(), ChildError> {
    let raised = system_calls::raise(bounds);
    raised.map_err(|error| failed("filtering system calls", io::Error::other(error)))
}

/// Applies what every kernel can enforce, except descriptors and system calls.
pub(crate) fn give_up_rights(bounds: &Bounds) -> Result<(), ChildError> {
    let parent = getppid();
    // Neither is part of the sandbox: a child without them is still bounded.
    let _ = fs::write("/proc/self/oom_score_adj", TAKE_FIRST);
    let _ = setpriority_process(None, NICE);
    become_nobody()?;
    step("giving up capabilities", set_capabilities(None, nothing()))?;
    step("giving up new rights", set_no_new_privs(true))?;
    die_with(parent)?;
    for (resource, soft, hard) in limits(bounds) {
        limit(resource, soft, hard)?;
    }
    Ok(())
}

/// The bounds as resource limits of the kernel, except descriptors: soft and hard limit.
fn limits(bounds: &Bounds) -> [(Resource, u64, u64); 6] {
    let memory = bounds.memory_bytes;
    let address_space = memory.saturating_add(ADDRESS_SPACE_EXTRA_BYTES);
    let cpu = bounds.cpu.as_secs().max(1);
    [
        (Resource::Data, memory, memory),
        (Resource::As, address_space, address_space),
        (Resource::Cpu, cpu, cpu.saturating_add(CPU_GRACE_SECONDS)),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Memlock, 0, 0),
    ]
}

fn descriptors(bounds: &Bounds) -> u64 {
    if bounds.network || !bounds.readable.is_empty() {
        DESCRIPTORS
    } else {
        STANDARD_STREAMS
    }
}

/// Changes root to the user nobody. Where that is not permitted, without the capability or in a user namespace that has no such user, the user stays,
/// and still loses its capabilities.
fn become_nobody() -> Result<(), ChildError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let changed = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(group, group, group))
        .and_then(|()| set_thread_res_uid(user, user, user));
    match changed {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        changed => step("changing to user nobody", changed),
    }
}

/// Asks the kernel to kill this process with its parent: a change of user clears the request that was made before the start.
fn die_with(parent: Option<Pid>) -> Result<(), ChildError> {
    let order = set_parent_process_death_signal(Some(Signal::KILL));
    step("asking to die with the parent", order)?;
    if getppid() == parent {
        return Ok(());
    }
    Err(failed("looking for the parent", Errno::SRCH.into()))
}

/// Sets a limit, never above the current hard limit: only root could raise it.
fn limit(resource: Resource, soft: u64, hard: u64) -> Result<(), ChildError> {
    let now = getrlimit(resource);
    let least =
        |requested: u64, now: Option<u64>| Some(now.map_or(requested, |now| now.min(requested)));
    let new = Rlimit {
        current: least(soft, now.maximum),
        maximum: least(hard, now.maximum),
    };
    step("setting a limit", setrlimit(resource, new))
}

fn nothing() -> CapabilitySets {
    CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    }
}

fn step(step: &'static str, done: Result<(), Errno>) -> Result<(), ChildError> {
    done.map_err(|errno| failed(step, errno.into()))
}

fn failed(step: &'static str, source: io::Error) -> ChildError {
    ChildError::Confine { step, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn bounds() -> Bounds {
        Bounds {
            memory_bytes: 1 << 30,
            cpu: Duration::from_secs(30),
            wall: Duration::from_secs(60),
            output_bytes: 1,
            network: false,
            readable: Vec::new(),
        }
    }

    #[test]
    fn child_memory_and_cpu_are_bounded_and_nothing_is_written() {
        let limits = limits(&bounds());
        assert!(limits.contains(&(Resource::Data, 1 << 30, 1 << 30)));
        assert!(limits.contains(&(Resource::As, 3 << 30, 3 << 30)));
        assert!(limits.contains(&(Resource::Cpu, 30, 31)));
        assert!(limits.contains(&(Resource::Core, 0, 0)));
        assert!(limits.contains(&(Resource::Fsize, 0, 0)));
    }

    #[test]
    fn a_child_without_paths_opens_nothing() {
        assert_eq!(descriptors(&bounds()), 3);
        let reader = Bounds {
            readable: vec![PathBuf::from("/etc")],
            ..bounds()
        };
        let client = Bounds {
            network: true,
            ..bounds()
        };
        assert_eq!((descriptors(&reader), descriptors(&client)), (64, 64));
    }
}

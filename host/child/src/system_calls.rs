//! seccomp: the system calls that a child may make, by name.
//!
//! A call that is not listed fails with EPERM, so that a library that tries one can continue without it, and an attacker learns nothing by being
//! killed.

use crate::Bounds;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Exists where the kernel has seccomp filters (proc(5); since Linux 4.14).
const FILTERS_ARE_HERE: &str = "/proc/sys/kernel/seccomp/actions_avail";
/// The bits of a socket's type argument that are the type; the rest is flags (socket(2)).
const KIND_OF_SOCKET: u64 = 0xf;

/// Computing, with threads and memory, on the streams that are open.
const COMPUTING: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Fails with an error that a C library handles: see `raise`.
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Reading files, besides opening them.
const READING: &[c_long] = &[
    libc::SYS_dup,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
];

/// Being a network client, with a runtime, besides creating sockets. A resolver binds a socket to ask for the addresses of this machine; listening is
/// not permitted.
const NETWORK: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
];

/// Permitted commands of fcntl: descriptor flags and duplication. Not the receiver of its signals (`F_SETOWN`, `F_SETSIG`), by which a child could
/// kill the process that reads its pipe, nor leases, locks and the size of a pipe, which the host shares.
const OF_DESCRIPTORS: [i32; 4] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_DUPFD_CLOEXEC,
];

/// System calls, each with its permitted arguments: one of the rules, or any arguments where there is none.
type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

/// Whether this kernel has seccomp filters.
pub(crate) fn are_held_here() -> bool {
    Path::new(FILTERS_ARE_HERE).exists()
}

/// Permits this process, with all of its threads, the calls that its bounds need. Of two filters the stricter result applies.
pub(crate) fn raise(bounds: &Bounds) -> Result<(), seccompiler::Error> {
    // A filter cannot see the flags of `clone3`. A library that gets ENOSYS uses the older `clone`, whose flags are visible.
    let unseen = Calls::from([(libc::SYS_clone3, Vec::new())]);
    put(unseen, SeccompAction::Allow, refusal(libc::ENOSYS))?;
    put(calls(bounds)?, refusal(libc::EPERM), SeccompAction::Allow)
}

fn put(
    calls: Calls,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<(), seccompiler::Error> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(calls, others, these, machine)?;
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}

fn refusal(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

fn calls(bounds: &Bounds) -> Result<Calls, BackendError> {
    let own = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    let mut calls: Calls = named(COMPUTING).collect();
    let of_descriptors = OF_DESCRIPTORS.map(|command| equal(1, command.unsigned_abs()));
    let mut of_descriptors: Vec<_> = of_descriptors.into_iter().collect::<Result<_, _>>()?;
    // Non-blocking mode may be set, but not signals.
    of_descriptors.push(SeccompRule::new(vec![
        argument(1, u32::MAX.into(), libc::F_SETFL.unsigned_abs().into())?,
        argument(2, libc::O_ASYNC.unsigned_abs().into(), 0)?,
    ])?);
    calls.extend([
        (libc::SYS_fcntl, of_descriptors),
        // Threads, but no processes: everything that a child starts ends with it.
        (libc::SYS_clone, vec![only(0, thread, thread)?]),
        (
            libc::SYS_prctl,
            vec![equal(0, libc::PR_SET_NAME.unsigned_abs())?],
        ),
        (libc::SYS_prlimit64, vec![equal(0, 0_u32)?]),
        // As abort(3) does.
        (libc::SYS_tgkill, vec![equal(0, own)?]),
    ]);
    if !bounds.readable.is_empty() {
        calls.extend(named(READING));
        calls.insert(libc::SYS_openat, vec![to_read(2)?]);
        #[cfg(target_arch = "x86_64")]
        calls.insert(libc::SYS_open, vec![to_read(1)?]);
    }
    if bounds.network {
        calls.extend(named(NETWORK));
        let route = libc::NETLINK_ROUTE.unsigned_abs().into();
        let sockets = vec![
            equal(0, libc::AF_INET.unsigned_abs())?,
            equal(0, libc::AF_INET6.unsigned_abs())?,
            // To ask for this machine's addresses; the other protocols of that family address other parts of the kernel.
            SeccompRule::new(vec![
                argument(0, u32::MAX.into(), libc::AF_NETLINK.unsigned_abs().into())?,
                argument(2, u32::MAX.into(), route)?,
            ])?,
        ];
        calls.insert(libc::SYS_socket, sockets);
        // A datagram socket could send to the socket of another process.
        let stream = libc::SOCK_STREAM.unsigned_abs().into();
        calls.insert(libc::SYS_socketpair, vec![only(1, KIND_OF_SOCKET, stream)?]);
        calls.insert(
            libc::SYS_ioctl,
            vec![equal(1, libc::FIONBIO)?, equal(1, libc::FIONREAD)?],
        );
    }
    Ok(calls)
}

fn named(calls: &[c_long]) -> impl Iterator<Item = (c_long, Vec<SeccompRule>)> {
    calls.iter().map(|call| (*call, Vec::new()))
}

/// Opened for reading, without creating or truncating: checked by the flags, which are this argument.
fn to_read(argument: u8) -> Result<SeccompRule, BackendError> {
    let changing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    only(argument, changing.unsigned_abs().into(), 0)
}

/// An argument of this value.
fn equal(argument: u8, value: impl Into<u64>) -> Result<SeccompRule, BackendError> {
    only(argument, u32::MAX.into(), value.into())
}

/// A rule of one condition.
fn only(at: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![argument(at, mask, value)?])
}

/// An argument whose bits in `mask` are those of `value`. All arguments that are checked here have 32 significant bits.
fn argument(at: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    let is = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, is, value)
}

//! The restrictions of a child of the tests, and the expected result of an act under each.

use super::super::*;
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The expected result of an act.
pub(super) type End = Result<(), Errno>;

/// An act, its object, the Landlock ABI that covers it (landlock(7)), and its result for a child that may pull and for one that may compute: under
/// Landlock alone, and under the seccomp filter alone.
pub(super) type Row = (&'static str, String, ABI, [End; 2], [End; 2]);

pub(super) const DONE: End = Ok(());
/// Landlock's error for files and for TCP.
pub(super) const CLOSED: End = Err(Errno::ACCESS);
/// Landlock's error for other processes, and the filter's for every system call.
pub(super) const DENIED: End = Err(Errno::PERM);

/// The restrictions of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// None.
    Free,
    /// The user nobody, and limits; up to `All`, a child may have as many descriptors as the host.
    Nobody,
    /// `Nobody`, and Landlock.
    Landlock(May),
    /// `Nobody`, and the seccomp filter, without Landlock. There is room for another descriptor, as for a child that has closed a stream.
    Filter(May),
    /// All restrictions.
    All(May),
}

/// The permitted work, by its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    /// Read one directory, and reach the network.
    Pull,
    /// Compute, as a compiler and the check of a file do.
    Compute,
}

/// All combinations.
pub(super) const HELD: [Held; 8] = [
    Held::Free,
    Held::Nobody,
    Held::Landlock(May::Pull),
    Held::Landlock(May::Compute),
    Held::Filter(May::Pull),
    Held::Filter(May::Compute),
    Held::All(May::Pull),
    Held::All(May::Compute),
];

impl Held {
    pub(super) fn word(self) -> String {
        format!("held={self:?}")
    }

    pub(super) fn bounds(self, readable: &Path) -> Bounds {
        let pulls = match self {
            Self::Free | Self::Nobody => false,
            Self::Landlock(may) | Self::Filter(may) | Self::All(may) => may == May::Pull,
        };
        let readable = pulls.then(|| readable.to_owned());
        Bounds {
            memory_bytes: 1 << 30,
            cpu: Duration::from_secs(30),
            wall: Duration::from_secs(60),
            output_bytes: 1 << 20,
            network: pulls,
            readable: readable.into_iter().collect(),
        }
    }

    /// The expected result of an act of the table. Where the kernel's Landlock does not cover the act, it succeeds: docs/security.md says so, and
    /// this test verifies it.
    pub(super) fn end(self, (act, _, since, landlock, filter): &Row) -> End {
        let landlock = landlock.map(|end| {
            let has = landlock_version() >= *since;
            if has { end } else { DONE }
        });
        let of = |[pull, compute]: [End; 2], may| match may {
            May::Pull => pull,
            May::Compute => compute,
        };
        match self {
            // Another restriction of some systems.
            Self::Nobody if *act == "take-descriptor" && !debugs_strangers() => DENIED,
            Self::Free | Self::Nobody => DONE,
            Self::Landlock(may) => of(landlock, may),
            Self::Filter(may) => of(*filter, may),
            // The filter decides before a system call has any effect.
            Self::All(may) => of(*filter, may).and(of(landlock, may)),
        }
    }
}

/// The Landlock ABI of this kernel.
pub(super) fn landlock_version() -> ABI {
    let raised = std::thread::spawn(|| raise(&Held::Nobody.bounds(Path::new("/"))).unwrap());
    match raised.join().unwrap() {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    }
}

/// Whether a process may trace others than its descendants; Yama can forbid it.
pub(super) fn debugs_strangers() -> bool {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map_or(true, |scope| scope.trim() == "0")
}

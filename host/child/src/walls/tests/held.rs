//! What may hold a child of the tests, and what is to become of an act then.

use super::super::*;
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How an act is to end.
pub(super) type End = Result<(), Errno>;

/// An act, what it is done to, since when Landlock has it (landlock(7)), and how it ends for who may pull and for who may compute: behind
/// Landlock alone, and behind the filter alone.
pub(super) type Row = (&'static str, String, ABI, [End; 2], [End; 2]);

pub(super) const DONE: End = Ok(());
/// Landlock's word for files and for TCP.
pub(super) const CLOSED: End = Err(Errno::ACCESS);
/// Landlock's word for other processes, and the filter's for everything.
pub(super) const DENIED: End = Err(Errno::PERM);

/// What holds a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing.
    Free,
    /// Nobody's user, and limits; it may have as many descriptors as the host, here and up to `All`.
    Nobody,
    /// That, and Landlock.
    Landlock(May),
    /// That without Landlock, and the filter of system calls. There is room for a descriptor, as for one who has closed a stream of its own.
    Filter(May),
    /// Everything.
    All(May),
}

/// What it may do, by its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    /// Read one directory, and reach the network.
    Pull,
    /// Compute, as a compiler and whoever checks a file.
    Compute,
}

/// Who holds a child.
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

    /// How an act of the table is to end; where Landlock lacks something, it succeeds: docs/security.md says so, and here it is held to it.
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
            // Another wall of some systems.
            Self::Nobody if *act == "take-descriptor" && !debugs_strangers() => DENIED,
            Self::Free | Self::Nobody => DONE,
            Self::Landlock(may) => of(landlock, may),
            Self::Filter(may) => of(*filter, may),
            // System calls are looked at before they do anything.
            Self::All(may) => of(*filter, may).and(of(landlock, may)),
        }
    }
}

/// What this kernel has of Landlock.
pub(super) fn landlock_version() -> ABI {
    let raised = std::thread::spawn(|| raise(&Held::Nobody.bounds(Path::new("/"))).unwrap());
    match raised.join().unwrap() {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    }
}

/// Yama lets nobody look into processes that are not its own children.
pub(super) fn debugs_strangers() -> bool {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map_or(true, |scope| scope.trim() == "0")
}

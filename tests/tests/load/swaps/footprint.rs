//! What a host takes of the machine: descriptors, mappings of compiled code, memory, files of versions.

use std::collections::BTreeSet;
use std::fs;
use wasmount_tests::host::Host;
use wasmount_tests::leaks::below;

/// At one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) descriptors: usize,
    /// Files of compiled code that are mapped. One has many regions: each memory of the pool that had an image of it keeps that.
    pub(crate) mapped_code: usize,
    /// All regions.
    pub(crate) regions: usize,
    /// Resident memory in KiB.
    pub(crate) resident: usize,
    /// Files below the directory of versions.
    pub(crate) version_files: usize,
    /// Files of compiled components.
    pub(crate) compiled_files: usize,
}

impl Footprint {
    /// Of a host, now.
    pub(crate) fn of(host: &Host) -> Self {
        let process = format!("/proc/{}", host.id());
        let read = |name: &str| fs::read_to_string(format!("{process}/{name}")).unwrap();
        let maps = read("maps");
        let files = |name: &str| {
            let all = below(&host.data().join(name)).unwrap();
            all.iter().filter(|path| path.is_file()).count()
        };
        Self {
            descriptors: fs::read_dir(format!("{process}/fd")).unwrap().count(),
            mapped_code: mapped_code(&maps),
            regions: maps.lines().count(),
            resident: resident(&read("status")),
            version_files: files("versions"),
            compiled_files: files("compiled"),
        }
    }
}

fn mapped_code(maps: &str) -> usize {
    // Address, rights, offset, device, inode, path (proc_pid_maps(5)).
    let code = maps.lines().filter(|line| line.contains(".cwasm"));
    let inodes = code.filter_map(|line| line.split_whitespace().nth(4));
    inodes.collect::<BTreeSet<_>>().len()
}

fn resident(status: &str) -> usize {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

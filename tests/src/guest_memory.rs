//! The memory of a running host, seen from outside: the kernel shows it while a call is under way. Linear memories of plugins are apart from the rest.

use crate::secret_search::SecretSearch;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use xtask::failure::Failure;

/// Address space that is reserved behind each linear memory, in bytes: nothing else in the host reserves so much at once.
const RESERVED_BYTES: u64 = 1 << 30;

/// The same before a linear memory: at least Wasmtime's guard before the first one.
const GUARD_BYTES: u64 = 16 << 20;

/// Sizes of a page and of its entry in the page map, in bytes; the bits of the last byte that say that it is in memory or swapped out
/// (proc_pid_pagemap(5)).
const PAGE_BYTES: usize = 4096;
const ENTRY_BYTES: usize = 8;
const PRESENT: u8 = 0b1100_0000;

/// Of a mapping at a time, in bytes: some are as large as all memories of the pool may become.
const CHUNK_BYTES: u64 = 64 << 20;

/// The memory of a host.
#[derive(Debug)]
pub struct HostMemory {
    /// Linear memories of its plugins.
    pub linear: Contents,
    /// All other writable memory.
    pub other: Contents,
}

/// Contents of mappings.
#[derive(Debug)]
pub struct Contents(Vec<Vec<u8>>);

/// A line of proc_pid_maps(5).
#[derive(Debug)]
struct Mapping {
    start: u64,
    end: u64,
    is_writable: bool,
    is_accessible: bool,
}

impl HostMemory {
    /// Reads the memory of a process. A linear memory lies between reservations: what is writable may be several mappings in a row.
    pub fn of(process: u32) -> Result<Self, Failure> {
        let maps = format!("/proc/{process}/maps");
        let text = fs::read_to_string(&maps).map_err(Failure::cannot(format!("read {maps}")))?;
        let all: Option<Vec<_>> = text.lines().map(Mapping::parse).collect();
        let all = all.ok_or_else(|| Failure::Unexpected(format!("{maps} has another form")))?;
        let (mut linear, mut other) = (Vec::new(), Vec::new());
        for run in
            all.chunk_by(|one, next| one.is_writable && next.is_writable && one.end == next.start)
        {
            let ([first, ..], [.., last]) = (run, run) else {
                continue;
            };
            let before = all.iter().find(|it| it.end == first.start);
            let after = all.iter().find(|it| it.start == last.end);
            let is_linear = before.is_some_and(|it| it.guards(GUARD_BYTES))
                && after.is_some_and(|it| it.guards(RESERVED_BYTES));
            match is_linear && first.is_writable {
                true => linear.extend(run),
                false => other.extend(run.iter().filter(|it| it.is_writable)),
            }
        }
        Ok(Self {
            linear: Contents::read(process, &linear)?,
            other: Contents::read(process, &other)?,
        })
    }
}

impl Contents {
    /// The secrets that are in it.
    pub fn found(&self, search: &SecretSearch) -> BTreeSet<String> {
        self.0.iter().flat_map(|it| search.found_in(it)).collect()
    }

    /// What the pages of the mappings hold that were ever written; those that are unmapped meanwhile hold nothing. Most of a pool never was, and reading
    /// it would fill the machine.
    fn read(process: u32, mappings: &[&Mapping]) -> Result<Self, Failure> {
        let open = |name: &str| {
            let path = format!("/proc/{process}/{name}");
            File::open(&path).map_err(Failure::cannot(format!("open {path}")))
        };
        let (memory, pages) = (open("mem")?, open("pagemap")?);
        let content = |it: &&Mapping| {
            let mut content = Vec::new();
            let mut chunk = it.start;
            while chunk < it.end {
                let end = it.end.min(chunk + CHUNK_BYTES);
                read_chunk(&memory, &pages, chunk, end, &mut content);
                chunk = end;
            }
            content
        };
        Ok(Self(mappings.iter().map(content).collect()))
    }
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end, rights) = (number(start)?, number(end)?, words.next()?);
        Some(Self {
            start,
            end,
            is_writable: rights.starts_with("rw"),
            is_accessible: !rights.starts_with("---"),
        })
    }

    /// Whether it is so many bytes of address space that nobody may touch.
    fn guards(&self, bytes: u64) -> bool {
        !self.is_accessible && self.end - self.start >= bytes
    }
}

/// Appends the pages between two addresses that are in memory.
fn read_chunk(memory: &File, pages: &File, start: u64, end: u64, content: &mut Vec<u8>) {
    let page_bytes = PAGE_BYTES as u64;
    let count = usize::try_from((end - start) / page_bytes).unwrap_or_default();
    let mut entries = vec![0; count * ENTRY_BYTES];
    let first = start / page_bytes * ENTRY_BYTES as u64;
    if pages.read_exact_at(&mut entries, first).is_err() {
        return;
    }
    let addresses = (start..).step_by(PAGE_BYTES);
    for (entry, page) in entries.chunks(ENTRY_BYTES).zip(addresses) {
        let mut bytes = [0; PAGE_BYTES];
        let is_present = entry.last().is_some_and(|it| it & PRESENT != 0);
        if is_present && memory.read_exact_at(&mut bytes, page).is_ok() {
            content.extend_from_slice(&bytes);
        }
    }
}

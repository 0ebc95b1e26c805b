//! The linear memory of a plugin that has had answers of an array holds neither its password, a token nor the private key of the host: the kernel shows the memory of the host from
//! outside, while a call is under way. The host holds all of them elsewhere, by design.

use super::Scene;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wasmount_tests::array::{ArrayOptions, PASSWORD, TOKEN_PREFIX};
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;

/// The volume is never ready, so the plugin waits for it.
const NEVER: Duration = Duration::from_secs(86_400);

/// The name of the volume, which the plugin must know.
const NAME: &str = "pvc-of-a-plugin-that-waits";

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
const CHUNK_BYTES: usize = 64 << 20;

/// Until the array has the volume. Generous: other tests share the machine.
const CREATED: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A line of proc_pid_maps(5).
#[derive(Debug)]
struct Mapping {
    start: u64,
    end: u64,
    is_writable: bool,
    is_accessible: bool,
}

/// Contents of mappings.
struct Memory(Vec<Vec<u8>>);

impl Mapping {
    fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let (start, end) = words.next().unwrap().split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end, rights) = (number(start), number(end), words.next().unwrap());
        Self {
            start,
            end,
            is_writable: rights.starts_with("rw"),
            is_accessible: !rights.starts_with("---"),
        }
    }

    /// Whether it is so many bytes of address space that nobody may touch.
    fn guards(&self, bytes: u64) -> bool {
        !self.is_accessible && self.end - self.start >= bytes
    }
}

impl Memory {
    /// What the pages of the mappings hold that were ever written; those that are unmapped meanwhile hold nothing. Most of a pool never was, and reading
    /// it would fill the machine.
    fn read(process: u32, mappings: &[&Mapping]) -> Self {
        let open = |name: &str| File::open(format!("/proc/{process}/{name}")).unwrap();
        let (memory, pages) = (open("mem"), open("pagemap"));
        let content = |it: &&Mapping| {
            let mut content = Vec::new();
            for chunk in (it.start..it.end).step_by(CHUNK_BYTES) {
                let size = CHUNK_BYTES.min(usize::try_from(it.end - chunk).unwrap());
                let mut entries = vec![0; size / PAGE_BYTES * ENTRY_BYTES];
                let first = chunk / PAGE_BYTES as u64 * ENTRY_BYTES as u64;
                if pages.read_exact_at(&mut entries, first).is_err() {
                    continue;
                }
                for (entry, page) in entries
                    .chunks(ENTRY_BYTES)
                    .zip((chunk..).step_by(PAGE_BYTES))
                {
                    let mut bytes = [0; PAGE_BYTES];
                    let is_present = entry[ENTRY_BYTES - 1] & PRESENT != 0;
                    if is_present && memory.read_exact_at(&mut bytes, page).is_ok() {
                        content.extend_from_slice(&bytes);
                    }
                }
            }
            content
        };
        Self(mappings.iter().map(content).collect())
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|content| super::holds(content, bytes))
    }
}

/// Linear memories, and all other writable memory. A linear memory lies between reservations: what is writable may be several mappings in a row.
fn memories(process: u32) -> (Memory, Memory) {
    let text = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let all: Vec<_> = text.lines().map(Mapping::parse).collect();
    let (mut linear, mut other) = (Vec::new(), Vec::new());
    for run in
        all.chunk_by(|one, next| one.is_writable && next.is_writable && one.end == next.start)
    {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let before = all.iter().find(|it| it.end == first.start);
        let after = all.iter().find(|it| it.start == last.end);
        let is_linear = before.is_some_and(|it| it.guards(GUARD_BYTES))
            && after.is_some_and(|it| it.guards(RESERVED_BYTES));
        match is_linear && first.is_writable {
            true => linear.extend(run),
            false => other.extend(run.iter().filter(|it| it.is_writable)),
        }
    }
    (
        Memory::read(process, &linear),
        Memory::read(process, &other),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_plugins_memory_has_no_password_token_or_key() {
    let options = ArrayOptions {
        job: NEVER,
        ..ArrayOptions::default()
    };
    let mut scene = Scene::of(0, options).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let creating = tokio::spawn(async move {
        orchestrator
            .create(requests::create(NAME, VOLUME_BYTES))
            .await
    });
    let start = Instant::now();
    while scene.array.counts().created == 0 {
        assert!(start.elapsed() < CREATED, "{}", scene.host.log());
        sleep(LOOK).await;
    }
    let (linear, other) = memories(scene.host.id());
    assert!(!creating.is_finished(), "the plugin did not wait");
    assert!(
        linear.holds(NAME.as_bytes()),
        "this is not the memory of the plugin"
    );
    let [key_line, ..] = scene.front.key_forms();
    for secret in [PASSWORD.as_bytes(), TOKEN_PREFIX.as_bytes(), &key_line] {
        assert!(other.holds(secret), "a look at memory finds nothing");
    }
    for secret in scene.secrets() {
        let shown = String::from_utf8_lossy(&secret);
        assert!(!linear.holds(&secret), "the plugin has {shown}");
    }
    // The call would wait until its time is over.
    scene.host.kill_9().unwrap();
}

//! Uses resources that the host must bound: time, memory, stack, handles, the log.

use super::{Deed, Table};
use std::hint::black_box;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasmount_guest::{Error, call, log, state};

/// Far longer than any budget.
const HOUR: Duration = Duration::from_secs(3600);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(20);
/// Most of the memory of one call in the tests.
const HELD_BYTES: usize = 40 << 20;
/// Pairs of lines, which with their ends are about twice what the host lets one call log (64 KiB). The first half are more lines than it lets a backend
/// log in some seconds (200 in each). There are no more, since each takes CPU time of the call, which has a limit on a busy machine too.
const FLOOD_LINES: u32 = 1_300;
const FLOOD_END: &str = "........................................";

pub const DEEDS: Table<Deed> = &[
    ("spin", spin),
    ("sleep", || {
        sleep(HOUR);
        Ok(())
    }),
    ("wait-until-cancelled", wait_until_cancelled),
    ("allocate", allocate),
    ("hold-memory", || {
        let held = black_box(vec![1_u8; HELD_BYTES]);
        sleep(HOUR);
        drop(held);
        Ok(())
    }),
    ("recurse", || {
        black_box(recurse(black_box(0)));
        Ok(())
    }),
    ("trap", || panic!("as asked")),
    ("exit", || std::process::exit(3)),
    ("flood", flood),
    ("leak-handles", leak_handles),
    ("big-host-call", big_host_call),
    ("global", called_once),
];

fn spin() -> Result<(), Error> {
    loop {
        black_box(());
    }
}

fn wait_until_cancelled() -> Result<(), Error> {
    while !call::is_cancelled() {
        sleep(LOOK);
    }
    Ok(())
}

fn allocate() -> Result<(), Error> {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1_u8; 1 << 20]));
    }
}

#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1))) + 1
}

fn flood() -> Result<(), Error> {
    for number in 0..FLOOD_LINES {
        log::info(
            format!("line {number} \u{1b}[31mred\u{1b}[0m {FLOOD_END}"),
            &[],
        );
        println!("line {number} {FLOOD_END}");
    }
    Ok(())
}

fn leak_handles() -> Result<(), Error> {
    loop {
        mem::forget(subscribe_duration(1));
    }
}

/// More bytes than one host call may carry.
fn big_host_call() -> Result<(), Error> {
    state::put("key", &vec![0_u8; 10 << 20], state::Expect::Any).map(drop)
}

/// Panics when it is called twice in one instance.
fn called_once() -> Result<(), Error> {
    static CALLED: AtomicBool = AtomicBool::new(false);
    assert!(
        !CALLED.swap(true, Ordering::Relaxed),
        "called twice in one instance"
    );
    Ok(())
}

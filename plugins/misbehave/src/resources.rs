//! Uses what a guest must not have without bound: time, memory, stack, handles, the log.

use std::hint::black_box;
use std::time::Duration;
use wasmount_guest::{log, pool::Pool, state};

/// Does what is named, if anything.
pub fn misuse(behaviour: &str) {
    match behaviour {
        "spin" => loop {
            black_box(());
        },
        "sleep" => std::thread::sleep(Duration::from_secs(3600)),
        "wait-until-cancelled" => {
            while !wasmount_guest::call::is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "allocate" => allocate(),
        "recurse" => {
            black_box(recurse(black_box(0)));
        }
        "trap" => panic!("as asked"),
        "exit" => std::process::exit(3),
        "flood" => flood(),
        "big-host-call" => {
            // More than one host call may carry.
            let _ = state::put("key", &vec![0_u8; 5 << 20], state::Expect::Any);
        }
        "write-state-and-trap" => {
            let _ = state::create("written", &1_u64);
            panic!("after a write");
        }
        "write-and-remove" => {
            let _ = state::create("written", &1_u64);
            let _ = Pool::named("volumes").remove_directory("old");
            let _ = state::delete("written");
        }
        "global" => remember(),
        _ => {}
    }
}

fn allocate() {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1_u8; 1 << 20]));
    }
}

#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1))) + 1
}

fn flood() {
    for number in 0..100_000 {
        log::info(format!("line {number} \u{1b}[31mred\u{1b}[0m"), &[]);
        println!("line {number}");
    }
}

/// Panics when it is called twice in one instance.
fn remember() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static CALLED: AtomicBool = AtomicBool::new(false);
    assert!(
        !CALLED.swap(true, Ordering::Relaxed),
        "called twice in one instance"
    );
}

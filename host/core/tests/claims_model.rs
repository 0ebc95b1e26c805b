//! Model test of the claims' lock: shuttle tries many interleavings of threads over the source that the driver compiles, with its own primitives
//! instead of the standard library's.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use lock::ClaimLock;
use names::VolumeId;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use table::{Claim, ClaimKey, Mode};
use wasmount_core::names;

mod sync {
    pub(super) use shuttle::sync::{Arc, Mutex};
}
#[path = "../src/claims/lock.rs"]
mod lock;
#[allow(dead_code, reason = "the model claims volumes only")]
#[path = "../src/claims/table.rs"]
mod table;

/// Interleavings that are tried of each model. 2000: all together take a second.
const INTERLEAVINGS: usize = 2000;

fn claim(volume: &str, mode: Mode) -> Claim {
    let id = VolumeId::parse("volume_id", volume).unwrap();
    (ClaimKey::Volume(id), mode)
}

#[test]
fn two_threads_never_hold_what_one_of_them_holds_alone() {
    let model = || {
        let claims = ClaimLock::default();
        let alone = Arc::new(AtomicBool::new(false));
        let sharing = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = [Mode::Exclusive, Mode::Shared, Mode::Exclusive, Mode::Shared]
            .into_iter()
            .map(|mode| {
                let (claims, alone, sharing) = (claims.clone(), alone.clone(), sharing.clone());
                thread::spawn(move || {
                    let set = [claim("a", Mode::Shared), claim("b", mode)];
                    let Ok(held) = claims.acquire(set) else {
                        return;
                    };
                    match mode {
                        Mode::Exclusive => {
                            assert!(!alone.swap(true, Ordering::SeqCst));
                            assert_eq!(sharing.load(Ordering::SeqCst), 0);
                            thread::yield_now();
                            assert_eq!(sharing.load(Ordering::SeqCst), 0);
                            alone.store(false, Ordering::SeqCst);
                        }
                        Mode::Shared => {
                            sharing.fetch_add(1, Ordering::SeqCst);
                            assert!(!alone.load(Ordering::SeqCst));
                            thread::yield_now();
                            assert!(!alone.load(Ordering::SeqCst));
                            sharing.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                    drop(held);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let all = [claim("a", Mode::Exclusive), claim("b", Mode::Exclusive)];
        assert!(claims.acquire(all).is_ok(), "all is given back");
    };
    shuttle::check_pct(model, INTERLEAVINGS, 3);
    shuttle::check_random(model, INTERLEAVINGS);
}

#[test]
fn of_two_sets_that_cross_one_is_granted_whole() {
    let model = || {
        let claims = ClaimLock::default();
        let granted = Arc::new(AtomicUsize::new(0));
        let held = Arc::new(shuttle::sync::Mutex::new(Vec::new()));
        let threads: Vec<_> = [["a", "b"], ["b", "a"]]
            .into_iter()
            .map(|volumes| {
                let (claims, granted, held) = (claims.clone(), granted.clone(), held.clone());
                thread::spawn(move || {
                    let set = volumes.map(|volume| claim(volume, Mode::Exclusive));
                    if let Ok(claimed) = claims.acquire(set) {
                        granted.fetch_add(1, Ordering::SeqCst);
                        held.lock().unwrap().push(claimed);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(granted.load(Ordering::SeqCst), 1);
        assert_eq!(claims.rejected(), 1);
    };
    shuttle::check_random(model, INTERLEAVINGS);
}

//! A child's whole life, from its confinement to its last word.

use crate::end::{REFUSED, UNCONFINED};
use crate::{Bounds, ChildError, confine};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::process;

/// Confines this process, does the work with what comes on standard input, answers on standard output, and ends. Must be called before any
/// thread is started.
pub fn serve<E: Display>(bounds: &Bounds, work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, E>) -> ! {
    if let Err(error) = confine(bounds) {
        end(UNCONFINED, &error);
    }
    let mut input = Vec::new();
    if let Err(source) = io::stdin().lock().read_to_end(&mut input) {
        end(UNCONFINED, &ChildError::Unheard { source });
    }
    match work(input) {
        Ok(answer) => {
            let mut stdout = io::stdout().lock();
            match stdout.write_all(&answer).and_then(|()| stdout.flush()) {
                Ok(()) => process::exit(0),
                Err(source) => end(UNCONFINED, &ChildError::Unheard { source }),
            }
        }
        Err(refusal) => end(REFUSED, &refusal),
    }
}

fn end(status: i32, words: &dyn Display) -> ! {
    // Nobody listens: the status says it too.
    let _ = writeln!(io::stderr(), "{words}");
    process::exit(status)
}

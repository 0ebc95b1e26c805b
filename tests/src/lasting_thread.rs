//! Threads that last as long as the program. The kernel ends a process with the thread that started it, and the thread of the first test ends before the
//! other tests do.

use std::sync::mpsc;
use std::thread;
use xtask::failure::Failure;

/// Starts something on a thread of its own, which never ends.
pub(crate) fn on_lasting_thread<T: Send + 'static>(
    start: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(start());
        loop {
            thread::park();
        }
    });
    started.recv().unwrap_or_else(|_| {
        Err(Failure::Unexpected(
            "the thread that starts a process panicked".to_owned(),
        ))
    })
}

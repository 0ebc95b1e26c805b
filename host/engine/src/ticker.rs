//! The clock that interrupts guests. An operating system thread and not a task: a spinning guest can hold every thread of the runtime, and then no
//! task would run that could stop it.

use crate::error::EngineError;
use std::time::Duration;
use wasmtime::Engine;

/// Time between two ticks: how long a guest may hold a thread before it yields, and how closely its CPU time is watched. 10 ms costs nothing that
/// could be measured, and with two guests spinning on two cores others are late by less than that.
const TICK: Duration = Duration::from_millis(10);

/// Starts the clock of an engine. It ends by itself within a tick of the engine.
pub(crate) fn start(engine: &Engine) -> Result<(), EngineError> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("wasmount-ticker".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(|error| EngineError::Start(format!("no thread for the clock: {error}")))
}

//! The world of a component as WIT.

use crate::fault::Fault;
use std::thread;
use wit_component::{OutputToString, WitPrinter};

const UNPRINTABLE: &str = "the component's world cannot be printed";

/// All of it: the world, and every package that it stands on.
pub(super) fn world(wasm: Vec<u8>) -> Result<String, Fault> {
    // On a thread of its own, where a panic is an answer.
    let printed = thread::spawn(move || print(&wasm)).join();
    match printed {
        Ok(text) => text.map_err(Fault::room(UNPRINTABLE)),
        Err(_) => Err(Fault::room(UNPRINTABLE)(
            "the decoder of WIT does not understand it",
        )),
    }
}

fn print(wasm: &[u8]) -> Result<String, String> {
    let said = |error: &dyn std::fmt::Display| format!("{error:#}");
    let decoded = wit_component::decode(wasm).map_err(|error| said(&error))?;
    let resolve = decoded.resolve();
    let main = decoded.package();
    let others: Vec<_> = resolve
        .packages
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != main)
        .collect();
    let mut printer = WitPrinter::<OutputToString>::default();
    let printed = printer.print(resolve, main, &others);
    printed.map_err(|error| said(&error))?;
    Ok(printer.output.to_string())
}

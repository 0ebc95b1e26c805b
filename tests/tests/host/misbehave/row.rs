//! A row of a table: what the plugin does in which call, and what the client gets.

use crate::misbehave::call::Call;
use crate::misbehave::scene::{Driver, Scene};
use tonic::{Code, Status};
use wasmount_tests::orchestrator::code;

/// What is done, in which call, with which code, and what is said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row(
    pub(crate) &'static str,
    pub(crate) Call,
    pub(crate) Code,
    pub(crate) Told,
);

/// A table, a row a line: the behaviour, the call, the code, what is told.
macro_rules! rows {
    ($($behaviour:literal in $call:ident: $code:ident, $told:ident$(($words:literal))?;)*) => {
        &[$($crate::misbehave::row::Row(
            $behaviour,
            $crate::misbehave::call::Call::$call,
            tonic::Code::$code,
            $crate::misbehave::row::Told::$told$(($words))?,
        )),*]
    };
}
pub(crate) use rows;

/// What the client reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told {
    /// The plugin's name, version and digest, and these words.
    Fault(&'static str),
    /// These words.
    Words(&'static str),
    /// Nothing: the call is answered.
    Fine,
}

impl Told {
    /// Whether an answer says so; why not.
    pub(crate) fn holds(self, answer: &Result<String, Status>, driver: &Driver) -> bool {
        match (self, answer) {
            (Told::Fault(words), Err(status)) => {
                status.message().contains(driver.label()) && status.message().contains(words)
            }
            (Told::Words(words), Err(status)) => status.message().contains(words),
            (Told::Fine, Ok(_)) => true,
            _ => false,
        }
    }
}

/// Makes every call of a table; after each, the driver and its neighbour go on.
pub(crate) async fn hold(scene: &Scene, table: &[Row]) {
    let mut wrong = Vec::new();
    for Row(behaviour, call, expected, told) in table.iter().copied() {
        let answer = call.with(&scene.driver, behaviour).await;
        if code(&answer) != expected || !told.holds(&answer, &scene.driver) {
            wrong.push(format!(
                "{behaviour} in {call:?}: {answer:?}, not {expected:?} {told:?}"
            ));
        }
        scene.goes_on(behaviour).await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a table tests.
pub(crate) fn names(table: &[Row]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|row| row.0)
}

//! Compiles plugins in a child process: a component that crashes, hangs or bloats the compiler causes only one rejection.
//!
//! The child's answer is trusted as far as the compiler is: it is machine code, and the host runs it.

use crate::component_facts::check_bounds;
use async_trait::async_trait;
use std::time::Duration;
use wasmount_child::{Bounds, ChildError, Task};
use wasmount_engine::{Compile, EngineError, Target, compile};

/// The subcommand that a child is started with.
const SUBCOMMAND: &str = "compile-child";
/// Memory of one compiler, in bytes. A plugin in Go of 3 MB takes 0.1 GiB; the largest that is read, 64 MiB, would take all of it.
const MEMORY_BYTES: u64 = 2 << 30;
/// Processor time of one compilation. A plugin in Go of 3 MB takes 4 s in a debug build, the largest plugin 90 s.
const CPU: Duration = Duration::from_secs(120);
/// Wall-clock time of one compilation: far more than its processor time, since it yields to everything else on a busy machine.
const WALL: Duration = Duration::from_secs(600);
/// Largest machine code, in bytes: eight times the largest plugin.
const CODE_BYTES: u64 = 512 << 20;

/// The compiler that the host passes to the engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChildCompiler;

#[async_trait]
impl Compile for ChildCompiler {
    async fn compile(&self, target: Target, wasm: &[u8]) -> Result<Vec<u8>, EngineError> {
        let task = Task {
            subcommand: SUBCOMMAND,
            arguments: vec![target.name().into()],
            bounds: bounds(),
        };
        let compiled = wasmount_child::run(&task, wasm.to_owned()).await;
        compiled.map_err(|error| refusal(&error))
    }
}

/// Compiles the component on standard input in the confined child, and ends the process.
pub(crate) fn compile_as_child(target: Target) -> ! {
    wasmount_child::serve(&bounds(), |wasm| {
        // The compiler recurses to any depth that its stack allows, and keeps all names, which the host would have to hold.
        check_bounds(&wasm).map_err(|refused| refused.to_string())?;
        compile(target, &wasm).map_err(|error| match error {
            // The parent adds the rest of the message.
            EngineError::Compile(reason) => reason,
            other => other.to_string(),
        })
    })
}

fn bounds() -> Bounds {
    Bounds {
        memory_bytes: MEMORY_BYTES,
        cpu: CPU,
        wall: WALL,
        output_bytes: CODE_BYTES,
        network: false,
        readable: Vec::new(),
    }
}

fn refusal(error: &ChildError) -> EngineError {
    if error.is_of_the_moment() {
        return EngineError::NotCompiled(error.to_string());
    }
    EngineError::Compile(match error {
        ChildError::Refused { message } => message.clone(),
        ChildError::Crashed { .. } => {
            format!(
                "{error}; this is a fault of the compiler, and the plugin that hits it must change: report both"
            )
        }
        over => format!("{over}; split its largest functions, or build it smaller"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_and_component_failures_are_distinguished() {
        let text = |error: &ChildError| refusal(error).to_string();
        assert_eq!(
            text(&ChildError::Memory {
                limit_bytes: MEMORY_BYTES
            }),
            "the component does not compile: it takes more than 2048 MiB of memory; split its largest functions, or build it smaller"
        );
        let message = "invalid magic".to_owned();
        assert_eq!(
            text(&ChildError::Refused { message }),
            "the component does not compile: invalid magic"
        );
        assert!(matches!(
            refusal(&ChildError::Killed),
            EngineError::NotCompiled(_)
        ));
    }

    #[test]
    fn a_compiler_can_open_nothing() {
        let Bounds {
            network, readable, ..
        } = bounds();
        assert!(!network && readable.is_empty());
    }
}

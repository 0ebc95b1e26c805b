//! A plugin that executes a script: the parameter, context value or setting `script` of a call, as steps that are separated by `;`. The tests of the
//! host thus state which requests a call sends and how it ends. Without a script, each call succeeds and sends nothing.
//!
//! | Step | Meaning |
//! |---|---|
//! | `METHOD [MARKS] /PATH` | a request to the grant `array`, whose answer is awaited; any status is good |
//! | `leave METHOD [MARKS] /PATH` | a request whose answer is not awaited |
//! | `grpc /SERVICE/METHOD` | a unary call of gRPC with an empty message; a status other than 0 ends the call |
//! | `to AUTHORITY` | the next requests go there |
//! | `body BYTES` | the next requests have a body of this size |
//! | `answer` | ends the call with the last answer in an error |
//! | `log` | writes the last answer to the log |
//! | `secrets` | ends the call with the names of the backend's secrets in an error |
//! | `login VALUE` | takes the session's value, or keeps this one |
//! | `logout VALUE` | invalidates this value of the session |
//! | `sleep` | waits by the clock of WASI, longer than any call |
//! | `spin` | computes forever |
//! | `exhaust` | ends the call with `resource-exhausted` |
//! | `trap` | panics |
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a trap is one of the steps")]

mod http;
mod script;

use wasmount_guest::*;

/// The key of a script.
const SCRIPT: &str = "script";

struct Requester;
export! { identity: Requester, controller: Requester, capacity: Requester, node_stage: Requester }

impl Identity for Requester {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("requester.wasmount.io", env!("CARGO_PKG_VERSION"))
    }

    fn probe() -> Result<bool, Error> {
        script::run(&value(&call::settings(), "probe"))?;
        Ok(true)
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        script::run(&value(&call::settings(), "check"))?;
        Ok(Vec::new())
    }
}

impl Controller for Requester {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        script::run(&value(&args.parameters, SCRIPT))?;
        Ok(Volume::new(args.name, 1 << 30))
    }

    fn delete_volume(_: VolumeId) -> Result<(), Error> {
        Ok(())
    }

    fn validate_volume_capabilities(_: ValidateArgs) -> Result<Validation, Error> {
        Ok(Validation::Confirmed)
    }
}

impl Capacity for Requester {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        script::run(&value(&args.parameters, SCRIPT))?;
        Ok(Available::bytes(1 << 40))
    }
}

impl NodeStage for Requester {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        script::run(&value(&args.volume_context, SCRIPT))?;
        plan.tmpfs(None)
    }
}

fn value(attributes: &Attributes, name: &str) -> String {
    let found = attributes.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

//! Import `sealed-secrets`: seals values in calls of the controller service, and records sealed options of a plan.

use super::Answer;
use crate::bindings::imported::sealed_secrets::Host;
use crate::host_error::HostError;
use crate::invocation::Invocation;
use crate::sealing::Sealing;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::names::VolumeId;
use zeroize::Zeroizing;

impl Host for Invocation {
    fn seal(&mut self, volume: String, value: String) -> Answer<String> {
        let value = Zeroizing::new(value);
        if !self.call.rpc.is_of_controller() {
            let reason = "values are sealed in calls of the controller service only";
            return Err(HostError::new(Code::FailedPrecondition, reason));
        }
        let volume = VolumeId::parse("volume id", &volume).map_err(|invalid| {
            HostError::rejected(invalid.to_string(), Blame::argument(&volume))
        })?;
        let sealed = granted(self.parts.sealing.as_ref())?.seal(&volume, &value)?;
        self.redactor.learn([value]);
        Ok(sealed)
    }

    fn secret_options(&mut self, options: Vec<(String, String)>) -> Answer<()> {
        granted(self.parts.sealing.as_ref())?;
        self.recorder.sealed_options(options)
    }
}

fn granted(sealing: Option<&Sealing>) -> Answer<&Sealing> {
    sealing.ok_or_else(|| {
        let reason = "sealing is not granted; name a secret of the document in grants.sealing";
        let refused = HostError::new(Code::PermissionDenied, reason);
        refused.blaming(Code::PermissionDenied, Blame::Of(Owner::Administrator))
    })
}

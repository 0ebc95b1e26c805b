//! Records the plan of one call.
//!
//! A rejected step is remembered: it fails the call even if the guest ignores the error. The mounter checks whether a step is *granted*.

use crate::host_error::HostError;
use crate::redact::Redactor;
use crate::sealing::is_sealed;
use std::collections::BTreeMap;
use wasmount_core::attributes::MAP_BYTES;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::plan::{FILE_BYTES, Luks, PLAN_BYTES, PLAN_STRINGS, Plan, Source};

/// The plan of one call so far.
#[derive(Debug)]
pub(crate) struct Recorder {
    open: bool,
    redactor: Redactor,
    pub(crate) source: Option<Source>,
    default_fs_type: Option<String>,
    mount_options: Vec<String>,
    notes: BTreeMap<String, String>,
    luks: Option<Luks>,
    bytes: usize,
    strings: usize,
    /// Why the call must fail, whatever the guest answered.
    pub(crate) refused: Option<StepRefusal>,
}

/// Why a step was rejected.
#[derive(Debug)]
pub(crate) struct StepRefusal {
    /// The client's code if the request or the document must change; absent: that of an invalid answer.
    pub(crate) code: Option<Code>,
    pub(crate) text: String,
    pub(crate) blame: Blame,
}

impl Recorder {
    /// `open`: this call may record a plan.
    pub(crate) fn new(open: bool, redactor: Redactor) -> Self {
        Self {
            open,
            redactor,
            source: None,
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks: None,
            bytes: 0,
            strings: 0,
            refused: None,
        }
    }

    /// Records the source of the volume.
    pub(crate) fn source(&mut self, source: Source) -> Result<(), HostError> {
        let step = source.step();
        self.check(step, &source.strings())?;
        if source.file_bytes() > FILE_BYTES {
            let blame = Blame::Size(FILE_BYTES);
            return Err(self.refuse(step, "its files hold more than 1 MiB", blame));
        }
        if self.source.is_some() {
            let reason = "the plan has a source already, and takes one only";
            return Err(self.refuse(step, reason, Blame::Of(Owner::Plugin)));
        }
        self.source = Some(source);
        Ok(())
    }

    /// Rejects a step that adds to the source of another one: that one comes first.
    pub(crate) fn misplaced(&mut self, step: &str, first: &str) -> HostError {
        let reason = format!("it belongs to the step `{first}`, which comes first");
        self.refuse(step, &reason, Blame::Of(Owner::Plugin))
    }

    /// Records that the block device of the source is encrypted.
    pub(crate) fn luks(&mut self, luks: Luks) -> Result<(), HostError> {
        if self.source.as_ref().is_some_and(Source::is_block_device) {
            self.luks = Some(luks);
            return Ok(());
        }
        let reason = "it belongs to a step that is a block device (`image`, `device`, `any-device`, `iscsi`, `nvme`, `rbd`), which comes first";
        Err(self.refuse("luks", reason, Blame::Of(Owner::Plugin)))
    }

    /// Records secret options of the step `filesystem` whose values are secrets of the backend's document.
    pub(crate) fn backend_secret_options(
        &mut self,
        added: Vec<(String, String)>,
        is_known: impl Fn(&(String, String)) -> bool,
    ) -> Result<(), HostError> {
        const STEP: &str = "backend-secret-options";
        let strings = added.iter().flat_map(|(option, secret)| [option, secret]);
        let strings: Vec<&str> = strings.map(String::as_str).collect();
        self.check(STEP, &strings)?;
        if !added.iter().all(is_known) {
            let reason = "it names a secret that the document of the backend does not have; add it to `spec.secrets`";
            return Err(self.refuse(STEP, reason, Blame::Of(Owner::Administrator)));
        }
        let Some(Source::Filesystem {
            backend_secret_options,
            ..
        }) = &mut self.source
        else {
            return Err(self.misplaced(STEP, "filesystem"));
        };
        backend_secret_options.extend(added);
        Ok(())
    }

    /// Records secret options of the step `filesystem` whose values are sealed.
    pub(crate) fn sealed_options(&mut self, added: Vec<(String, String)>) -> Result<(), HostError> {
        const STEP: &str = "secret-options";
        let strings = added.iter().flat_map(|(option, text)| [option, text]);
        let strings: Vec<&str> = strings.map(String::as_str).collect();
        self.check(STEP, &strings)?;
        if let Some((_, text)) = added.iter().find(|(_, text)| !is_sealed(text)) {
            let reason = "it names what is no sealed text; pass on what `seal` returned";
            return Err(self.refuse(STEP, reason, Blame::argument(text)));
        }
        let Some(Source::Filesystem { sealed_options, .. }) = &mut self.source else {
            return Err(self.misplaced(STEP, "filesystem"));
        };
        sealed_options.extend(added);
        Ok(())
    }

    /// Records the file system that is used if the request names none.
    pub(crate) fn default_fs_type(&mut self, fs_type: String) -> Result<(), HostError> {
        self.check("default-fs-type", &[&fs_type])?;
        self.default_fs_type = Some(fs_type);
        Ok(())
    }

    /// Records options in addition to those of the request.
    pub(crate) fn mount_options(&mut self, options: Vec<String>) -> Result<(), HostError> {
        let strings: Vec<&str> = options.iter().map(String::as_str).collect();
        self.check("mount-options", &strings)?;
        self.mount_options.extend(options);
        Ok(())
    }

    /// Records a note for the journal.
    pub(crate) fn note(&mut self, key: String, value: String) -> Result<(), HostError> {
        self.check("note", &[&key, &value])?;
        self.notes.insert(key, value);
        let bytes = self
            .notes
            .iter()
            .map(|(key, value)| key.len() + value.len());
        if bytes.sum::<usize>() > MAP_BYTES {
            let reason = "the notes of a volume hold more than 4 KiB";
            return Err(self.refuse("note", reason, Blame::Size(MAP_BYTES)));
        }
        Ok(())
    }

    /// Rejects a step for good. If the request or the document is responsible, it must change.
    pub(crate) fn refuse(&mut self, step: &str, reason: &str, blame: Blame) -> HostError {
        let text = format!("step `{step}` is refused: {reason}");
        self.refused.get_or_insert_with(|| StepRefusal {
            code: match blame {
                Blame::Of(Owner::Request) => Some(Code::InvalidArgument),
                Blame::Of(Owner::Administrator) => Some(Code::FailedPrecondition),
                _ => None,
            },
            text: text.clone(),
            blame,
        });
        HostError::new(Code::InvalidArgument, text)
    }

    /// The recorded plan; none without a source.
    pub(crate) fn into_plan(self) -> Option<Plan> {
        Some(Plan {
            source: self.source?,
            default_fs_type: self.default_fs_type,
            mount_options: self.mount_options,
            notes: self.notes,
            luks: self.luks,
        })
    }

    /// Counts the strings of a step, and refuses those that no plan may have.
    pub(crate) fn check(&mut self, step: &'static str, strings: &[&str]) -> Result<(), HostError> {
        if !self.open {
            let reason = "a plan is recorded in node-stage and node-publish only";
            self.refuse(step, reason, Blame::Of(Owner::Plugin));
            return Err(HostError::new(Code::FailedPrecondition, reason));
        }
        self.strings = self.strings.saturating_add(strings.len());
        let bytes = strings.iter().map(|string| string.len()).sum();
        self.bytes = self.bytes.saturating_add(bytes);
        if self.strings > PLAN_STRINGS || self.bytes > PLAN_BYTES {
            // Each byte of a request adds at most one string.
            let limit = if self.strings > PLAN_STRINGS {
                PLAN_STRINGS
            } else {
                PLAN_BYTES
            };
            let reason = "the plan is larger than 256 strings or 32 KiB";
            return Err(self.refuse(step, reason, Blame::Size(limit)));
        }
        if let Some(string) = strings.iter().find(|string| string.contains('\0')) {
            return Err(self.refuse(
                step,
                "a string contains a NUL byte",
                Blame::argument(*string),
            ));
        }
        let is_secret = |string: &&&str| self.redactor.finds_secret_in(string);
        if let Some(string) = strings.iter().find(is_secret) {
            let reason = "a string contains the value of a secret; give its name in `secret-options` instead, the plan is journaled";
            return Err(self.refuse(step, reason, Blame::argument(*string)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

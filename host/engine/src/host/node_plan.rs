//! Import `node-plan`: the steps of a volume's plan. They are only recorded; the recorder has the rules.

use super::Answer;
use crate::bindings::imported::node_plan::{File, Host};
use crate::bindings::imported::secrets::Scope;
use crate::convert::Convert;
use crate::invocation::Invocation;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::plan::{Alternatives, Source};

impl Host for Invocation {
    fn directory(&mut self, pool: String, path: String) -> Answer<()> {
        self.recorder.source(Source::Directory { pool, path })
    }

    fn image(&mut self, pool: String, path: String) -> Answer<()> {
        self.recorder.source(Source::Image { pool, path })
    }

    fn device(&mut self, facts: Vec<(String, String)>, wait_ms: u32) -> Answer<()> {
        self.recorder.source(Source::Device { facts, wait_ms })
    }

    fn any_device(
        &mut self,
        alternatives: Vec<Vec<(String, String)>>,
        rescan: bool,
        wait_ms: u32,
    ) -> Answer<()> {
        // Each byte of a request adds at most one alternative or fact.
        let blame = match alternatives.is_empty() {
            true => Blame::Of(Owner::Plugin),
            false => Blame::Size(DeviceFact::ALL.len()),
        };
        match Alternatives::try_from(alternatives) {
            Ok(alternatives) => self.recorder.source(Source::AnyDevice {
                alternatives,
                rescan,
                wait_ms,
            }),
            Err(invalid) => {
                let reason = invalid.to_string();
                Err(self.recorder.refuse("any-device", &reason, blame))
            }
        }
    }

    fn filesystem(
        &mut self,
        fs_type: String,
        source: String,
        options: Vec<String>,
        secret_options: Vec<(String, String)>,
    ) -> Answer<()> {
        let names = secret_options.iter().map(|(_, secret)| secret.as_str());
        self.known_scope("filesystem", Scope::Request, names)?;
        self.recorder.source(Source::Filesystem {
            fs_type,
            source,
            options,
            secret_options,
            backend_secret_options: Vec::new(),
            sealed_options: Vec::new(),
        })
    }

    fn backend_secret_options(&mut self, options: Vec<(String, String)>) -> Answer<()> {
        let known = |(_, secret): &(String, String)| self.parts.secrets.get(secret).is_some();
        self.recorder.backend_secret_options(options, known)
    }

    fn tmpfs(&mut self, size_bytes: Option<u64>) -> Answer<()> {
        self.recorder.source(Source::Tmpfs { size_bytes })
    }

    fn files(&mut self, files: Vec<File>) -> Answer<()> {
        let files = files.convert();
        self.recorder.source(Source::Files { files })
    }

    fn default_fs_type(&mut self, fs_type: String) -> Answer<()> {
        self.recorder.default_fs_type(fs_type)
    }

    fn mount_options(&mut self, options: Vec<String>) -> Answer<()> {
        self.recorder.mount_options(options)
    }

    fn note(&mut self, key: String, value: String) -> Answer<()> {
        self.recorder.note(key, value)
    }
}

//! The interface `node-plan` in memory: records the steps of a node call for the test.

use super::node_encryption::Luks;
use super::node_iscsi::Iscsi;
use super::node_nvme::Nvme;
use super::node_rbd::Rbd;
use super::{attempt, with};
use crate::error::Error;
use crate::plan::File;
use crate::secrets::Scope;
use std::collections::BTreeMap;

/// The plan that a node call recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlan {
    /// The source of the volume.
    pub source: Source,
    /// For a request that names no file system.
    pub default_fs_type: Option<String>,
    /// In addition to the mount options of the request.
    pub mount_options: Vec<String>,
    /// Stored with the volume.
    pub notes: BTreeMap<String, String>,
    /// The block device of the source is encrypted.
    pub luks: Option<Luks>,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A tree of a pool.
    Directory {
        /// Name of the pool.
        pool: String,
        /// Relative to the pool.
        path: String,
    },
    /// An image of a pool.
    Image {
        /// Name of the pool.
        pool: String,
        /// Relative to the pool.
        path: String,
    },
    /// A block device that matches all facts.
    Device {
        /// Such as `serial` = `..`.
        facts: Vec<(String, String)>,
        /// How long to wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// A block device that matches all facts of one alternative.
    AnyDevice {
        /// Each with facts such as `serial` = `..`.
        alternatives: Vec<Vec<(String, String)>>,
        /// Whether the node looks for new SCSI disks.
        rescan: bool,
        /// How long to wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// A disk behind iSCSI targets.
    Iscsi(Iscsi),
    /// A namespace of an NVMe subsystem over TCP.
    Nvme(Nvme),
    /// An image of a Ceph cluster.
    Rbd(Rbd),
    /// A file system that the kernel mounts by name.
    Filesystem {
        /// Such as `nfs4`.
        fs_type: String,
        /// The source argument of mount(2).
        source: String,
        /// Options without secrets.
        options: Vec<String>,
        /// Option name to the name of a request secret.
        secret_options: Vec<(String, String)>,
        /// Option name to the name of a secret of the backend's document.
        backend_secret_options: Vec<(String, String)>,
        /// Option name to a sealed text.
        sealed_options: Vec<(String, String)>,
    },
    /// An empty file system in memory.
    Tmpfs {
        /// Absent: the kernel's default.
        size_bytes: Option<u64>,
    },
    /// Small files on a file system in memory.
    Files(Vec<File>),
}

impl Source {
    pub(super) fn is_block_device(&self) -> bool {
        let steps = ["image", "device", "any-device", "iscsi", "nvme", "rbd"];
        steps.contains(&self.step())
    }

    /// The step's name in the contract.
    pub fn step(&self) -> &'static str {
        match self {
            Source::Directory { .. } => "directory",
            Source::Image { .. } => "image",
            Source::Device { .. } => "device",
            Source::AnyDevice { .. } => "any-device",
            Source::Iscsi(_) => "iscsi",
            Source::Nvme(_) => "nvme",
            Source::Rbd(_) => "rbd",
            Source::Filesystem { .. } => "filesystem",
            Source::Tmpfs { .. } => "tmpfs",
            Source::Files(_) => "files",
        }
    }
}

/// A plan that is being recorded.
#[derive(Default)]
pub(super) struct Recording {
    pub(super) source: Option<Source>,
    pub(super) luks: Option<Luks>,
    default_fs_type: Option<String>,
    mount_options: Vec<String>,
    notes: BTreeMap<String, String>,
    /// A rejected step fails the call even if the backend ignores the error.
    refused: Option<Error>,
}

impl Recording {
    pub(super) fn finish(self) -> Result<RecordedPlan, Error> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        Ok(RecordedPlan {
            source: self.source.ok_or_else(|| {
                Error::internal("the plan has no source: record what the volume is")
            })?,
            default_fs_type: self.default_fs_type,
            mount_options: self.mount_options,
            notes: self.notes,
            luks: self.luks,
        })
    }
}

pub(crate) fn directory(pool: &str, path: &str) -> Result<(), Error> {
    take(Source::Directory {
        pool: pool.to_owned(),
        path: path.to_owned(),
    })
}

pub(crate) fn image(pool: &str, path: &str) -> Result<(), Error> {
    take(Source::Image {
        pool: pool.to_owned(),
        path: path.to_owned(),
    })
}

pub(crate) fn device(facts: &[(String, String)], wait_ms: u32) -> Result<(), Error> {
    take(Source::Device {
        facts: facts.to_vec(),
        wait_ms,
    })
}

pub(crate) fn any_device(
    alternatives: &[Vec<(String, String)>],
    rescan: bool,
    wait_ms: u32,
) -> Result<(), Error> {
    take(Source::AnyDevice {
        alternatives: alternatives.to_vec(),
        rescan,
        wait_ms,
    })
}

pub(crate) fn filesystem(
    fs_type: &str,
    source: &str,
    options: &[String],
    secret_options: &[(String, String)],
) -> Result<(), Error> {
    take(Source::Filesystem {
        fs_type: fs_type.to_owned(),
        source: source.to_owned(),
        options: options.to_vec(),
        secret_options: secret_options.to_vec(),
        backend_secret_options: Vec::new(),
        sealed_options: Vec::new(),
    })
}

pub(crate) fn backend_secret_options(options: &[(String, String)]) -> Result<(), Error> {
    let names = options.iter().map(|(_, secret)| secret.as_str());
    let names: Vec<&str> = names.collect();
    let step = ["backend-secret-options", "filesystem"];
    add_to_source(step, Scope::Backend, &names, |source| match source {
        Source::Filesystem {
            backend_secret_options,
            ..
        } => {
            backend_secret_options.extend_from_slice(options);
            Some(())
        }
        _ => None,
    })
}

/// Records a step with names of secrets that belongs to another step, which comes first. `add` returns nothing for another source.
pub(super) fn add_to_source(
    [step, first]: [&str; 2],
    scope: Scope,
    names: &[&str],
    add: impl FnOnce(&mut Source) -> Option<()>,
) -> Result<(), Error> {
    let first = format!("the step `{first}`");
    add_with_secrets([step, &first], scope, names, |plan| {
        plan.source.as_mut().and_then(add)
    })
}

/// The same for a step that is not part of the source.
pub(super) fn add_with_secrets(
    steps: [&str; 2],
    scope: Scope,
    names: &[&str],
    add: impl FnOnce(&mut Recording) -> Option<()>,
) -> Result<(), Error> {
    let known = with(|host| {
        let is_known = |name: &&str| host.secrets.contains_key(&(scope, (*name).to_owned()));
        names.iter().all(is_known)
    });
    let refused = match (known, scope) {
        (true, _) => None,
        (false, Scope::Backend) => Some(Error::failed_precondition(
            "it names a secret that the document does not have",
        )),
        (false, Scope::Request) => Some(Error::invalid_argument(
            "it names a secret that this request does not bring",
        )),
    };
    add_checked(steps, refused, add)
}

/// The same for a step that was checked: it is refused for a reason, or added.
pub(super) fn add_checked(
    [step, first]: [&str; 2],
    refused: Option<Error>,
    add: impl FnOnce(&mut Recording) -> Option<()>,
) -> Result<(), Error> {
    record(|plan| {
        let mut refused = match refused {
            Some(refused) => refused,
            None if add(plan).is_some() => return Ok(()),
            None => Error::invalid_argument(format!("it belongs to {first}, which comes first")),
        };
        refused.message = format!("step `{step}` is refused: {}", refused.message);
        Err(refused)
    })
}

pub(crate) fn tmpfs(size_bytes: Option<u64>) -> Result<(), Error> {
    take(Source::Tmpfs { size_bytes })
}

pub(crate) fn files(files: &[File]) -> Result<(), Error> {
    take(Source::Files(files.to_vec()))
}

pub(crate) fn default_fs_type(fs_type: &str) -> Result<(), Error> {
    record(|plan| {
        plan.default_fs_type = Some(fs_type.to_owned());
        Ok(())
    })
}

pub(crate) fn mount_options(options: &[String]) -> Result<(), Error> {
    record(|plan| {
        plan.mount_options.extend_from_slice(options);
        Ok(())
    })
}

pub(crate) fn note(key: &str, value: &str) -> Result<(), Error> {
    record(|plan| {
        plan.notes.insert(key.to_owned(), value.to_owned());
        Ok(())
    })
}

pub(super) fn take(source: Source) -> Result<(), Error> {
    record(|plan| {
        if let Some(first) = &plan.source {
            return Err(Error::invalid_argument(format!(
                "step `{}` is refused: the plan has a source already, `{}`",
                source.step(),
                first.step()
            )));
        }
        plan.source = Some(source);
        Ok(())
    })
}

fn record(step: impl FnOnce(&mut Recording) -> Result<(), Error>) -> Result<(), Error> {
    attempt(|host| match &mut host.recording {
        Some(recording) => {
            let recorded = step(recording);
            recorded.inspect_err(|error| recording.refused = Some(error.clone()))
        }
        None => Err(Error::failed_precondition(
            "steps are recorded in node-stage and node-publish only",
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::pool::Pool;
    use crate::testing;

    const POOL: Pool = Pool::named("volumes");

    #[test]
    fn a_plan_is_recorded_with_how_it_is_to_be_used() {
        testing::reset();
        let plan = testing::record(|plan| {
            plan.image(&POOL, "a.img")?;
            plan.default_fs_type("xfs")?;
            plan.mount_options(&["noatime"])?;
            plan.note("made-by", "test")
        });
        assert_eq!(
            plan,
            Ok(RecordedPlan {
                source: Source::Image {
                    pool: "volumes".to_owned(),
                    path: "a.img".to_owned()
                },
                default_fs_type: Some("xfs".to_owned()),
                mount_options: vec!["noatime".to_owned()],
                notes: BTreeMap::from([("made-by".to_owned(), "test".to_owned())]),
                luks: None,
            })
        );
    }

    #[test]
    fn a_plan_without_source_or_with_two_is_refused() {
        testing::reset();
        let code = |answer: Result<RecordedPlan, Error>| answer.map_err(|error| error.code);
        assert_eq!(code(testing::record(|_| Ok(()))), Err(Code::Internal));
        assert_eq!(
            code(testing::record(|plan| {
                plan.directory(&POOL, "a")?;
                // The call fails even if the backend ignores the rejection.
                let _ = plan.tmpfs(None);
                Ok(())
            })),
            Err(Code::InvalidArgument)
        );
    }

    #[test]
    fn a_document_secret_is_recorded_by_name_after_its_step() {
        testing::reset();
        testing::set_secret(Scope::Backend, "account", "hunter22");
        let share = |plan: &crate::Plan| plan.filesystem("cifs", "//server/share", &[], &[]);
        let plan = testing::record(|plan| {
            share(plan)?;
            plan.backend_secret_options(&[("password", "account")])
        });
        let source = plan.unwrap().source;
        let expected = [("password".to_owned(), "account".to_owned())];
        assert!(matches!(
            source,
            Source::Filesystem { backend_secret_options, .. } if backend_secret_options == expected
        ));
        let code = |answer: Result<RecordedPlan, Error>| answer.map_err(|error| error.code);
        let unknown = testing::record(|plan| {
            share(plan)?;
            plan.backend_secret_options(&[("password", "none")])
        });
        assert_eq!(code(unknown), Err(Code::FailedPrecondition));
        let too_early =
            testing::record(|plan| plan.backend_secret_options(&[("password", "account")]));
        assert_eq!(code(too_early), Err(Code::InvalidArgument));
    }

    #[test]
    fn a_step_outside_of_a_node_call_is_refused() {
        testing::reset();
        assert_eq!(
            directory("volumes", "a").map_err(|error| error.code),
            Err(Code::FailedPrecondition)
        );
    }
}

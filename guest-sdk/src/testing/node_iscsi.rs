//! The interface `node-iscsi` in memory.

use super::node_plan::{Source, add_to_source, take};
use crate::error::Error;
use crate::plan::IscsiPath;
use crate::secrets::Scope;

/// A disk behind iSCSI targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iscsi {
    /// The ways to the disk.
    pub paths: Vec<IscsiPath>,
    /// The identity of the disk.
    pub wwid: String,
    /// Fewest paths with which the volume may be used.
    pub minimum_paths: u32,
    /// How long to wait for the disk, in milliseconds.
    pub wait_ms: u32,
    /// How the initiator proves who it is.
    pub chap: Option<Chap>,
    /// How the target proves who it is.
    pub mutual_chap: Option<Chap>,
}

/// User and password by the names of secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// Whose secrets both are.
    pub scope: Scope,
    /// The name of the secret that is the user's name.
    pub user: String,
    /// The name of the secret that is the password.
    pub password: String,
}

pub(crate) fn iscsi(
    paths: &[IscsiPath],
    wwid: &str,
    minimum_paths: u32,
    wait_ms: u32,
) -> Result<(), Error> {
    take(Source::Iscsi(Iscsi {
        paths: paths.to_vec(),
        wwid: wwid.to_owned(),
        minimum_paths,
        wait_ms,
        chap: None,
        mutual_chap: None,
    }))
}

pub(crate) fn chap(scope: Scope, user: &str, password: &str) -> Result<(), Error> {
    let chap = Chap::of(scope, user, password);
    add("chap", chap, |iscsi| &mut iscsi.chap)
}

pub(crate) fn mutual_chap(scope: Scope, user: &str, password: &str) -> Result<(), Error> {
    let chap = Chap::of(scope, user, password);
    add("mutual-chap", chap, |iscsi| &mut iscsi.mutual_chap)
}

/// Records the step by which one side proves who it is.
fn add(step: &str, chap: Chap, side: fn(&mut Iscsi) -> &mut Option<Chap>) -> Result<(), Error> {
    let names = [&*chap.user, &*chap.password];
    add_to_source([step, "iscsi"], chap.scope, &names, |source| match source {
        Source::Iscsi(iscsi) => {
            *side(iscsi) = Some(chap.clone());
            Some(())
        }
        _ => None,
    })
}

impl Chap {
    fn of(scope: Scope, user: &str, password: &str) -> Self {
        Self {
            scope,
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing::{self, RecordedPlan};

    fn path() -> IscsiPath {
        IscsiPath {
            portal: "192.0.2.1:3260".to_owned(),
            target: "iqn.2026-01.example:a".to_owned(),
            lun: 1,
        }
    }

    #[test]
    fn a_disk_is_recorded_with_its_secrets_by_name() {
        testing::reset();
        testing::set_secret(Scope::Backend, "user", "array");
        testing::set_secret(Scope::Backend, "password", "hunter22hunter22");
        let plan = testing::record(|plan| {
            plan.iscsi(&[path()], "naa.6001405", 1, 5000)?;
            plan.chap(Scope::Backend, "user", "password")
        });
        let expected = Iscsi {
            paths: vec![path()],
            wwid: "naa.6001405".to_owned(),
            minimum_paths: 1,
            wait_ms: 5000,
            chap: Some(Chap::of(Scope::Backend, "user", "password")),
            mutual_chap: None,
        };
        assert_eq!(plan.map(|plan| plan.source), Ok(Source::Iscsi(expected)));
    }

    #[test]
    fn secrets_without_a_disk_or_a_value_are_refused() {
        testing::reset();
        testing::set_secret(Scope::Request, "user", "array");
        let code = |answer: Result<RecordedPlan, Error>| answer.map_err(|error| error.code);
        let early = testing::record(|plan| plan.chap(Scope::Request, "user", "user"));
        assert_eq!(code(early), Err(Code::InvalidArgument));
        for (scope, refused) in [
            (Scope::Request, Code::InvalidArgument),
            (Scope::Backend, Code::FailedPrecondition),
        ] {
            let unknown = testing::record(|plan| {
                plan.iscsi(&[path()], "naa.6001405", 1, 0)?;
                plan.mutual_chap(scope, "user", "none")
            });
            assert_eq!(code(unknown), Err(refused));
        }
    }
}

//! Which failures are a plugin's fault, and which are not.

use super::*;
use crate::code::Code;
use crate::secrets::Secrets;
use std::sync::LazyLock;

fn label() -> PluginLabel {
    PluginLabel {
        name: "p".to_owned(),
        version: "1".to_owned(),
        digest: "sha256:00".to_owned(),
    }
}

fn kind(error: impl Into<Error>) -> Option<FaultKind> {
    let driver = DriverName::parse("a.b").unwrap();
    let origin = Origin::default();
    let fault = PluginFault::of(
        &driver,
        Rpc::CreateVolume,
        &error.into(),
        &origin,
        nothing(),
    );
    fault.map(|fault| fault.kind)
}

fn nothing() -> RequestContent<'static> {
    static NOTHING: LazyLock<(RequestStrings, Secrets)> = LazyLock::new(Default::default);
    let (strings, secrets) = &*NOTHING;
    RequestContent { strings, secrets }
}

fn plan(source: MountError) -> Error {
    Error::Plan {
        plugin: Box::new(label()),
        source,
    }
}

#[test]
fn each_error_of_a_plugin_is_its_fault() {
    let (plugin, function) = (label(), "create-volume");
    let reason = String::new();
    let table: Vec<(Error, FaultKind)> = vec![
        (
            BackendError::Trapped {
                plugin: plugin.clone(),
                function,
                reason: reason.clone(),
            }
            .into(),
            FaultKind::Trapped,
        ),
        (
            BackendError::OverLimit {
                plugin: plugin.clone(),
                function,
                limit: "limits.memory".to_owned(),
            }
            .into(),
            FaultKind::OverLimit,
        ),
        (
            BackendError::BadAnswer {
                plugin: Box::new(plugin.clone()),
                function,
                reason: reason.clone(),
                blame: Blame::Of(Owner::Plugin),
            }
            .into(),
            FaultKind::BadAnswer,
        ),
        (
            BackendError::Refused {
                plugin: Box::new(plugin.clone()),
                function,
                code: Code::Internal,
                reason: reason.clone(),
                blame: Blame::Of(Owner::Plugin),
            }
            .into(),
            FaultKind::Refused,
        ),
        (
            BackendError::Refused {
                plugin: Box::new(plugin),
                function,
                code: Code::PermissionDenied,
                reason,
                blame: Blame::Of(Owner::Plugin),
            }
            .into(),
            FaultKind::NotGranted,
        ),
        (BackendError::Busy { limit: 3 }.into(), FaultKind::Busy),
        (
            BackendError::MemoryBusy { bytes: 3 }.into(),
            FaultKind::Busy,
        ),
        (
            plan(MountError::not_granted(
                "tree",
                "pool x is not in grants.pools",
                Blame::argument("x"),
            )),
            FaultKind::NotGranted,
        ),
    ];
    for (error, expected) in table {
        let text = error.to_string();
        assert_eq!(kind(error), Some(expected), "{text}");
    }
}

#[test]
fn an_invalid_request_is_no_fault() {
    let answered = BackendError::Answered {
        code: Code::InvalidArgument,
        message: "no such pool".to_owned(),
    };
    assert_eq!(kind(answered), None);
    let content = MountError::invalid("a tree", "it is not a directory", Blame::Of(Owner::Content));
    assert_eq!(kind(plan(content)), None);
    assert_eq!(kind(Error::Precondition("first stage it".to_owned())), None);
    assert_eq!(kind(Error::ShuttingDown), None);
    let rpc = Rpc::CreateVolume;
    assert_eq!(kind(Error::StillUnderWay { rpc }), None);
}

#[test]
fn a_limit_is_reported_with_its_value() {
    let driver = DriverName::parse("a.b").unwrap();
    let error = Error::Backend(BackendError::OutOfTime {
        plugin: label(),
        function: "create-volume",
        seconds: 5,
    });
    let origin = Origin::default();
    let fault = PluginFault::of(&driver, Rpc::CreateVolume, &error, &origin, nothing()).unwrap();
    assert_eq!(fault.limit.as_deref(), Some("limits.time (5 s)"));
    assert_eq!(fault.plugin, Some(label()));
}

#[test]
fn every_kind_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> =
        FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), FaultKind::ALL.len());
}

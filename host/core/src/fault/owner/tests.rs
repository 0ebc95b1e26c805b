//! Each source of failures with its owner: errors that count against a version, and similar ones that do not.

use super::*;
use crate::attributes::Attributes;
use crate::backend::PluginLabel;
use crate::blame::{Blame, RequestStrings};
use crate::code::Code;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use crate::state::StateError;
use crate::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

fn owner(error: impl Into<Error>, strings: &RequestStrings, secrets: &Secrets) -> Owner {
    error.into().owner(RequestContent { strings, secrets })
}

/// The owner for a request that contains only this volume id.
fn alone(error: impl Into<Error>) -> Owner {
    owner(
        error,
        &RequestStrings::default().with("pvc-1"),
        &Secrets::default(),
    )
}

fn label() -> PluginLabel {
    PluginLabel {
        name: "p".to_owned(),
        version: "1".to_owned(),
        digest: "sha256:00".to_owned(),
    }
}

fn invalid(blame: Blame) -> MountError {
    MountError::invalid("w", "r", blame)
}

fn not_granted(blame: Blame) -> MountError {
    MountError::not_granted("filesystem", "r", blame)
}

fn bad_answer(blame: Blame) -> BackendError {
    BackendError::BadAnswer {
        plugin: Box::new(label()),
        function: "f",
        reason: "r".to_owned(),
        blame,
    }
}

fn refused(blame: Blame) -> BackendError {
    BackendError::Refused {
        plugin: Box::new(label()),
        function: "f",
        code: Code::Internal,
        reason: "r".to_owned(),
        blame,
    }
}

#[test]
fn what_the_plugin_does_by_itself_is_its_own() {
    let (plugin, function, reason) = (label(), "f", String::new());
    let table: Vec<Error> = vec![
        BackendError::Trapped {
            plugin: plugin.clone(),
            function,
            reason: reason.clone(),
        }
        .into(),
        BackendError::OverLimit {
            plugin: plugin.clone(),
            function,
            limit: reason,
        }
        .into(),
        BackendError::OutOfTime {
            plugin,
            function,
            seconds: 1,
        }
        .into(),
        bad_answer(Blame::Of(Owner::Plugin)).into(),
        bad_answer(Blame::argument("../x")).into(),
        refused(Blame::argument("../x")).into(),
        invalid(Blame::argument("../x")).into(),
        invalid(Blame::Size(4096)).into(),
        not_granted(Blame::argument("server:/export")).into(),
    ];
    for error in table {
        let text = format!("{error:?}");
        assert_eq!(alone(error), Owner::Plugin, "{text}");
    }
}

#[test]
fn what_the_plugin_does_not_decide_is_not_its_own() {
    let (what, reason) = (|| "w".to_owned(), || "r".to_owned());
    let (path, rpc) = (what, Rpc::NodeStageVolume);
    let driver = what;
    let table: Vec<(Error, Owner)> = vec![
        (
            BackendError::Answered {
                code: Code::Internal,
                message: reason(),
            }
            .into(),
            Owner::Request,
        ),
        (
            BackendError::NotOffered { interface: "i" }.into(),
            Owner::Request,
        ),
        (BackendError::Busy { limit: 1 }.into(), Owner::Administrator),
        (BackendError::Cancelled.into(), Owner::Host),
        (
            BackendError::Withheld {
                plugin: label(),
                function: "probe",
                message: reason(),
            }
            .into(),
            Owner::Host,
        ),
        (
            BackendError::HostFailed {
                plugin: label(),
                function: "f",
                code: Code::Unavailable,
                reason: reason(),
            }
            .into(),
            Owner::Storage,
        ),
        (invalid(Blame::Of(Owner::Content)).into(), Owner::Content),
        (
            not_granted(Blame::Of(Owner::Administrator)).into(),
            Owner::Administrator,
        ),
        (
            MountError::outside_roots(path(), reason(), what()).into(),
            Owner::Request,
        ),
        (MountError::not_staged(path()).into(), Owner::Request),
        (
            MountError::precondition(path(), what()).into(),
            Owner::Request,
        ),
        (
            MountError::already_exists(what(), reason()).into(),
            Owner::Request,
        ),
        (MountError::in_use(what(), reason()).into(), Owner::Request),
        (
            MountError::out_of_range(what(), reason()).into(),
            Owner::Request,
        ),
        (
            MountError::unsupported(what(), reason()).into(),
            Owner::Request,
        ),
        (MountError::not_found(what()).into(), Owner::Content),
        (
            MountError::unusable(what(), reason()).into(),
            Owner::Content,
        ),
        (MountError::damaged(what(), reason()).into(), Owner::Content),
        (
            MountError::no_space(what(), reason()).into(),
            Owner::Storage,
        ),
        (MountError::hung(what(), reason()).into(), Owner::Storage),
        (MountError::under_way(what()).into(), Owner::Storage),
        (
            MountError::out_of_threads(what(), reason()).into(),
            Owner::Storage,
        ),
        (
            MountError::kernel(what(), what(), 5, reason()).into(),
            Owner::Storage,
        ),
        (
            MountError::out_of_resources(what(), reason()).into(),
            Owner::Host,
        ),
        (
            MountError::tool(what(), what(), reason()).into(),
            Owner::Host,
        ),
        (MountError::unreachable(reason()).into(), Owner::Host),
        (StateError::Full.into(), Owner::Storage),
        (Error::InFlight { subject: what() }, Owner::Storage),
        (Error::SnapshotNotReady { id: what() }, Owner::Storage),
        (Error::StillUnderWay { rpc }, Owner::Storage),
        (Error::NotServed { rpc, reason: "r" }, Owner::Request),
        (Error::NotOffered { what: "a" }, Owner::Request),
        (Error::Precondition(reason()), Owner::Request),
        (
            Error::NoPlugin {
                driver: driver(),
                reason: reason(),
            },
            Owner::Administrator,
        ),
        (Error::NoNewWork { reason: reason() }, Owner::Administrator),
        (Error::Quiesced, Owner::Administrator),
        (Error::ShuttingDown, Owner::Host),
        (Error::Standby, Owner::Host),
        (Error::Lost { rpc }, Owner::Host),
    ];
    for (error, expected) in table {
        let text = format!("{error:?}");
        assert_eq!(alone(error), expected, "{text}");
    }
}

#[test]
fn a_rejected_string_of_the_request_belongs_to_it() {
    let access = MountAccess {
        fs_type: Some("no/type".to_owned()),
        mount_flags: vec!["suid".to_owned()],
        volume_mount_group: Some("wheel".to_owned()),
    };
    let capability = VolumeCapability {
        access_type: AccessType::Mount(access),
        access_mode: AccessMode::SingleNodeWriter,
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let context = Attributes::from_iter([
        pair("server", "filer.evil"),
        pair("options", "exec,dev"),
        pair("csi.storage.k8s.io/pod.name", "tenant-pod"),
    ]);
    let strings = RequestStrings::default()
        .with("pvc-1")
        .with_map(&context)
        .with_capabilities([&capability]);
    let secrets = Secrets::from_iter([pair("password", "line-one\n\"line-two\"")]);
    for (string, expected) in [
        ("no/type", Owner::Request),
        ("suid", Owner::Request),
        ("wheel", Owner::Request),
        // A string built from one of the request, and a part of one.
        ("filer.evil:/export", Owner::Request),
        ("dev", Owner::Request),
        ("volumes/../pvc-1", Owner::Request),
        ("server", Owner::Request),
        ("dir/tenant-pod", Owner::Request),
        ("prefix-line-two", Owner::Secret),
        ("line-one", Owner::Secret),
        ("password=x", Owner::Secret),
        // A key that the author of a request did not choose.
        ("storage.k8s", Owner::Plugin),
        ("filer.good:/export", Owner::Plugin),
        ("ext9", Owner::Plugin),
        ("", Owner::Plugin),
    ] {
        for error in [
            Error::from(invalid(Blame::argument(string))),
            not_granted(Blame::argument(string)).into(),
            bad_answer(Blame::argument(string)).into(),
            refused(Blame::argument(string)).into(),
        ] {
            assert_eq!(owner(error, &strings, &secrets), expected, "{string}");
        }
    }
    let empty = RequestStrings::default().with("");
    assert_eq!(
        owner(invalid(Blame::argument("")), &empty, &secrets),
        Owner::Request
    );
}

#[test]
fn a_size_is_the_requests_if_it_brings_nearly_as_much() {
    let of = |bytes: usize| RequestStrings::default().with(&"v".repeat(bytes));
    let error = || invalid(Blame::Size(4096));
    let none = Secrets::default();
    assert_eq!(owner(error(), &of(1024), &none), Owner::Request);
    assert_eq!(owner(error(), &of(1023), &none), Owner::Plugin);
    let secrets = Secrets::from_iter([("k".to_owned(), "s".repeat(1024))]);
    assert_eq!(owner(error(), &of(0), &secrets), Owner::Request);
}

#[test]
fn only_kinds_of_the_plugin_can_count_for_a_rollback() {
    let others = FaultKind::ALL
        .iter()
        .copied()
        .filter(|kind| kind.owner() != Owner::Plugin);
    assert_eq!(
        others.collect::<Vec<_>>(),
        [FaultKind::Busy, FaultKind::NotLoaded]
    );
}

#[test]
fn formatting_shows_no_string() {
    let strings = RequestStrings::default().with("hunter22");
    let text = format!("{strings:?} {:?}", Blame::argument("hunter22"));
    assert_eq!(text, "1 strings Argument(a string of 8 bytes)");
}

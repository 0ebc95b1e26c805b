//! The codes of all errors, and the messages to clients.

use super::*;
use wasmount_core::backend::PluginLabel;
use wasmount_core::blame::Blame;
use wasmount_core::mounter::MountError;
use wasmount_core::rpc::Rpc;

fn status(error: &Error) -> Status {
    super::status(error, 0.5)
}

fn answered(code: Code) -> Error {
    Error::Driver(
        BackendError::Answered {
            code,
            message: "the backend's words".to_owned(),
        }
        .into(),
    )
}

#[test]
fn every_code_of_a_backend_arrives_as_grpcs_code_of_that_number() {
    for (number, &each) in (1..).zip(Code::ALL) {
        assert_eq!(status(&answered(each)).code() as i32, number, "{each:?}");
    }
}

#[test]
fn a_status_contains_the_whole_chain_of_causes() {
    let error = Error::Driver(
        StateError::Failed {
            operation: "put",
            source: Box::new(std::io::Error::other("the disk is gone")),
        }
        .into(),
    );
    let status = status(&error);
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(
        status.message(),
        "the state store failed to put: the disk is gone"
    );
}

#[test]
fn a_trap_names_plugin_version_and_digest() {
    let plugin = PluginLabel {
        name: "p".to_owned(),
        version: "1.2".to_owned(),
        digest: "sha256:00".to_owned(),
    };
    let trap = BackendError::Trapped {
        plugin,
        function: "create-volume",
        reason: "unreachable".to_owned(),
    };
    let status = status(&Error::Driver(trap.into()));
    assert_eq!(status.code(), tonic::Code::Internal);
    assert_eq!(
        status.message(),
        "plugin p 1.2 (sha256:00) trapped in create-volume: unreachable"
    );
}

#[test]
fn a_message_too_long_for_a_header_is_cut_between_characters() {
    let long = format!("x{}", "ä".repeat(MESSAGE_BYTES));
    let status = status(&Error::Driver(DriverError::Precondition(long)));
    assert_eq!(status.message().len(), MESSAGE_BYTES - 1 + "…".len());
    assert!(status.message().ends_with("ä…"));
}

#[test]
fn a_failure_after_an_effect_is_a_fault_if_its_cause_is() {
    let after = |source| {
        let source = Box::new(source);
        Error::Driver(DriverError::AfterEffect { source })
    };
    assert!(is_fault(&after(DriverError::Lost {
        rpc: Rpc::CreateVolume
    })));
    let refused = after(DriverError::Precondition("in use".to_owned()));
    assert!(!is_fault(&refused));
    let status = status(&refused);
    assert_eq!(status.code(), tonic::Code::Aborted);
    assert_eq!(
        status.message(),
        "the call had changed something before it failed, so it must be repeated (the code of the failure alone: FailedPrecondition): in use"
    );
}

#[test]
fn invalid_request_fields_get_the_codes_of_the_specification() {
    use wasmount_core::names::InvalidField;
    let empty = Error::Invalid(InvalidField::empty("volume_id"));
    assert_eq!(status(&empty).code(), tonic::Code::InvalidArgument);
    assert_eq!(status(&empty).message(), "volume_id is empty");
    assert_eq!(
        status(&Error::NegativeOffset).code(),
        tonic::Code::OutOfRange
    );
}

#[test]
fn a_plugin_fault_is_distinguished_from_an_answer() {
    let plugin = || PluginLabel {
        name: String::new(),
        version: String::new(),
        digest: String::new(),
    };
    let out_of_time = BackendError::OutOfTime {
        plugin: plugin(),
        function: "probe",
        seconds: 60,
    };
    assert!(is_fault(&Error::Driver(out_of_time.into())));
    assert!(!is_fault(&answered(Code::NotFound)));
    assert!(!is_fault(&Error::Driver(DriverError::ShuttingDown)));
}

#[test]
fn a_rejected_plan_names_its_plugin_once() {
    let plugin = PluginLabel {
        name: "demo".to_owned(),
        version: "1.0.0".to_owned(),
        digest: "sha256:00".to_owned(),
    };
    let source = MountError::invalid("path `..`", "it leads out", Blame::argument(".."));
    let plugin = Box::new(plugin);
    let status = status(&Error::Driver(DriverError::Plan { plugin, source }));
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(
        status.message(),
        "a plan of plugin demo 1.0.0 (sha256:00) is refused: path `..` is not valid: it leads out"
    );
}

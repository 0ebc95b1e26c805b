//! Requests as people write them, valid and invalid.

use super::*;
use crate::wire::DESCRIPTOR_SET;
use crate::wire::csi::v1::CreateVolumeRequest;
use prost::Message;
use prost_reflect::DescriptorPool;
use serde_json::json;

fn descriptor(name: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).unwrap();
    pool.get_message_by_name(name).unwrap()
}

fn create(value: Value) -> Result<CreateVolumeRequest, RequestError> {
    let message = message(descriptor("csi.v1.CreateVolumeRequest"), &value)?;
    Ok(CreateVolumeRequest::decode(message.encode_to_vec().as_slice()).unwrap())
}

#[test]
fn a_request_is_read_by_both_spellings_of_its_fields() {
    for value in [
        json!({"name": "a", "capacity_range": {"required_bytes": 7}, "secrets": {"k": "v"}}),
        json!({"name": "a", "capacityRange": {"requiredBytes": "7"}, "secrets": {"k": "v"}}),
    ] {
        let request = create(value).unwrap();
        assert_eq!(request.name, "a");
        assert_eq!(request.capacity_range.unwrap().required_bytes, 7);
        assert_eq!(request.secrets.get("k").unwrap(), "v");
    }
}

#[test]
fn nothing_is_an_empty_request() {
    let request = create(Value::Null).unwrap();
    assert!(request == CreateVolumeRequest::default());
}

#[test]
fn what_is_wrong_is_named_by_its_field_and_never_shown() {
    for (value, message) in [
        (json!("hunter22"), "the request must be a group of fields"),
        (
            json!({"secrets": "hunter22"}),
            "secrets must be a group of names, each with a text in quotes",
        ),
        (
            json!({"secrets": {"password": ["hunter22"]}}),
            "secrets must be a group of names, each with a text in quotes",
        ),
        (json!({"name": 7}), "name must be text; put it in quotes"),
        (
            json!({"capacity_range": {"required_bytes": "hunter22"}}),
            "capacity_range.required_bytes must be a whole number",
        ),
        (
            json!({"volume_capabilities": [{"mount": {}}, {"mount": {"mount_flags": "hunter22"}}]}),
            "volume_capabilities[1].mount.mount_flags must be a list, each entry text; put it in quotes",
        ),
        (
            json!({"volume_capabilities": [{"mount": {}, "block": {}}]}),
            "volume_capabilities[0] is not valid: two of its fields exclude one another",
        ),
        (
            json!({"volumeNam": "hunter22"}),
            "the request has no field `volumeNam`; did you mean `volume_capabilities`?",
        ),
        (
            json!({"capacity_range": {"requiredByte": 7}}),
            "the request has no field `capacity_range.requiredByte`; did you mean `required_bytes`?",
        ),
        (
            json!({"capacity_range": {"x": 7}}),
            "the request has no field `capacity_range.x`; there are required_bytes, limit_bytes",
        ),
    ] {
        let refused = create(value.clone()).unwrap_err().to_string();
        assert_eq!(refused, message, "{value}");
    }
}

#[test]
fn an_enum_takes_only_its_own_names() {
    let value = json!({"volume_capabilities": [{"access_mode": {"mode": "hunter22"}}]});
    let refused = create(value).unwrap_err().to_string();
    let beginning = "volume_capabilities[0].access_mode.mode must be one of `UNKNOWN`, ";
    assert!(refused.starts_with(beginning), "{refused}");
}

#[test]
fn every_call_is_found_by_its_name_with_and_without_its_service() {
    for known in Rpc::ALL {
        assert_eq!(rpc(known.name()), Ok(*known));
        let whole = format!("csi.v1.{}/{}", known.service(), known.name());
        assert_eq!(rpc(&whole), Ok(*known));
    }
}

#[test]
fn a_call_that_does_not_exist_is_refused_with_the_nearest() {
    for (name, message) in [
        (
            "createvolume",
            "no call of CSI is named `createvolume`; did you mean `CreateVolume`?",
        ),
        (
            "xyz",
            "no call of CSI is named `xyz`; the names are those of the CSI specification, such as `CreateVolume`",
        ),
    ] {
        assert_eq!(rpc(name).unwrap_err().to_string(), message);
    }
}

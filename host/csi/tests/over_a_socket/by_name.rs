//! Calls by name, without a socket: the same answers, the same errors.

use crate::support::Served;
use serde_json::{Value, json};
use wasmount_core::rpc::Rpc;
use wasmount_core::services::ServiceSet;
use wasmount_csi::by_name::{NamedAnswer, NamedCall};

async fn make(served: &Served, rpc: &str, request: Value) -> NamedAnswer {
    let call = NamedCall::parse(rpc, &request).unwrap();
    assert_eq!(call.rpc().name(), rpc);
    call.make(served.driver.clone()).await
}

fn create() -> Value {
    let capability = json!({ "mount": {}, "accessMode": { "mode": "SINGLE_NODE_WRITER" } });
    json!({ "name": "a", "volumeCapabilities": [capability], "secrets": { "k": "hunter22" } })
}

#[tokio::test]
async fn a_call_is_answered_with_its_message_by_the_names_of_csi() {
    let served = Served::whole();
    let answer = make(&served, "GetPluginInfo", Value::Null).await;
    assert_eq!((answer.code, answer.code_name), (0, "OK"));
    assert_eq!(answer.message, "");
    let [response] = answer.responses.as_slice() else {
        panic!("{answer:?}");
    };
    assert_eq!(response["name"], "memory.wasmount.io");
    let answer = make(&served, "CreateVolume", create()).await;
    assert_eq!(answer.code_name, "OK", "{answer:?}");
    let volume = &answer.responses[0]["volume"];
    assert!(!volume["volume_id"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_has_code_and_message_of_the_status() {
    let served = Served::offering(ServiceSet::default());
    let answer = make(&served, "CreateVolume", create()).await;
    assert_eq!((answer.code, answer.code_name), (12, "UNIMPLEMENTED"));
    assert_eq!(
        answer.message,
        "CreateVolume is not served: the backend does not offer it"
    );
    assert_eq!(answer.responses, Vec::<Value>::new());
    let answer = make(&Served::whole(), "CreateVolume", json!({})).await;
    assert_eq!(answer.code_name, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn every_call_of_csi_has_a_way_in_and_a_way_out() {
    let served = Served::whole_in_1_13();
    for rpc in Rpc::ALL {
        let answer = make(&served, rpc.name(), Value::Null).await;
        let is_known = ["OK", "INVALID_ARGUMENT"].contains(&answer.code_name);
        assert!(is_known, "{rpc}: {answer:?}");
        assert_eq!(answer.code == 0, !answer.responses.is_empty(), "{rpc}");
    }
}

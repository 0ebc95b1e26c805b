//! The size limit of a request.

use crate::support::{Served, refused};
use prost::Message;
use std::collections::BTreeMap;
use tonic::Code;
use wasmount_csi::wire::csi::v1 as wire;

pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// A request of exactly this many bytes; secrets have no separate limit.
pub(crate) fn request_of(bytes: usize) -> wire::DeleteVolumeRequest {
    let with = |length: usize| wire::DeleteVolumeRequest {
        volume_id: "v".to_owned(),
        secrets: BTreeMap::from([("password".to_owned(), "s".repeat(length))]),
    };
    let around = with(bytes).encoded_len() - bytes;
    let request = with(bytes - around);
    assert_eq!(request.encoded_len(), bytes);
    request
}

#[tokio::test]
async fn a_request_of_4_mib_is_taken_whole() {
    let served = Served::whole();
    served
        .controller()
        .await
        .delete_volume(request_of(MESSAGE_BYTES))
        .await
        .unwrap();
    let password = served.backend.password.lock().unwrap().take().unwrap();
    assert!(password.len() > MESSAGE_BYTES - 100);
}

#[tokio::test]
async fn a_request_one_byte_too_large_is_rejected_connection_stays() {
    let served = Served::whole();
    let mut controller = served.controller().await;
    let (code, words) = refused(
        controller
            .delete_volume(request_of(MESSAGE_BYTES + 1))
            .await,
    );
    assert_eq!(code, Code::OutOfRange, "{words}");
    assert!(!words.contains("sss"), "{words}");
    assert_eq!(*served.backend.password.lock().unwrap(), None);
    controller.delete_volume(request_of(100)).await.unwrap();
}

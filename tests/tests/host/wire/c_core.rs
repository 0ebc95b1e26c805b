//! A client on gRPC's C core, which names a Unix socket in `:authority` as no URI may: Python's, unchanged and without an option.

use prost::Message;
use std::process::Command;
use wasmount_csi::wire::csi::v1::{GetPluginInfoResponse, ProbeResponse};
use wasmount_tests::host::{Host, HostOptions};
use xtask::command;
use xtask::python;
use xtask::workspace::Workspace;

#[tokio::test]
async fn a_client_on_the_c_core_is_answered() {
    let host = Host::start(HostOptions::default()).unwrap();
    // Ready from now on.
    host.client().await.unwrap();
    let c_core = python::c_core(&Workspace::locate().unwrap()).unwrap();
    let address = format!("unix:{}", host.socket().display());
    let mut client = Command::new("python3");
    client.env("PYTHONPATH", &c_core.packages);
    client.arg(&c_core.program).arg(address);
    // The second one names the authority by its number in the table that the first has filled.
    client.args(["/csi.v1.Identity/Probe", "/csi.v1.Identity/GetPluginInfo"]);
    let answers = command::read(&mut client).unwrap();
    let mut answers = answers.lines().map(bytes);
    let probe = ProbeResponse::decode(answers.next().unwrap().as_slice()).unwrap();
    assert_eq!(probe.ready, Some(true));
    let info = GetPluginInfoResponse::decode(answers.next().unwrap().as_slice()).unwrap();
    assert_eq!(info.name, "directory.wasmount.io");
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let digits = digits.map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

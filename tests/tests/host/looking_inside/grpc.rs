//! A storage system with unary gRPC over HTTP/2: a real server of tonic, and a plugin that calls it through its grant.

use crate::looking_inside::program::{Bench, Told, component, text};
use std::path::Path;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use wasmount_kubernetes::wire::pluginregistration::registration_server::{
    Registration, RegistrationServer,
};
use wasmount_kubernetes::wire::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// A storage system whose API is kubelet's service for the registration of plugins: that of CSI is served by the host's own code.
struct System;

#[tonic::async_trait]
impl Registration for System {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let name = "a system".to_owned();
        Ok(Response::new(PluginInfo {
            name,
            ..PluginInfo::default()
        }))
    }

    async fn notify_registration_status(
        &self,
        _: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        Err(Status::resource_exhausted("full"))
    }
}

/// CreateVolume, in which the plugin calls a method of the system.
fn create(bench: &Bench, document: &Path, method: &str) -> Told {
    let plugin = component("requester");
    let capability = "{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}";
    let request = format!(
        "{{name: a, volume_capabilities: [{capability}], parameters: {{script: grpc /pluginregistration.Registration/{method}}}}}"
    );
    let words = ["call", text(&plugin), "CreateVolume", &request];
    bench.run(&[&words[..], &["--json", "--backend", text(document)]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_calls_a_storage_system_by_grpc() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(RegistrationServer::new(System));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let bench = Bench::new();
    let grant = |protocol| {
        let hosts = format!("hosts: [\"{address}\"], scheme: http");
        let more = format!("  grants: {{ network: {{ array: {{ {hosts}{protocol} }} }} }}\n");
        bench.document(&component("requester"), &more)
    };
    let document = grant(", protocol: http2");
    tokio::task::block_in_place(|| {
        let told = create(&bench, &document, "GetInfo").well();
        assert_eq!(told.json()["code"], 0, "{told:?}");
        for (method, status) in [("NotifyRegistrationStatus", "8"), ("Nothing", "12")] {
            let refused = create(&bench, &document, method).json();
            // A call that may have changed something there has no final answer.
            assert_eq!(refused["codeName"], "ABORTED", "{refused:#}");
            let message = refused["message"].as_str().unwrap();
            let said = format!("grpc-status Some(\"{status}\")");
            assert!(message.contains(&said), "{message}");
        }
        // gRPC needs HTTP/2.
        let refused = create(&bench, &grant(""), "GetInfo").json();
        assert_ne!(refused["code"], 0, "{refused:#}");
    });
}

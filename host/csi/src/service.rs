//! All services of one driver as one table: for each RPC its parser, the driver's method and the answer.

use crate::answer;
use crate::inbound::MESSAGE_BYTES;
use crate::page_token::PageTokens;
use crate::parse::{self, ExtentsRequest};
use crate::rpc::RpcHandler;
use crate::stream;
use crate::wire::csi::v1 as wire;
use prost::Message;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::Arc;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;
use wasmount_core::call::Incoming;
use wasmount_core::driver::Driver;
use wasmount_core::error::Error;
use wasmount_core::rpc::Rpc;
use wasmount_core::snapshot::MetadataPage;

type HttpRequest = http::Request<Body>;
type HttpResponse = http::Response<Body>;

/// The prefix of a service in a path.
const PACKAGE: &str = "/csi.v1.";

/// A request whose message is not decoded yet.
struct Undecoded {
    handler: RpcHandler,
    rpc: Rpc,
    request: HttpRequest,
}

/// The path of an RPC.
pub(crate) fn path(rpc: Rpc) -> String {
    format!("{PACKAGE}{}/{}", rpc.service(), rpc.name())
}

fn rpc_at(path: &str) -> Option<Rpc> {
    let (service, name) = path.strip_prefix(PACKAGE)?.split_once('/')?;
    let mut all = Rpc::ALL.iter().copied();
    all.find(|rpc| rpc.service() == service && rpc.name() == name)
}

/// Serves one call.
#[allow(unused_parens, reason = "a tuple of arguments, which may be one")]
pub(crate) async fn route(
    handler: RpcHandler,
    request: HttpRequest,
) -> Result<HttpResponse, Infallible> {
    let Some(rpc) = rpc_at(request.uri().path()) else {
        return Ok(Status::unimplemented("unknown method").into_http());
    };
    let tokens = PageTokens::of(handler.driver().name(), rpc);
    let call = Undecoded {
        handler,
        rpc,
        request,
    };
    // Parser and driver method have the same name; the macro takes the parser's extra arguments and the conversion of the answer.
    macro_rules! unary {
        ($method:ident($($argument:ident),*), $answer:expr) => {
            call.unary(parse::$method, |driver, incoming, ($($argument),*)| async move {
                driver.$method(incoming $(, $argument)*).await.map($answer)
            })
            .await
        };
    }
    // The same for lists. The tokens of an answer are bound to what its list is limited to.
    macro_rules! list {
        ($method:ident, $answer:expr, |$tokens:ident, $args:pat_param| $bound:expr) => {
            call.unary(
                |request| parse::$method(request, &tokens),
                |driver, incoming, args| {
                    let $tokens = tokens.clone();
                    async move {
                        let $args = &args;
                        let tokens = $bound;
                        Ok($answer(driver.$method(incoming, args).await?, &tokens))
                    }
                },
            )
            .await
        };
    }
    // The same for RPCs that are answered from memory.
    macro_rules! known {
        ($request:ident, $answer:expr) => {
            call.unary(
                |wire::$request {}| parse::nothing(),
                |driver, _, ()| {
                    let answer: fn(&Driver) -> _ = $answer;
                    ready(Ok(answer(&driver)))
                },
            )
            .await
        };
    }
    Ok(match rpc {
        Rpc::GetPluginInfo => known!(GetPluginInfoRequest, |driver| {
            answer::plugin_info(driver.plugin_info())
        }),
        Rpc::GetPluginCapabilities => known!(GetPluginCapabilitiesRequest, |driver| {
            answer::plugin_capabilities(driver.capabilities().plugin)
        }),
        Rpc::Probe => unary!(probe(), |ready| {
            wire::ProbeResponse { ready: Some(ready) }
        }),

        Rpc::CreateVolume => unary!(create_volume(args), |volume| {
            wire::CreateVolumeResponse {
                volume: Some(answer::volume(volume)),
            }
        }),
        Rpc::DeleteVolume => unary!(delete_volume(id), |()| { wire::DeleteVolumeResponse {} }),
        Rpc::ControllerPublishVolume => unary!(controller_publish_volume(args), |context| {
            wire::ControllerPublishVolumeResponse {
                publish_context: context.into_map(),
            }
        }),
        Rpc::ControllerUnpublishVolume => unary!(controller_unpublish_volume(id, node), |()| {
            wire::ControllerUnpublishVolumeResponse {}
        }),
        Rpc::ValidateVolumeCapabilities => {
            call.unary(
                parse::validate_volume_capabilities,
                |driver, incoming, arguments| async move {
                    let validation =
                        driver.validate_volume_capabilities(incoming, arguments.clone());
                    Ok(answer::validation(arguments, validation.await?))
                },
            )
            .await
        }
        Rpc::ListVolumes => list!(list_volumes, answer::volumes, |tokens, _| tokens),
        Rpc::ControllerListVolumeHealth => list!(
            controller_list_volume_health,
            answer::unhealthy_volumes,
            |tokens, _| tokens
        ),
        Rpc::ControllerGetVolumeHealth => unary!(controller_get_volume_health(id), |health| {
            wire::ControllerGetVolumeHealthResponse {
                volume_health: Some(answer::volume_health(health)),
            }
        }),
        Rpc::GetCapacity => unary!(get_capacity(args), answer::available),
        Rpc::ControllerGetCapabilities => {
            known!(ControllerGetCapabilitiesRequest, |driver| {
                answer::controller_capabilities(driver.capabilities().controller)
            })
        }
        Rpc::CreateSnapshot => unary!(create_snapshot(args), |snapshot| {
            wire::CreateSnapshotResponse {
                snapshot: Some(answer::snapshot(snapshot)),
            }
        }),
        Rpc::DeleteSnapshot => unary!(delete_snapshot(id), |()| {
            wire::DeleteSnapshotResponse {}
        }),
        Rpc::ListSnapshots => list!(list_snapshots, answer::snapshots, |tokens, args| {
            tokens.of_source(args.source_volume.as_ref())
        }),
        Rpc::GetSnapshot => unary!(get_snapshot(id), |snapshot| {
            wire::GetSnapshotResponse {
                snapshot: Some(answer::snapshot(snapshot)),
            }
        }),
        Rpc::ControllerExpandVolume => unary!(controller_expand_volume(args), answer::expanded),
        Rpc::ControllerGetVolume => unary!(controller_get_volume(id), answer::found_volume),
        Rpc::ControllerModifyVolume => unary!(controller_modify_volume(id, mutable), |()| {
            wire::ControllerModifyVolumeResponse {}
        }),

        Rpc::GroupControllerGetCapabilities => {
            known!(GroupControllerGetCapabilitiesRequest, |driver| {
                answer::group_capabilities(driver.capabilities().group)
            })
        }
        Rpc::CreateVolumeGroupSnapshot => unary!(create_volume_group_snapshot(args), |group| {
            wire::CreateVolumeGroupSnapshotResponse {
                group_snapshot: Some(answer::group_snapshot(group)),
            }
        }),
        Rpc::DeleteVolumeGroupSnapshot => unary!(delete_volume_group_snapshot(id, members), |()| {
            wire::DeleteVolumeGroupSnapshotResponse {}
        }),
        Rpc::GetVolumeGroupSnapshot => unary!(get_volume_group_snapshot(id, members), |group| {
            wire::GetVolumeGroupSnapshotResponse {
                group_snapshot: Some(answer::group_snapshot(group)),
            }
        }),

        Rpc::GetMetadataAllocated => {
            call.stream(parse::get_metadata_allocated, answer::allocated)
                .await
        }
        Rpc::GetMetadataDelta => call.stream(parse::get_metadata_delta, answer::delta).await,

        Rpc::NodeStageVolume => unary!(node_stage_volume(args), |()| {
            wire::NodeStageVolumeResponse {}
        }),
        Rpc::NodeUnstageVolume => unary!(node_unstage_volume(id, path), |()| {
            wire::NodeUnstageVolumeResponse {}
        }),
        Rpc::NodePublishVolume => unary!(node_publish_volume(args), |()| {
            wire::NodePublishVolumeResponse {}
        }),
        Rpc::NodeUnpublishVolume => unary!(node_unpublish_volume(id, path), |()| {
            wire::NodeUnpublishVolumeResponse {}
        }),
        Rpc::NodeGetVolumeStats => unary!(node_get_volume_stats(args), answer::node_stats),
        Rpc::NodeExpandVolume => unary!(node_expand_volume(args), answer::node_expanded),
        Rpc::NodeGetCapabilities => known!(NodeGetCapabilitiesRequest, |driver| {
            answer::node_capabilities(driver.capabilities().node)
        }),
        Rpc::NodeGetInfo => unary!(node_get_info(), answer::node_info),
        Rpc::NodeGetVolumeHealth => unary!(node_get_volume_health(args), |health| {
            wire::NodeGetVolumeHealthResponse {
                volume_health: Some(answer::volume_health(health)),
            }
        }),
        Rpc::NodeGetStorageHealth => unary!(node_get_storage_health(), answer::storage_health),
        // No path leads to them.
        Rpc::RegisterNode | Rpc::UnregisterNode => {
            Status::unimplemented("unknown method").into_http()
        }
    })
}

impl Undecoded {
    /// Serves a call with one answer.
    async fn unary<W, P, A, F>(
        self,
        parse: impl Fn(W) -> parse::Result<P> + Clone,
        work: impl Fn(Arc<Driver>, Incoming, P) -> F + Clone,
    ) -> HttpResponse
    where
        W: Message + Default + 'static,
        A: Message + 'static,
        F: Future<Output = Result<A, Error>>,
    {
        let service = service_fn(|request: Request<W>| {
            let (parse, work) = (parse.clone(), work.clone());
            self.handler.answer(self.rpc, request, parse, work)
        });
        grpc::<A, W>().unary(service, self.request).await
    }

    /// Serves a call with a stream of answers.
    async fn stream<W, A>(
        self,
        parse: impl Fn(W) -> parse::Result<ExtentsRequest>,
        answer: fn(MetadataPage) -> A,
    ) -> HttpResponse
    where
        W: Message + Default + 'static,
        A: Message + 'static,
    {
        let (handler, rpc) = (&self.handler, self.rpc);
        let service = service_fn(|request: Request<W>| {
            ready(stream::answers(handler, rpc, request, &parse, answer))
        });
        grpc::<A, W>().server_streaming(service, self.request).await
    }
}

fn grpc<A, W>() -> Grpc<ProstCodec<A, W>>
where
    W: Message + Default + 'static,
    A: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_rpc_and_no_other_path_does() {
        for rpc in Rpc::ALL {
            assert_eq!(rpc_at(&path(*rpc)), Some(*rpc));
        }
        for unknown in [
            "",
            "/",
            "/csi.v1.Node/Probe",
            "/csi.v0.Identity/Probe",
            "/csi.v1.Identity",
        ] {
            assert_eq!(rpc_at(unknown), None, "{unknown}");
        }
    }
}

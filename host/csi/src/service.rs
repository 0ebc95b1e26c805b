//! All services of one driver as one table: for each RPC its parser, the driver's method and the answer.

use crate::answer;
use crate::inbound::MESSAGE_BYTES;
use crate::page_token::PageTokens;
use crate::parse::{self, WantedExtents};
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

/// Before the service in a path.
const PACKAGE: &str = "/csi.v1.";

/// A request whose message is not decoded yet.
struct Undecoded {
    handler: RpcHandler,
    rpc: Rpc,
    request: HttpRequest,
}

/// Where an RPC is called.
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
        return Ok(Status::unimplemented("").into_http());
    };
    let tokens = PageTokens::of(handler.driver().name(), rpc);
    let call = Undecoded {
        handler,
        rpc,
        request,
    };
    // Parser, method of the driver with the parser's arguments, answer.
    macro_rules! unary {
        ($parse:expr, $method:ident($($argument:ident),*), $answer:expr) => {
            call.unary($parse, |driver, incoming, ($($argument),*)| async move {
                driver.$method(incoming $(, $argument)*).await.map($answer)
            })
            .await
        };
    }
    // The same for what is answered from memory.
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
        Rpc::Probe => unary!(|wire::ProbeRequest {}| parse::nothing(), probe(), |ready| {
            wire::ProbeResponse { ready: Some(ready) }
        }),

        Rpc::CreateVolume => unary!(parse::create_volume, create_volume(args), |volume| {
            wire::CreateVolumeResponse {
                volume: Some(answer::volume(volume)),
            }
        }),
        Rpc::DeleteVolume => unary!(parse::delete_volume, delete_volume(id), |()| {
            wire::DeleteVolumeResponse {}
        }),
        Rpc::ControllerPublishVolume => unary!(
            parse::controller_publish_volume,
            controller_publish_volume(args),
            |context| wire::ControllerPublishVolumeResponse {
                publish_context: context.into_map()
            }
        ),
        Rpc::ControllerUnpublishVolume => unary!(
            parse::controller_unpublish_volume,
            controller_unpublish_volume(id, node),
            |()| wire::ControllerUnpublishVolumeResponse {}
        ),
        Rpc::ValidateVolumeCapabilities => {
            call.unary(
                parse::validate_volume_capabilities,
                |driver, incoming, asked| async move {
                    let validation = driver.validate_volume_capabilities(incoming, asked.clone());
                    Ok(answer::validation(asked, validation.await?))
                },
            )
            .await
        }
        Rpc::ListVolumes => {
            call.unary(
                move |request| parse::list_volumes(request, &tokens),
                move |driver, incoming, args| async move {
                    let tokens = PageTokens::of(driver.name(), rpc);
                    let page = driver.list_volumes(incoming, args).await?;
                    Ok(answer::volumes(page, &tokens))
                },
            )
            .await
        }
        Rpc::ControllerListVolumeHealth => {
            call.unary(
                move |request| parse::controller_list_volume_health(request, &tokens),
                move |driver, incoming, args| async move {
                    let tokens = PageTokens::of(driver.name(), rpc);
                    let page = driver.controller_list_volume_health(incoming, args).await?;
                    Ok(answer::unhealthy_volumes(page, &tokens))
                },
            )
            .await
        }
        Rpc::ControllerGetVolumeHealth => unary!(
            parse::controller_get_volume_health,
            controller_get_volume_health(id),
            |health| wire::ControllerGetVolumeHealthResponse {
                volume_health: Some(answer::volume_health(health))
            }
        ),
        Rpc::GetCapacity => unary!(parse::get_capacity, get_capacity(args), answer::available),
        Rpc::ControllerGetCapabilities => {
            known!(ControllerGetCapabilitiesRequest, |driver| {
                answer::controller_capabilities(driver.capabilities().controller)
            })
        }
        Rpc::CreateSnapshot => unary!(parse::create_snapshot, create_snapshot(args), |snapshot| {
            wire::CreateSnapshotResponse {
                snapshot: Some(answer::snapshot(snapshot)),
            }
        }),
        Rpc::DeleteSnapshot => unary!(parse::delete_snapshot, delete_snapshot(id), |()| {
            wire::DeleteSnapshotResponse {}
        }),
        Rpc::ListSnapshots => {
            call.unary(
                move |request| parse::list_snapshots(request, &tokens),
                move |driver, incoming, args| async move {
                    let tokens =
                        PageTokens::of(driver.name(), rpc).of_source(args.source_volume.as_ref());
                    let page = driver.list_snapshots(incoming, args).await?;
                    Ok(answer::snapshots(page, &tokens))
                },
            )
            .await
        }
        Rpc::GetSnapshot => unary!(parse::get_snapshot, get_snapshot(id), |snapshot| {
            wire::GetSnapshotResponse {
                snapshot: Some(answer::snapshot(snapshot)),
            }
        }),
        Rpc::ControllerExpandVolume => unary!(
            parse::controller_expand_volume,
            controller_expand_volume(args),
            answer::expanded
        ),
        Rpc::ControllerGetVolume => unary!(
            parse::controller_get_volume,
            controller_get_volume(id),
            answer::looked_up
        ),
        Rpc::ControllerModifyVolume => unary!(
            parse::controller_modify_volume,
            controller_modify_volume(id, mutable),
            |()| wire::ControllerModifyVolumeResponse {}
        ),

        Rpc::GroupControllerGetCapabilities => {
            known!(GroupControllerGetCapabilitiesRequest, |driver| {
                answer::group_capabilities(driver.capabilities().group)
            })
        }
        Rpc::CreateVolumeGroupSnapshot => unary!(
            parse::create_volume_group_snapshot,
            create_volume_group_snapshot(args),
            |group| wire::CreateVolumeGroupSnapshotResponse {
                group_snapshot: Some(answer::group_snapshot(group))
            }
        ),
        Rpc::DeleteVolumeGroupSnapshot => unary!(
            parse::delete_volume_group_snapshot,
            delete_volume_group_snapshot(id, members),
            |()| wire::DeleteVolumeGroupSnapshotResponse {}
        ),
        Rpc::GetVolumeGroupSnapshot => unary!(
            parse::get_volume_group_snapshot,
            get_volume_group_snapshot(id, members),
            |group| wire::GetVolumeGroupSnapshotResponse {
                group_snapshot: Some(answer::group_snapshot(group))
            }
        ),

        Rpc::GetMetadataAllocated => {
            call.stream(parse::get_metadata_allocated, answer::allocated)
                .await
        }
        Rpc::GetMetadataDelta => call.stream(parse::get_metadata_delta, answer::delta).await,

        Rpc::NodeStageVolume => unary!(parse::node_stage_volume, node_stage_volume(args), |()| {
            wire::NodeStageVolumeResponse {}
        }),
        Rpc::NodeUnstageVolume => unary!(
            parse::node_unstage_volume,
            node_unstage_volume(id, path),
            |()| wire::NodeUnstageVolumeResponse {}
        ),
        Rpc::NodePublishVolume => unary!(
            parse::node_publish_volume,
            node_publish_volume(args),
            |()| wire::NodePublishVolumeResponse {}
        ),
        Rpc::NodeUnpublishVolume => unary!(
            parse::node_unpublish_volume,
            node_unpublish_volume(id, path),
            |()| wire::NodeUnpublishVolumeResponse {}
        ),
        Rpc::NodeGetVolumeStats => unary!(
            parse::node_get_volume_stats,
            node_get_volume_stats(args),
            answer::node_stats
        ),
        Rpc::NodeExpandVolume => unary!(
            parse::node_expand_volume,
            node_expand_volume(args),
            answer::node_expanded
        ),
        Rpc::NodeGetCapabilities => known!(NodeGetCapabilitiesRequest, |driver| {
            answer::node_capabilities(driver.capabilities().node)
        }),
        Rpc::NodeGetInfo => unary!(
            |wire::NodeGetInfoRequest {}| parse::nothing(),
            node_get_info(),
            answer::node_info
        ),
        Rpc::NodeGetVolumeHealth => unary!(
            parse::node_get_volume_health,
            node_get_volume_health(args),
            |health| wire::NodeGetVolumeHealthResponse {
                volume_health: Some(answer::volume_health(health))
            }
        ),
        Rpc::NodeGetStorageHealth => unary!(
            parse::node_get_storage_health,
            node_get_storage_health(),
            answer::storage_health
        ),
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
        let Self {
            handler,
            rpc,
            request,
        } = self;
        let service = service_fn(|request: Request<W>| {
            handler.answer(rpc, request, parse.clone(), work.clone())
        });
        grpc::<A, W>().unary(service, request).await
    }

    /// Serves a call with a stream of answers.
    async fn stream<W, A>(
        self,
        parse: impl Fn(W) -> parse::Result<WantedExtents>,
        answer: fn(MetadataPage) -> A,
    ) -> HttpResponse
    where
        W: Message + Default + 'static,
        A: Message + 'static,
    {
        let Self {
            handler,
            rpc,
            request,
        } = self;
        let service = service_fn(|request: Request<W>| {
            ready(stream::answers(&handler, rpc, request, &parse, answer))
        });
        grpc::<A, W>().server_streaming(service, request).await
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

//! The streams of the SnapshotMetadata service, built from the driver's pages.
//!
//! The next page is fetched when the client has received all but the last message of the previous one (a channel of one), and no page is fetched
//! after the client has disconnected.

use crate::error::Error;
use crate::parse::{self, ExtentsRequest};
use crate::rpc::RpcHandler;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tracing::Instrument;
use wasmount_core::call::Incoming;
use wasmount_core::driver::Driver;
use wasmount_core::rpc::Rpc;
use wasmount_core::snapshot::MetadataPage;

/// Extents that one call of the backend returns, and the most of one answer, whatever the client allows ("always free to send less"). At 22 bytes
/// each on the wire that is 220 kB, well under the 4 MiB limit of a Go client. A client with a lower limit receives a page in several messages: a
/// call of the backend for each would take more time than everything else.
const EXTENTS_OF_A_PAGE: u32 = 10_000;

/// Answers that wait for the client. One: with a slow client the host must not hold the extents of a whole volume.
const ANSWERS_AHEAD: usize = 1;

pub(crate) type Answers<A> = ReceiverStream<Result<A, Status>>;

/// The stream of one call.
pub(crate) fn answers<W, A: Send + 'static>(
    handler: &RpcHandler,
    rpc: Rpc,
    request: Request<W>,
    parse: impl FnOnce(W) -> parse::Result<ExtentsRequest>,
    answer: fn(MetadataPage) -> A,
) -> Result<Response<Answers<A>>, Status> {
    let call = handler.call(rpc, &request);
    let span = call.span.clone();
    let (incoming, extents) = span.in_scope(|| handler.open(&call, request, parse))?;
    let (answers, stream) = mpsc::channel(ANSWERS_AHEAD);
    let driver = Arc::clone(handler.driver());
    let work = async move {
        let all = call.in_time(send_all(&driver, incoming, extents, &answers, answer));
        let sent = tokio::select! {
            biased;
            () = answers.closed() => return tracing::debug!("client disconnected"),
            sent = all => sent,
        };
        match sent.unwrap_or(Err(Error::CutOff { rpc })) {
            Ok(()) => call.succeeded(),
            Err(error) => {
                // Fails when the client has disconnected, and then needs no answer.
                let _ = answers.send(Err(call.refused(&error))).await;
            }
        }
    };
    tokio::spawn(work.instrument(span));
    Ok(Response::new(ReceiverStream::new(stream)))
}

/// Sends page after page, each as soon as the channel has space for its first message.
async fn send_all<A>(
    driver: &Arc<Driver>,
    incoming: Incoming,
    extents: ExtentsRequest,
    answers: &mpsc::Sender<Result<A, Status>>,
    answer: fn(MetadataPage) -> A,
) -> Result<(), Error> {
    let ExtentsRequest {
        target,
        base,
        starting_offset,
        max_results,
    } = extents;
    let most = max_results
        .unwrap_or(EXTENTS_OF_A_PAGE)
        .min(EXTENTS_OF_A_PAGE);
    let mut offset = starting_offset;
    while let Ok(permit) = answers.reserve().await {
        let (incoming, base, target) = (incoming.clone(), base.clone(), target.clone());
        let page = driver.get_metadata(incoming, base, target, offset, EXTENTS_OF_A_PAGE);
        let page = page.await?;
        let next = page.next_offset;
        let mut permit = Some(permit);
        for portion in portions(&page, most) {
            let permit = match permit.take() {
                Some(permit) => permit,
                None => match answers.reserve().await {
                    Ok(permit) => permit,
                    Err(_) => return Ok(()),
                },
            };
            permit.send(Ok(answer(portion)));
        }
        match next {
            None => return Ok(()),
            Some(next) => offset = next,
        }
    }
    Ok(())
}

/// Splits a page into messages of at most this many extents; a page without extents is one message.
fn portions(page: &MetadataPage, most: u32) -> impl Iterator<Item = MetadataPage> {
    let MetadataPage {
        block_type,
        volume_capacity_bytes,
        extents,
        next_offset,
    } = page;
    let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    let empty = extents.is_empty().then_some(extents.as_slice());
    let portions = empty.into_iter().chain(extents.chunks(most));
    portions.map(|extents| MetadataPage {
        block_type: *block_type,
        volume_capacity_bytes: *volume_capacity_bytes,
        extents: extents.to_vec(),
        next_offset: *next_offset,
    })
}

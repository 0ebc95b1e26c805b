//! The SnapshotMetadata service: makes a stream of the driver's pages.
//!
//! Apart from the frame of the other calls because an answer never ends at once: the next page is fetched when the client has taken the one
//! before the last (a channel of one), and nothing is fetched any more when the client has gone.

use crate::answer::snapshot_metadata as answer;
use crate::error::Error;
use crate::parse::{self, ExtentsOf, WantedExtents};
use crate::rpc::Frame;
use crate::status::status;
use crate::wire::csi::v1 as wire;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tracing::Instrument;
use wasmount_core::call::Incoming;
use wasmount_core::driver::Driver;
use wasmount_core::rpc::Rpc;
use wasmount_core::snapshot::MetadataPage;
use wire::snapshot_metadata_server::SnapshotMetadata;

/// Most extents of one answer, whatever the client allows ("always free to send less"). At 22 bytes each on the wire that is 220 kB, well
/// under the 4 MiB that a Go client takes.
const EXTENTS_OF_AN_ANSWER: u32 = 10_000;

/// Answers that wait for the client. One: a slow client must not make the host hold a whole volume's extents.
const ANSWERS_AHEAD: usize = 1;

pub(crate) struct SnapshotMetadataService(pub(crate) Frame);

type Answers<A> = ReceiverStream<Result<A, Status>>;

#[tonic::async_trait]
impl SnapshotMetadata for SnapshotMetadataService {
    type GetMetadataAllocatedStream = Answers<wire::GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Answers<wire::GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<wire::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        self.stream(
            Rpc::GetMetadataAllocated,
            request,
            parse::get_metadata_allocated,
            answer::allocated,
        )
    }

    async fn get_metadata_delta(
        &self,
        request: Request<wire::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        self.stream(
            Rpc::GetMetadataDelta,
            request,
            parse::get_metadata_delta,
            answer::delta,
        )
    }
}

impl SnapshotMetadataService {
    fn stream<W, A: Send + 'static>(
        &self,
        rpc: Rpc,
        request: Request<W>,
        parse: impl FnOnce(W) -> parse::Result<WantedExtents>,
        answer: fn(MetadataPage) -> A,
    ) -> Result<Response<Answers<A>>, Status> {
        let call = self.0.call(rpc, &request);
        let span = call.span.clone();
        let (incoming, wanted) = span.in_scope(|| self.0.open(&call, request, parse))?;
        let (answers, stream) = mpsc::channel(ANSWERS_AHEAD);
        let driver = Arc::clone(self.0.driver());
        let work = async move {
            let all = call.before_deadline(send_all(&driver, incoming, wanted, &answers, answer));
            let sent = tokio::select! {
                biased;
                () = answers.closed() => return tracing::debug!("the client went away"),
                sent = all => sent,
            };
            if let Err(error) = sent {
                // It fails when the client has gone, who then needs no answer.
                let _ = answers.send(Err(status(&error))).await;
            }
        };
        tokio::spawn(work.instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Page after page, each as soon as there is room for it.
async fn send_all<A>(
    driver: &Arc<Driver>,
    incoming: Incoming,
    wanted: WantedExtents,
    answers: &mpsc::Sender<Result<A, Status>>,
    answer: fn(MetadataPage) -> A,
) -> Result<(), Error> {
    let WantedExtents {
        of,
        starting_offset,
        max_results,
    } = wanted;
    let max = max_results
        .unwrap_or(EXTENTS_OF_AN_ANSWER)
        .min(EXTENTS_OF_AN_ANSWER);
    let mut offset = starting_offset;
    while let Ok(room) = answers.reserve().await {
        let page = page(driver, incoming.clone(), of.clone(), offset, max).await?;
        let next = page.next_offset;
        room.send(Ok(answer(page)));
        match next {
            None => return Ok(()),
            Some(next) if next <= offset => return Err(Error::NoProgress { offset, next }),
            Some(next) => offset = next,
        }
    }
    Ok(())
}

async fn page(
    driver: &Arc<Driver>,
    incoming: Incoming,
    of: ExtentsOf,
    offset: u64,
    max: u32,
) -> Result<MetadataPage, Error> {
    Ok(match of {
        ExtentsOf::Allocated(id) => {
            driver
                .get_metadata_allocated(incoming, id, offset, max)
                .await?
        }
        ExtentsOf::Delta { base, target } => {
            driver
                .get_metadata_delta(incoming, base, target, offset, max)
                .await?
        }
    })
}

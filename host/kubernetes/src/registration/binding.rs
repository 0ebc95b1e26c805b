//! The bound registration socket, and the requests of kubelet on it.

use super::error::RegistrationError;
use crate::wire::pluginregistration::registration_server::{Registration, RegistrationServer};
use crate::wire::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use futures::{Stream, stream};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use wasmount_core::text::chain;
use wasmount_socket::{BoundSocket, SocketFile};

/// How long an answer may take to be sent after the socket is removed: kubelet's own time limit of NotifyRegistrationStatus.
const ANSWERING: Duration = Duration::from_secs(5);

/// Pause after accept(2) failed: it fails for want of descriptors or memory, and would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest message of kubelet, in bytes: the note of an event holds 1024 bytes, including the text around the message.
const REASON_BYTES: usize = 700;

/// A request of kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// It requested the plugin's information.
    InfoRequested,
    /// It has registered the driver.
    Registered,
    /// It has rejected the driver.
    Refused(String),
}

/// One bind of the socket. When it is dropped the name is removed first; answers under way may end.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) file: SocketFile,
    /// The requests of kubelet; it ends when the socket is not served any more.
    pub(super) messages: UnboundedReceiver<Message>,
    _closing: DropGuard,
}

struct RegistrationService {
    info: PluginInfo,
    messages: UnboundedSender<Message>,
}

impl Binding {
    /// Binds and serves. Not under a temporary name first: kubelet's watch reads each name that appears before it ignores those with a dot, and logs
    /// an error for one that has been renamed by then (`handleCreateEvent` of its `pluginwatcher`).
    pub(super) fn make(path: &Path, info: PluginInfo) -> Result<Self, RegistrationError> {
        let bound = BoundSocket::bind_in_place(path)
            .map_err(|error| RegistrationError::NotBound(chain(&error)))?;
        let (listener, file) = bound.into_parts();
        let listener = UnixListener::from_std(listener.into()).map_err(|error| {
            let reason = format!("could not watch the registration socket: {error}");
            RegistrationError::NotBound(reason)
        })?;
        let (sender, messages) = unbounded_channel();
        let closing = CancellationToken::new();
        let service = RegistrationServer::new(RegistrationService {
            info,
            messages: sender,
        });
        tokio::spawn(serve(listener, service, closing.clone()));
        Ok(Self {
            file,
            messages,
            _closing: closing.drop_guard(),
        })
    }
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        // There is no receiver once the socket is to be removed.
        let _ = self.messages.send(Message::InfoRequested);
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus {
            plugin_registered,
            error,
        } = request.into_inner();
        let _ = self.messages.send(match plugin_registered {
            true => Message::Registered,
            false => Message::Refused(in_one_line(&error)),
        });
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

async fn serve(
    listener: UnixListener,
    service: RegistrationServer<RegistrationService>,
    closing: CancellationToken,
) {
    let serving = Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming(listener), closing.cancelled());
    tokio::select! {
        ended = serving => if let Err(error) = ended {
            tracing::error!(%error, "the registration socket is no longer served");
        },
        () = async { closing.cancelled().await; sleep(ANSWERING).await } => {}
    }
}

fn incoming(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((Ok(stream), listener)),
                Err(error) => {
                    tracing::debug!(%error, "a connection of kubelet was not accepted; retrying");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

/// One line for the log, and short enough for an event.
fn in_one_line(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|each| if each.is_control() { ' ' } else { each })
        .collect();
    let (line, _) = line.split_at(line.floor_char_boundary(REASON_BYTES));
    match line.trim() {
        "" => "without a reason".to_owned(),
        line => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_message_is_one_line_of_bounded_length() {
        assert_eq!(in_one_line("a\nb\u{1b}c "), "a b c");
        assert_eq!(in_one_line(" \n"), "without a reason");
        assert_eq!(in_one_line(&"é".repeat(5000)), "é".repeat(350));
        assert_eq!(in_one_line(&format!("x{}", "é".repeat(5000))).len(), 699);
    }
}

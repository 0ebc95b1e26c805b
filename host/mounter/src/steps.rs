//! What a mounter in a process of its own tells of its work, for the trace of the client: it has no network, and sends no traces itself.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tracing::Span;

/// The span of a request whose client wants its steps.
pub const REQUEST: &str = "request of a trace";

/// A part of the work, as a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its attributes, as text.
    pub attributes: Vec<(String, String)>,
    /// The step that it is a part of, by its index; none: of the request.
    pub parent: Option<usize>,
    /// From the beginning of the request to its own.
    pub begin: Duration,
    /// From its beginning to its end; none: it had not ended before the reply.
    pub duration: Option<Duration>,
}

/// The span in which a request is performed.
pub(crate) fn span(is_wanted: bool) -> Span {
    match is_wanted {
        true => tracing::debug_span!(REQUEST),
        false => Span::none(),
    }
}

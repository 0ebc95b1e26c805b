//! The routes of `wasmount log-level`.

use super::Answer;
use super::audit::audited;
use crate::telemetry;
use axum::{Extension, Json};
use wasmount_control::messages::LogLevel;
use wasmount_control::{Peer, Refusal, RefusalKind};

pub(super) async fn show() -> Json<LogLevel> {
    let level = telemetry::levels().unwrap_or_default();
    Json(LogLevel { level })
}

pub(super) async fn set(
    Extension(peer): Extension<Peer>,
    Json(LogLevel { level }): Json<LogLevel>,
) -> Answer<LogLevel> {
    let arguments = format!("level={level:?}");
    audited(peer, "log-level", None, arguments, async {
        let refused = |message| Refusal::new(RefusalKind::Malformed, message);
        telemetry::set_levels(level.parse().map_err(refused)?)
            .map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
        Ok(Json(LogLevel { level }))
    })
    .await
}

//! Export `identity`: what the plugin says of itself. Called at admission, and `probe` by clients.

use crate::error::EngineError;
use crate::function::{Access, Function};
use crate::program::{PluginInfo, Program};
use crate::session::{Session, Stop, call_guest};
use wasmount_core::backend::BackendError;
use wasmount_core::call::Call;

const GET_PLUGIN_INFO: Function = asked_at_admission("get-plugin-info");
const PROBE: Function = asked_at_admission("probe");
const CHECK_SETTINGS: Function = asked_at_admission("check-settings");

/// A version that is asked may be refused, and another one may serve meanwhile, here or on another host.
const fn asked_at_admission(name: &'static str) -> Function {
    Function::reserved("identity", name).with(Access::ReadOnly)
}

impl Program {
    /// Starts one instance and loads every export from it.
    pub(crate) async fn trial_load(&self, call: &Call) -> Result<(), EngineError> {
        let instantiate = |error: BackendError| EngineError::Instantiate(error.to_string());
        let mut session = Session::open(self, call, GET_PLUGIN_INFO)
            .await
            .map_err(instantiate)?;
        let proved = self.exports.prove(&mut session.store, &session.instance);
        session.close(Ok(Ok(()))).await.map_err(instantiate)?;
        proved
    }

    pub(crate) async fn plugin_info(&self, call: &Call) -> Result<PluginInfo, BackendError> {
        let Some(indices) = &self.exports.identity else {
            let interface = GET_PLUGIN_INFO.interface;
            return Err(BackendError::NotOffered { interface });
        };
        let mut session = Session::open(self, call, GET_PLUGIN_INFO).await?;
        let time = session.time();
        let outcome = match indices.load(&mut session.store, &session.instance) {
            Ok(export) => {
                time.limit(export.call_get_plugin_info(&mut session.store))
                    .await
            }
            Err(error) => Err(Stop::Failed(error)),
        };
        // The one export that cannot fail.
        let closed = session.close(outcome.map(Ok)).await?;
        closed.check(|checker, info| checker.plugin_info(info))
    }

    pub(crate) async fn probe(&self, call: &Call) -> Result<bool, BackendError> {
        let closed = call_guest!(self, call, PROBE, identity.call_probe())?;
        closed.check(|_, ready| Ok(ready))
    }

    pub(crate) async fn check_settings(&self, call: &Call) -> Result<Vec<String>, BackendError> {
        let closed = call_guest!(self, call, CHECK_SETTINGS, identity.call_check_settings())?;
        closed.check(|checker, warnings| Ok(checker.warnings(&warnings)))
    }
}

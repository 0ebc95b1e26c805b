//! How a call runs: admitted, claimed, and then in its own task, which outlives its client.
//!
//! A client that disconnects drops the future of [`Driver::run`]; the task of a change continues under its claims, so that the retry finds the work
//! done. Claims end with the last job that was started for the call, not with its answer. A read whose client disconnects is cancelled.

use super::plugin::{Entered, Plugin};
use super::share::about;
use super::{Driver, ServingPolicy};
use crate::backend::{Backend, BackendError};
use crate::blame::{Blame, Owner, RequestContent};
use crate::call::{Call, Incoming};
use crate::capabilities::{ControllerCapability, PluginCapability};
use crate::claims::{Claim, changes};
use crate::error::Error;
use crate::mounter::MountError;
use crate::rpc::Rpc;
use crate::services::Feature;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span};

/// A running call.
pub(super) struct Work {
    pub(super) driver: Arc<Driver>,
    pub(super) call: Call,
    entered: Entered,
    incoming: Incoming,
}

/// Logs a panic of a call's task, whose client may be gone.
struct PanicLogGuard(Rpc);

impl Drop for PanicLogGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(rpc = %self.0, "a call panicked: this is a bug of the host");
        }
    }
}

impl Driver {
    /// Admits, claims, spawns, waits. `body` contains the decisions and the effects.
    pub(super) async fn run<T, F>(
        self: &Arc<Self>,
        rpc: Rpc,
        incoming: Incoming,
        claims: Vec<Claim>,
        body: impl FnOnce(Arc<Work>) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let until = Instant::now() + self.policy_now(|policy| policy.time_budget);
        let entered = self
            .enter(rpc, about(rpc, &incoming, &claims), until)
            .instrument(tracing::debug_span!("wait for version"))
            .await?;
        // The span of the call, which the service opened.
        Span::current().record("version", entered.policy(self).version);
        self.may_begin(rpc)?;
        // Taken before `closing` is read: shutdown sets it first and then waits for all tokens, so no change slips in between.
        let tracked = changes(rpc).then(|| self.tasks.token());
        // Reads are answered until the sockets close: a failing probe during the last change would make kubelet kill the process.
        if tracked.is_some() && self.closing.load(Ordering::SeqCst) {
            return Err(Error::ShuttingDown);
        }
        // Reads are rejected too: this host does not know the changes of the serving host.
        if !self.works() {
            return Err(Error::Standby);
        }
        let claimed = self.claims.acquire(claims)?;
        let work = Arc::new(Work {
            driver: Arc::clone(self),
            call: Call {
                secrets: Arc::clone(&incoming.secrets),
                cancelled: self.cancelled.child_token(),
                ..Call::within(rpc, &incoming.request_id, entered.policy(self).time_budget)
            },
            entered,
            incoming,
        });
        let stop_reading = (!changes(rpc)).then(|| work.call.cancelled.clone().drop_guard());
        let body = body(Arc::clone(&work));
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            let _guard = PanicLogGuard(rpc);
            let answer = work.within_budget(body).await;
            let answer = answer.map_err(|error| match work.call.effect.is_set() {
                true => error.after_effect(),
                false => error,
            });
            work.count_result(&answer);
            if work.entered.uses_plugin() {
                let counters = &work.driver.counters;
                counters.ended(rpc, work.call.used.so_far());
            }
            let jobs = work.call.jobs.clone();
            // The version may be dropped: no job uses it.
            drop(work);
            jobs.close();
            let held = (claimed, tracked);
            // If all jobs have ended, the claims end before the answer: the retry must not conflict with them.
            let held = (!jobs.is_empty()).then_some(held);
            // A read is cancelled when its client disconnects: its result is not needed.
            if let (Err(Err(error)), true) = (sender.send(answer), changes(rpc)) {
                tracing::warn!(%error, "a call failed after its client had gone");
            }
            jobs.wait().await;
            drop(held);
        };
        tokio::spawn(task.instrument(Span::current()));
        let answer = receiver.await;
        drop(stop_reading);
        answer.unwrap_or(Err(Error::Lost { rpc }))
    }

    /// Runs a call that claims nothing.
    pub(super) async fn read<T, F>(
        self: &Arc<Self>,
        rpc: Rpc,
        incoming: Incoming,
        body: impl FnOnce(Arc<Work>) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.run(rpc, incoming, Vec::new(), body).await
    }
}

impl Work {
    /// The plugin of this call, for calls that do not need one.
    pub(super) fn plugin(&self) -> Option<&Plugin> {
        self.entered.plugin.as_deref()
    }

    /// The policy with which this call started.
    pub(super) fn policy(&self) -> &ServingPolicy {
        self.entered.policy(&self.driver)
    }

    /// Counts the result of the call, for the driver and for the version that it used.
    fn count_result<T>(&self, answer: &Result<T, Error>) {
        let rpc = self.call.rpc;
        let Incoming {
            origin, subject, ..
        } = &self.incoming;
        let noted = |error| {
            self.driver
                .noted(rpc, error, origin, self.request_content())
        };
        match (self.plugin(), answer.as_ref().err().and_then(noted)) {
            (Some(plugin), Some(kind)) => plugin.has_failed(rpc, subject.as_deref(), kind),
            // The end of a cancelled call is no evidence about the plugin: its client had gone, or its time was up.
            (Some(plugin), None)
                if self.entered.uses_plugin() && !self.call.cancelled.is_cancelled() =>
            {
                plugin.has_answered(rpc, subject.as_deref());
            }
            _ => {}
        }
    }

    /// The content of the request, to distinguish its faults from the plugin's.
    fn request_content(&self) -> RequestContent<'_> {
        RequestContent {
            strings: &self.incoming.strings,
            secrets: &self.call.secrets,
        }
    }

    /// The backend of this call.
    pub(super) fn backend(&self) -> Result<&dyn Backend, Error> {
        Ok(self.needed_plugin()?.backend.as_ref())
    }

    pub(super) fn needed_plugin(&self) -> Result<&Plugin, Error> {
        self.plugin().ok_or_else(|| self.driver.no_plugin())
    }

    /// Whether the plugin has a capability, and it is not hidden.
    pub(super) fn is(&self, capability: PluginCapability) -> bool {
        self.plugin()
            .is_some_and(|plugin| plugin.capabilities.plugin.contains(&capability))
    }

    /// Whether the controller offers a capability, and it is not hidden.
    pub(super) fn offers(&self, capability: ControllerCapability) -> bool {
        self.plugin()
            .is_some_and(|plugin| plugin.capabilities.controller.contains(&capability))
    }

    /// Whether the plugin claims a feature, hidden or not.
    pub(super) fn claims(&self, feature: Feature) -> bool {
        self.plugin()
            .is_some_and(|plugin| plugin.backend.offer().claims(feature))
    }

    /// This call with a shorter deadline: for queries that must not delay the surrounding call.
    pub(super) fn limited(&self, until: Instant) -> Call {
        let deadline = self.call.deadline.min(until);
        Call {
            deadline,
            time: self
                .call
                .time
                .min(deadline.saturating_duration_since(Instant::now())),
            ..self.call.clone()
        }
    }

    /// The plugin's answer breaks a rule that only the driver can check.
    pub(super) fn bad_answer(&self, function: &'static str, reason: &str) -> Error {
        match self.plugin() {
            Some(plugin) => Error::Backend(BackendError::BadAnswer {
                plugin: Box::new(plugin.backend.label().clone()),
                function,
                reason: reason.to_owned(),
                blame: Blame::Of(Owner::Plugin),
            }),
            None => self.driver.no_plugin(),
        }
    }

    /// Fails when the time is up, for loops that call the plugin.
    pub(super) fn in_time(&self, function: &'static str) -> Result<(), Error> {
        match self.plugin() {
            Some(plugin) if Instant::now() >= self.call.deadline => {
                Err(out_of_time(plugin, &self.call, function))
            }
            _ => Ok(()),
        }
    }

    /// A rejected plan: names the plugin, unless the request is at fault.
    pub(super) fn of_plan(&self, error: MountError) -> Error {
        match (&error, self.plugin()) {
            (MountError::Invalid { .. } | MountError::NotGranted { .. }, Some(plugin))
                if error.owner(self.request_content()) == Owner::Plugin =>
            {
                Error::Plan {
                    plugin: Box::new(plugin.backend.label().clone()),
                    source: error,
                }
            }
            _ => error.into(),
        }
    }

    /// Cancels the backend's work when the budget is spent, and still waits for it: jobs that it started must end before its claims do.
    async fn within_budget<T>(
        &self,
        body: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut body = pin!(body);
        tokio::select! {
            biased;
            answer = &mut body => return answer,
            () = sleep_until(self.call.deadline) => self.call.cancelled.cancel(),
        }
        match (body.await, self.plugin()) {
            // It stopped because its time was up, not because the host shuts down.
            (Err(Error::Backend(BackendError::Cancelled)), Some(plugin))
                if !self.driver.cancelled.is_cancelled() =>
            {
                Err(out_of_time(plugin, &self.call, self.call.rpc.name()))
            }
            (answer, _) => answer,
        }
    }
}

fn out_of_time(plugin: &Plugin, call: &Call, function: &'static str) -> Error {
    Error::Backend(BackendError::OutOfTime {
        plugin: plugin.backend.label().clone(),
        function,
        seconds: call.seconds(),
    })
}

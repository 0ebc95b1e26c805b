//! One call into a guest, from its place at the gate to the last durable write: a fresh store and instance, the call within its time; both are
//! dropped afterwards.

use crate::answer::{Checker, Invalid};
use crate::bindings::types;
use crate::convert::Convert;
use crate::fault::Callee;
use crate::function::Function;
use crate::gate::Place;
use crate::guest_log::GuestLog;
use crate::host_error::HostError;
use crate::invocation::{self, Invocation};
use crate::limits::{self, OverLimit};
use crate::program::Program;
use crate::recorder::{Recorder, StepRefusal};
use crate::redact::Redactor;
use crate::requests::Denial;
use crate::slices::Turn;
use crate::ticker::Ticker;
use crate::usage::{CpuTime, Usage};
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Instrument, Span};
use wasmount_core::backend::BackendError;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::call::{Call, Used};
use wasmount_core::code::Code;
use wasmount_core::plan::Plan;
use wasmtime::Store;
use wasmtime::component::Instance;

/// How long a guest may continue after its call was cancelled: `call.is-cancelled` is useful only if the guest can react to it.
const CANCEL_GRACE: Duration = Duration::from_millis(500);
/// How long the last write may take to become durable, beyond the call's own time. A slower disk is considered broken.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call into a guest was stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It trapped, or exceeded a limit.
    Failed(wasmtime::Error),
    /// It used up its time.
    OutOfTime,
    /// The host is shutting down.
    Cancelled,
}

/// A call under way, with its instance.
pub(crate) struct GuestCall<'a> {
    callee: Callee<'a>,
    pub(crate) time: Time,
    pub(crate) store: Store<Invocation>,
    pub(crate) instance: Instance,
    _place: Place,
}

/// The time budget of a call.
pub(crate) struct Time {
    began: Instant,
    call: Call,
    ticker: Arc<Ticker>,
    turn: Turn,
    used: CpuTime,
}

/// The result of a call: its answer and the rules for it.
pub(crate) struct Closed<'a, T> {
    callee: Callee<'a>,
    checker: Checker,
    recorder: Recorder,
    value: T,
    /// An answer uses the call's memory until it is checked, so it counts as a running call.
    _place: Place,
}

/// Calls one export of a type with a `program`, and returns a [`Closed`] answer. It is a macro because each export's loader has its own type.
/// `$result` makes a `Result` of what the export returns, unless it is one.
macro_rules! call_guest {
    ($backend:expr, $call:expr, $function:expr => $export:ident.$method:ident($($argument:expr),* $(,)?) $(, $result:expr)?) => {{
        let Some(indices) = &$backend.program.exports.$export else {
            let interface = $function.interface;
            return Err(wasmount_core::backend::BackendError::NotOffered { interface });
        };
        let mut guest_call = $crate::guest_call::GuestCall::open(&$backend.program, $call, $function).await?;
        let outcome = match indices.load(&mut guest_call.store, &guest_call.instance) {
            Ok(export) => {
                let span = $crate::guest_call::span_of($function);
                tracing::Instrument::instrument(guest_call.time.limit(export.$method(&mut guest_call.store, $($argument),*)), span).await
            }
            Err(error) => Err($crate::guest_call::Stop::Failed(error)),
        };
        guest_call.close(outcome$(.map($result))?).await
    }};
}
pub(crate) use call_guest;

/// The span of a call into the guest.
pub(crate) fn span_of(called: Function) -> Span {
    tracing::debug_span!(
        "guest call",
        interface = called.interface,
        function = called.name
    )
}

impl Time {
    fn of(program: &Program, call: &Call) -> Self {
        Self {
            began: Instant::now(),
            call: call.clone(),
            ticker: Arc::clone(&program.engine.ticker),
            turn: program.engine.slices.turn(),
            used: CpuTime::default(),
        }
    }

    /// Runs a call into the guest until it ends or its time is up. Dropping the future stops the guest: its store is dropped too.
    pub(crate) async fn limit<T>(
        &self,
        call: impl Future<Output = wasmtime::Result<T>>,
    ) -> Result<T, Stop> {
        let mut guest = pin!(self.turn.during(self.used.during(call)));
        self.race(poll_fn(|context| self.ticker.poll(guest.as_mut(), context)))
            .await?
            .map_err(Stop::Failed)
    }

    async fn race<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let cancelled = async {
            self.call.cancelled.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = tokio::time::sleep_until(self.call.deadline) => Err(Stop::OutOfTime),
            // The end of the budget cancels as well.
            () = cancelled => Err(if Instant::now() < self.call.deadline { Stop::Cancelled } else { Stop::OutOfTime }),
        }
    }

    /// Reports the usage.
    fn report(&self, callee: Callee<'_>, invocation: &Invocation) {
        let used = Used {
            cpu: self.used.so_far(),
            wall: self.began.elapsed(),
            memory_bytes: invocation.memory.bytes(),
        };
        self.call.used.add(used);
        if let Some(report) = callee.program.engine.usage.get() {
            report(Usage {
                interface: callee.function.interface,
                function: callee.function.name,
                wall: used.wall,
                cpu: used.cpu,
                memory_bytes: used.memory_bytes,
                host_calls: invocation.host_calls,
            });
        }
    }
}

impl<'a> GuestCall<'a> {
    /// Waits for a place and creates an instance.
    pub(crate) async fn open(
        program: &'a Program,
        call: &Call,
        function: Function,
    ) -> Result<Self, BackendError> {
        let callee = Callee { program, function };
        let time = Time::of(program, call);
        let cpu_before = call.used.so_far().cpu;
        let parts = &program.parts;
        // A call that is shorter than a tick is never checked while it runs.
        limits::within_cpu(parts.limits.cpu, cpu_before)
            .map_err(|OverLimit(limit)| callee.over_limit(limit))?;
        let redactor = Redactor::new(Arc::clone(&call.secrets), Arc::clone(&parts.secrets));
        // Within the backend's places and the call's time, and before the guest's CPU time: the cost of secrets is not the plugin's fault.
        let place = async {
            let place = program.gate.enter(function.share).await?;
            redactor.prepare().await;
            Some(place)
        };
        let place = place.instrument(tracing::debug_span!("wait for place"));
        let place = match time.race(place).await {
            Ok(Some(place)) => place,
            Err(Stop::Cancelled) => return Err(BackendError::Cancelled),
            Ok(None) | Err(_) => {
                let limit = parts.limits.concurrency;
                return Err(BackendError::Busy { limit });
            }
        };
        let log = Arc::new(GuestLog::new(
            parts.driver.clone(),
            call.request_id.clone(),
            redactor.clone(),
            Arc::clone(&program.rate),
        ));
        let invocation = Invocation::new(call, parts, log, redactor, function, &program.memory);
        let mut store = invocation::store(
            program.pre.engine(),
            invocation,
            time.turn.clone(),
            cpu_before,
            time.used.clone(),
        );
        match time.limit(program.pre.instantiate_async(&mut store)).await {
            Ok(instance) => Ok(Self {
                callee,
                time,
                store,
                instance,
                _place: place,
            }),
            Err(stop) => {
                time.report(callee, store.data());
                Err(stopped(callee, &time, stop, store.data()))
            }
        }
    }

    /// Ends the call. The guest's writes are durable when this returns, whatever it answered.
    pub(crate) async fn close<T>(
        mut self,
        outcome: Result<Result<T, types::Error>, Stop>,
    ) -> Result<Closed<'a, T>, BackendError> {
        let callee = self.callee;
        let synced = tokio::time::timeout(SYNC_TIMEOUT, self.store.data_mut().sync()).await;
        self.time.report(callee, self.store.data());
        let answered = match outcome {
            Ok(answered) => answered,
            Err(stop) => return Err(stopped(callee, &self.time, stop, self.store.data())),
        };
        let mut invocation = self.store.into_data();
        invocation.log.close();
        let long_ids = callee.program.parts.limits.long_ids;
        let checker = Checker::new(invocation.redactor, long_ids);
        // Whatever the guest answered, the plugin is at fault: with the guest's own message the client would search for a mistake of its own.
        if let Some(StepRefusal { code, text, blame }) = invocation.recorder.refused.take() {
            return Err(match code {
                Some(code) => callee.refused(code, text, blame),
                None => callee.bad_answer(text, blame),
            });
        }
        let value = answered.map_err(|error| {
            let types::Error { code, message } = error;
            let code: Code = code.convert();
            let is_passed_on = |it: &HostError| it.code == code && it.message == message;
            let rejection = invocation.rejection.filter(is_passed_on);
            let message = checker.text(&message);
            if invocation.requests.were_withheld() {
                return callee.withheld(message);
            }
            if code == Code::PermissionDenied
                && let Some(Denial { text, blame }) = invocation.requests.denial()
            {
                return callee.refused(code, format!("{message}; {text}"), blame);
            }
            match rejection.and_then(|rejection| rejection.fault) {
                Some((code, blame)) => callee.refused(code, message, blame),
                None => BackendError::Answered { code, message },
            }
        })?;
        match synced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(not_durable(callee, &error)),
            Err(_) => {
                let seconds = SYNC_TIMEOUT.as_secs();
                let slow = format!("the disk did not store it within {seconds} s");
                return Err(not_durable(callee, &slow));
            }
        }
        Ok(Closed {
            callee,
            checker,
            recorder: invocation.recorder,
            value,
            _place: self._place,
        })
    }
}

impl<T> Closed<'_, T> {
    /// The checked answer.
    pub(crate) fn check<U>(
        self,
        check: impl FnOnce(&Checker, T) -> Result<U, Invalid>,
    ) -> Result<U, BackendError> {
        check(&self.checker, self.value)
            .map_err(|Invalid { reason, blame }| self.callee.bad_answer(reason, blame))
    }

    /// The recorded plan.
    pub(crate) fn plan(self) -> Result<Plan, BackendError> {
        self.recorder.into_plan().ok_or_else(|| {
            let reason = "it recorded no source: call one of `plan.directory`, `plan.image`, ..";
            let blame = Blame::Of(Owner::Plugin);
            self.callee.bad_answer(reason.to_owned(), blame)
        })
    }
}

/// The guest succeeded, but its writes may be lost: the client must retry. The store's own code is never used: the work is done, and after
/// `resource-exhausted` external-provisioner may have another node create the volume a second time.
fn not_durable(callee: Callee<'_>, why: &impl Display) -> BackendError {
    let reason = format!("what it wrote is not durable: {why}; retry");
    callee.host_failed(Code::Unavailable, reason)
}

fn stopped(callee: Callee<'_>, time: &Time, stop: Stop, invocation: &Invocation) -> BackendError {
    let last_output = invocation.log.close();
    match stop {
        Stop::Failed(error) => callee.failed(&error, last_output, &invocation.redactor),
        Stop::OutOfTime if invocation.waits_for_storage || invocation.requests.are_under_way() => {
            let reason = "the storage did not answer within the time of the call; look at the node, the pool, and the systems of `grants.network`";
            callee.host_failed(Code::DeadlineExceeded, reason.to_owned())
        }
        // It paused between requests: a job of the storage system takes longer than the call.
        Stop::OutOfTime if invocation.requests.have_begun() && !time.turn.is_computing() => {
            let reason = format!(
                "it still waited for its storage system after {} s, the time of the call; for a job that takes longer, a plugin answers `aborted` in time and is called again (`poll::until` of the SDK)",
                time.call.seconds()
            );
            callee.host_failed(Code::DeadlineExceeded, reason)
        }
        Stop::OutOfTime => callee.out_of_time(time.call.seconds()),
        Stop::Cancelled => BackendError::Cancelled,
    }
}

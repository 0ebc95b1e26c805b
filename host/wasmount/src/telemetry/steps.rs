//! The steps of a request in the mounter: the spans that begin while it is performed.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Registry};
use wasmount_core::mutex::lock;
use wasmount_mounter::{REQUEST, Step};

/// The most steps of a request that are kept. 64: a stage by four paths with multipath and encryption has some 40.
const STEPS_MAX: usize = 64;

/// Keeps the steps of requests, and nothing of other spans.
#[derive(Debug)]
pub(crate) struct StepLayer;

/// The steps of one request.
#[derive(Debug)]
struct Recording {
    begin: Instant,
    steps: Mutex<Vec<Step>>,
}

/// What a span has to do with a recording.
#[derive(Debug, Clone)]
struct Place {
    recording: Arc<Recording>,
    /// `None`: it is the request, or a step too many.
    step: Option<usize>,
}

/// Reads attributes as text.
struct Texts<'a>(&'a mut Vec<(String, String)>);

impl StepLayer {
    /// The layer with its filter, for a subscriber whose other layers have theirs.
    pub(crate) fn filtered<S>() -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Self.with_filter(dynamic_filter_fn(is_step))
    }
}

/// A step is within a request, and within no other span.
fn is_step<S>(metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_own = metadata.is_span()
        && *metadata.level() <= Level::DEBUG
        && metadata.target().starts_with(super::OWN);
    is_own && (metadata.name() == REQUEST || context.lookup_current().is_some())
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StepLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Place>().cloned());
        let place = match above {
            Some(above) => above.begin(attributes),
            None => Place {
                recording: Arc::new(Recording {
                    begin: Instant::now(),
                    steps: Mutex::default(),
                }),
                step: None,
            },
        };
        span.extensions_mut().insert(place);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(place) = span.extensions().get::<Place>()
        {
            place.end();
        }
    }
}

impl Place {
    fn begin(&self, attributes: &Attributes<'_>) -> Self {
        let mut step = Step {
            name: attributes.metadata().name().to_owned(),
            attributes: Vec::new(),
            parent: self.step,
            begin: self.recording.begin.elapsed(),
            duration: None,
        };
        attributes.record(&mut Texts(&mut step.attributes));
        let mut steps = lock(&self.recording.steps);
        let has_room = steps.len() < STEPS_MAX;
        if has_room {
            steps.push(step);
        }
        Self {
            recording: Arc::clone(&self.recording),
            step: has_room.then(|| steps.len() - 1),
        }
    }

    fn end(&self) {
        let now = self.recording.begin.elapsed();
        let mut steps = lock(&self.recording.steps);
        if let Some(step) = self.step.and_then(|step| steps.get_mut(step)) {
            step.duration = Some(now.saturating_sub(step.begin));
        }
    }
}

impl Visit for Texts<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }
}

/// The steps so far of the request of a span. None without a [`StepLayer`].
pub(crate) fn steps_of(span: &Span) -> Vec<Step> {
    let found = span.with_subscriber(|(id, subscriber)| {
        let registry = subscriber.downcast_ref::<Registry>()?;
        let span = registry.span(id)?;
        let steps = lock(&span.extensions().get::<Place>()?.recording.steps).clone();
        Some(steps)
    });
    found.flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::subscriber::with_default;
    use tracing_subscriber::layer::SubscriberExt;

    fn recorded(work: impl FnOnce()) -> Vec<Step> {
        let subscriber = tracing_subscriber::registry().with(StepLayer::filtered());
        with_default(subscriber, || {
            let span = tracing::debug_span!(REQUEST);
            span.in_scope(work);
            steps_of(&span)
        })
    }

    #[test]
    fn steps_of_a_request_are_kept_with_their_parents() {
        let mut unended = None;
        let steps = recorded(|| {
            tracing::debug_span!("attach disk").in_scope(|| {
                let program = tracing::debug_span!("program", program = "mkfs.xfs", count = 3);
                program.in_scope(|| tracing::info!("a line is no step"));
            });
            unended = Some(tracing::debug_span!("tear down").entered());
        });
        let short: Vec<_> = steps
            .iter()
            .map(|it| (it.name.as_str(), it.parent))
            .collect();
        assert_eq!(
            short,
            [
                ("attach disk", None),
                ("program", Some(0)),
                ("tear down", None)
            ]
        );
        let attributes = [("program", "mkfs.xfs"), ("count", "3")];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(steps[1].attributes, attributes);
        let [outer, inner, last] = &steps[..] else {
            panic!("{steps:?}");
        };
        assert!(inner.begin >= outer.begin && inner.duration <= outer.duration);
        assert!(last.begin >= outer.begin + outer.duration.unwrap());
        assert_eq!(last.duration, None);
    }

    #[test]
    fn spans_outside_of_a_request_are_no_steps() {
        let subscriber = tracing_subscriber::registry().with(StepLayer::filtered());
        with_default(subscriber, || {
            let span = tracing::debug_span!("attach disk");
            span.in_scope(|| drop(tracing::debug_span!("program")));
            assert_eq!(steps_of(&span), []);
        });
        assert_eq!(steps_of(&Span::none()), []);
    }

    #[test]
    fn steps_beyond_the_bound_are_not_kept() {
        let steps = recorded(|| {
            for _ in 0..STEPS_MAX {
                tracing::debug_span!("program").in_scope(|| {
                    drop(tracing::debug_span!("attach mount"));
                });
            }
        });
        assert_eq!(steps.len(), STEPS_MAX);
        assert_eq!(steps[STEPS_MAX - 1].parent, Some(STEPS_MAX - 2));
    }
}

//! Redacts the values of secrets in the output of a guest.
//!
//! In a text for people (an error, a log line) the values are replaced. A string that is passed back to the guest (an id, a context) is rejected
//! instead: after a replacement it would no longer have its meaning for the guest.

mod patterns;

use patterns::{Patterns, beginning};
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;
use wasmount_core::mutex::lock;
use wasmount_core::secrets::Secrets;
use wasmount_core::text::shortened;
use zeroize::Zeroizing;

/// Replaces a value.
const REDACTED: &str = "[redacted]";
/// Replaces a whole text if not every secret can be searched for.
const WITHHELD: &str = "[redacted: the call has more secrets than are looked for]";
/// Longest text of a guest that leaves the host, in bytes: twice Kubernetes' limit of an event's message.
pub(crate) const TEXT_BYTES: usize = 2048;
/// Part of a text that is searched, in bytes: replacements shorten it, and a text of 4 MiB costs no more than this.
const SEARCHED_BYTES: usize = 4 * TEXT_BYTES;
/// Size of secrets whose patterns are built on the calling thread, in bytes: keys and tokens, in well under a millisecond. Those of larger ones are
/// built outside of the serving threads.
const SMALL_BYTES: usize = 8 << 10;
/// Most values that a call may learn. 256: a plugin has a few grants, each with one or two tokens; above it, its texts are withheld.
const LEARNT: usize = 256;

/// The secrets of one call: those of the request and those of the backend's document.
#[derive(Clone)]
pub(crate) struct Redactor(Arc<Values>);

struct Values {
    request: Arc<Secrets>,
    backend: Arc<Secrets>,
    learnt: Mutex<Learnt>,
}

/// What was learnt during the call, and the patterns of all its secrets.
#[derive(Default)]
struct Learnt {
    /// Tokens of sessions: they count as secrets as well.
    values: Vec<Zeroizing<String>>,
    /// Whether more was to be learnt than is searched for.
    is_full: bool,
    /// Built with the first output of the guest, and anew after more was learnt: most calls have no output.
    patterns: Option<Arc<Patterns>>,
}

impl Redactor {
    pub(crate) fn new(request: Arc<Secrets>, backend: Arc<Secrets>) -> Self {
        Self(Arc::new(Values {
            request,
            backend,
            learnt: Mutex::default(),
        }))
    }

    /// Adds values that count as secrets from now on.
    pub(crate) fn learn(&self, values: impl IntoIterator<Item = Zeroizing<String>>) {
        let mut learnt = lock(&self.0.learnt);
        for value in values {
            if learnt.is_full || learnt.values.contains(&value) {
                continue;
            }
            learnt.patterns = None;
            if learnt.values.len() < LEARNT {
                learnt.values.push(value);
            } else {
                learnt.is_full = true;
            }
        }
    }

    /// Before the guest runs: builds the patterns of large secrets on a thread where no other call waits.
    pub(crate) async fn prepare(&self) {
        let bytes: usize = self.0.all().map(str::len).sum();
        if bytes > SMALL_BYTES {
            let values = Arc::clone(&self.0);
            // If that fails, they are built on first use.
            let _ = spawn_blocking(move || values.patterns().are_complete).await;
        }
    }

    /// A text that may leave the host: one line, without control characters (which a terminal could interpret) and values, and of bounded length.
    pub(crate) fn text(&self, text: &str) -> String {
        self.shown(text, text.len() > SEARCHED_BYTES)
    }

    /// The same for a text that may be truncated: the beginning of a value at its end counts as well.
    pub(crate) fn beginning(&self, text: &str) -> String {
        self.shown(text, true)
    }

    /// Whether a string contains the value of a secret.
    pub(crate) fn finds_secret_in(&self, text: impl AsRef<[u8]>) -> bool {
        self.0.patterns().are_in(text.as_ref())
    }

    /// Truncated before the search, and again after the replacements.
    fn shown(&self, text: &str, is_cut: bool) -> String {
        let patterns = self.0.patterns();
        if !patterns.are_complete && !text.is_empty() {
            return WITHHELD.to_owned();
        }
        let searched = beginning(text, SEARCHED_BYTES);
        let printed = printable(searched);
        let found = if is_cut {
            patterns.find_with_begun(&printed)
        } else {
            patterns.find(&printed)
        };
        let mut out = String::with_capacity(printed.len());
        let mut end = 0;
        for range in found {
            out.push_str(printed.get(end..range.start).unwrap_or_default());
            out.push_str(REDACTED);
            end = range.end;
        }
        out.push_str(printed.get(end..).unwrap_or_default());
        if searched.len() < text.len() {
            out.push('…');
        }
        shortened(out, TEXT_BYTES)
    }
}

/// Shows no value, so that a type that contains it can be formatted.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Values {
    fn all(&self) -> impl Iterator<Item = &str> + Clone {
        self.request.values().chain(self.backend.values())
    }

    fn patterns(&self) -> Arc<Patterns> {
        let learnt = &mut *lock(&self.learnt);
        let built = learnt.patterns.get_or_insert_with(|| {
            let values = learnt.values.iter().map(|value| value.as_str());
            let mut patterns = Patterns::of(self.all().chain(values));
            patterns.are_complete &= !learnt.is_full;
            Arc::new(patterns)
        });
        Arc::clone(built)
    }
}

/// Removes ANSI sequences and replaces all other control characters by spaces.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.trim_end().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                // A sequence ends at its first byte from `@` to `~` (ECMA-48, 5.4).
                for parameter in characters.by_ref() {
                    if ('@'..='~').contains(&parameter) {
                        break;
                    }
                }
            }
            '\u{1b}' => {}
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests;

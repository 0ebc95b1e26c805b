//! Keeps the values of secrets out of what a guest says.
//!
//! A text for people (an error, a log line) has the values replaced. A word that the guest will get back (an id, a context) is refused instead:
//! replaced, it would no longer mean what the guest means.

mod patterns;

use patterns::{Patterns, beginning};
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::task::spawn_blocking;
use wasmount_core::secrets::Secrets;
use wasmount_core::text::shortened;

/// Stands for a value.
const REDACTED: &str = "[redacted]";
/// Stands for a whole text where not every secret can be looked for.
const WITHHELD: &str = "[redacted: the call has more secrets than are looked for]";
/// Longest text of a guest that leaves the host, in bytes: twice what Kubernetes keeps of an event's message.
pub(crate) const TEXT_BYTES: usize = 2048;
/// So much of a text is looked at, in bytes: what is replaced gets shorter, and a text of 4 MiB costs no more than this.
const SEARCHED_BYTES: usize = 4 * TEXT_BYTES;
/// Secrets whose patterns are made where they are needed, in bytes: keys and tokens, in well under a millisecond. Of larger ones they are made
/// beside the threads that serve.
const SMALL_BYTES: usize = 8 << 10;

/// The secrets of one call: those of the request and those of the backend's document.
#[derive(Clone)]
pub(crate) struct Redactor(Arc<Values>);

struct Values {
    request: Arc<Secrets>,
    backend: Arc<Secrets>,
    /// Made when the guest first says something: most calls say nothing.
    patterns: OnceLock<Patterns>,
}

impl Redactor {
    pub(crate) fn new(request: Arc<Secrets>, backend: Arc<Secrets>) -> Self {
        Self(Arc::new(Values {
            request,
            backend,
            patterns: OnceLock::new(),
        }))
    }

    /// Before the guest runs: makes the patterns of large secrets where no other call waits for it.
    pub(crate) async fn prepare(&self) {
        let bytes: usize = self.0.all().map(str::len).sum();
        if bytes > SMALL_BYTES {
            let values = Arc::clone(&self.0);
            // If that fails, they are made when they are needed.
            let _ = spawn_blocking(move || values.patterns().are_complete).await;
        }
    }

    /// A text that may leave the host: one line, without control characters (a terminal could obey them) and values, and of bounded length.
    pub(crate) fn text(&self, text: &str) -> String {
        self.shown(text, text.len() > SEARCHED_BYTES)
    }

    /// The same for a text whose end may be missing: the beginning of a value in last place is one as well.
    pub(crate) fn beginning(&self, text: &str) -> String {
        self.shown(text, true)
    }

    /// Whether a word holds the value of a secret.
    pub(crate) fn finds_secret_in(&self, word: impl AsRef<[u8]>) -> bool {
        self.0.patterns().are_in_word(word.as_ref())
    }

    /// Cut before it is searched, and again when values have gone.
    fn shown(&self, text: &str, is_cut: bool) -> String {
        let patterns = self.0.patterns();
        if !patterns.are_complete && !text.is_empty() {
            return WITHHELD.to_owned();
        }
        let looked_at = beginning(text, SEARCHED_BYTES);
        let printed = printable(looked_at);
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
        if looked_at.len() < text.len() {
            out.push('…');
        }
        shortened(out, TEXT_BYTES)
    }
}

/// Shows no value, so that whatever holds one can be formatted.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Values {
    fn all(&self) -> impl Iterator<Item = &str> + Clone {
        self.request.values().chain(self.backend.values())
    }

    fn patterns(&self) -> &Patterns {
        self.patterns.get_or_init(|| Patterns::of(self.all()))
    }
}

/// Without ANSI sequences and with spaces for all other control characters.
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

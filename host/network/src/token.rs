//! The token of a session, and its place in a request.

use crate::connector::Outgoing;
use form_urlencoded::{Serializer, parse};
use http::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};
use std::sync::Arc;
use wasmount_core::document::network::Give;
use zeroize::Zeroizing;

/// A token. Those of two logins may be equal, and are not the same ([`Arc::ptr_eq`]).
pub(crate) type Token = Arc<Zeroizing<String>>;

/// Adds a token to a request.
pub(crate) fn give(rule: &Give, token: &Token, request: &mut Outgoing) {
    let value = token.as_str();
    let (name, text) = match rule {
        Give::Header(name) => (HeaderName::try_from(name.as_str()).ok(), value.to_owned()),
        Give::Bearer => (Some(AUTHORIZATION), format!("Bearer {value}")),
        Give::Cookie(name) => (Some(COOKIE), format!("{name}={value}")),
        Give::Query(name) => {
            request.target = with_parameter(&request.target, name, value);
            return;
        }
    };
    // Both were checked: the name with the document, the value with the login.
    if let (Some(name), Ok(mut header)) = (name, HeaderValue::try_from(text)) {
        header.set_sensitive(true);
        request.headers.insert(name, header);
    }
}

/// The target with one more parameter in its query; it replaces one of the same name that the plugin wrote.
fn with_parameter(target: &str, name: &str, value: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kept = parse(query.as_bytes()).filter(|(key, _)| key != name);
    let query = Serializer::new(String::new())
        .extend_pairs(kept)
        .append_pair(name, value)
        .finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_the_query_replaces_one_of_the_plugin() {
        for (target, expected) in [
            ("/a", "/a?_sid=t+1"),
            ("/a?b=c%20d", "/a?b=c+d&_sid=t+1"),
            ("/a?_sid=forged&b=1", "/a?b=1&_sid=t+1"),
        ] {
            assert_eq!(with_parameter(target, "_sid", "t 1"), expected);
        }
    }
}

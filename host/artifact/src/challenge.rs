//! What a registry wants to see before it answers (`WWW-Authenticate`).

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token that somebody else gives out.
    Bearer {
        /// Where it is asked for.
        realm: String,
        /// For whom.
        service: Option<String>,
        /// For what.
        scope: Option<String>,
    },
}

impl Challenge {
    /// The one to follow: a token before a password, since whoever offers both means the token for artifacts.
    pub(crate) fn choose<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut all: Vec<_> = headers.into_iter().flat_map(read).collect();
        let bearer = all.iter().position(|it| matches!(it, Self::Bearer { .. }));
        match bearer {
            Some(place) => Some(all.swap_remove(place)),
            None => all.pop(),
        }
    }
}

/// The challenges of one header that are known; what is not is passed over.
fn read(header: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    let mut rest = header.trim_start();
    while !rest.is_empty() {
        let (scheme, behind) = split(rest, |c: char| c.is_whitespace() || c == ',');
        let (parameters, behind) = parameters(behind.trim_start());
        let value = |name: &str| {
            let same = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
            parameters.iter().find(same).map(|(_, value)| value.clone())
        };
        if scheme.eq_ignore_ascii_case("basic") {
            found.push(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer")
            && let Some(realm) = value("realm")
        {
            found.push(Challenge::Bearer {
                realm,
                service: value("service"),
                scope: value("scope"),
            });
        }
        rest = behind.trim_start_matches([',', ' ', '\t']);
    }
    found
}

/// `key=value, key="value"`, up to the next scheme; and what is behind.
fn parameters(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        let at = rest.trim_start_matches([',', ' ', '\t']);
        let (key, behind) = split(at, |c: char| c == '=' || c.is_whitespace() || c == ',');
        let Some(value) = behind.trim_start().strip_prefix('=') else {
            // A word without a value is the next scheme.
            return (found, at);
        };
        let (value, behind) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (word, behind) =
                    split(value.trim_start(), |c: char| c == ',' || c.is_whitespace());
                (word.to_owned(), behind)
            }
        };
        found.push((key.to_owned(), value));
        rest = behind;
    }
}

/// Up to the closing quotation mark, with `\` before what it would otherwise end.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return (value, text.get(place + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        })
    }

    #[test]
    fn a_challenge_is_read_as_registries_write_it() {
        for (headers, wanted) in [
            (
                vec![r#"Basic realm="Registry Realm""#],
                Some(Challenge::Basic),
            ),
            (vec!["basic"], Some(Challenge::Basic)),
            (
                vec![
                    r#"Bearer realm="https://a.b/token",service="a.b",scope="repository:c/d:pull,push""#,
                ],
                bearer(
                    "https://a.b/token",
                    Some("a.b"),
                    Some("repository:c/d:pull,push"),
                ),
            ),
            (
                vec![r#"Basic realm="x, y", Bearer realm=https://a.b/t , service="q\"q""#],
                bearer("https://a.b/t", Some("q\"q"), None),
            ),
            (
                vec![r#"Bearer realm="https://a.b/t""#, "Basic realm=x"],
                bearer("https://a.b/t", None, None),
            ),
            (
                vec![r#"Negotiate, NTLM, Basic realm="x""#],
                Some(Challenge::Basic),
            ),
        ] {
            assert_eq!(Challenge::choose(headers.clone()), wanted, "{headers:?}");
        }
    }

    #[test]
    fn what_is_no_challenge_is_none() {
        for header in [
            "",
            ",,,",
            "Bearer",
            "Bearer service=x",
            "Negotiate",
            "=",
            "\"",
            "a=\"\\",
        ] {
            assert_eq!(Challenge::choose([header]), None, "{header}");
        }
    }
}

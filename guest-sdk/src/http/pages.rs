//! Lists that come in pages, however the storage system names the next one: by a token, an offset, or a `Link` header (RFC 8288).

use crate::error::Error;
use crate::http::{Request, Response};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::iter;

impl Request {
    /// The pages of a list, each read as `P`. `parameter` says how the page after this one is asked for, as a parameter of the query; `None`: it was
    /// the last one. A token:
    ///
    /// ```
    /// # use wasmount_guest::{Error, http, testing};
    /// #[derive(serde::Deserialize)]
    /// struct Page {
    ///     volumes: Vec<String>,
    ///     next: Option<String>,
    /// }
    ///
    /// # testing::reset();
    /// # testing::http(|request| http::Response::new(200).with_body(match request.query_value("marker") {
    /// #     None => r#"{"volumes":["a","b"],"next":"b"}"#,
    /// #     Some(_) => r#"{"volumes":["c"],"next":null}"#,
    /// # }));
    /// let list = http::get("array", "/api/volumes").query("limit", 100);
    /// let mut names = Vec::new();
    /// for page in list.pages(|page: &Page| Some(("marker", page.next.clone()?))) {
    ///     names.extend(page?.volumes);
    /// }
    /// assert_eq!(names, ["a", "b", "c"]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// An offset, which the closure counts: `|page| { offset += page.len(); (!page.is_empty()).then(|| ("offset", offset.to_string())) }`.
    pub fn pages<P, F>(self, mut parameter: F) -> impl Iterator<Item = Result<P, Error>>
    where
        P: DeserializeOwned,
        F: FnMut(&P) -> Option<(&'static str, String)>,
    {
        each(self.clone(), move |request| {
            let page = request.load()?;
            let next = parameter(&page).map(|(name, value)| self.clone().query(name, value));
            Ok((page, next))
        })
    }

    /// The pages of a list whose answers name the next one by a header `Link: <..>; rel="next"`. Only path and query of the link are used.
    pub fn linked_pages<P: DeserializeOwned>(self) -> impl Iterator<Item = Result<P, Error>> {
        each(self, |request| {
            let answer = request.send()?.must_succeed()?;
            let target = next_link(&answer).and_then(|link| target(link, request));
            Ok((answer.json()?, target.map(|target| request.at(target))))
        })
    }
}

/// The pages of a list. `load` returns one, and the request of the next; `None` after the last. An error ends the list.
fn each<P>(
    first: Request,
    mut load: impl FnMut(&Request) -> Result<(P, Option<Request>), Error>,
) -> impl Iterator<Item = Result<P, Error>> {
    let (mut next, mut seen) = (Some(first), BTreeSet::new());
    iter::from_fn(move || {
        let request = next.take()?;
        let mut page = || -> Result<P, Error> {
            let (page, after) = load(&request)?;
            seen.insert(request.path_with_query());
            next = after.map(|after| onward(&seen, after)).transpose()?;
            Ok(page)
        };
        Some(page())
    })
}

/// A list that comes back to a page has no end.
fn onward(seen: &BTreeSet<String>, next: Request) -> Result<Request, Error> {
    if seen.contains(&next.path_with_query()) {
        let what = format!("the list of {next:?} does not end: its next page was read before");
        return Err(Error::internal(what));
    }
    Ok(next)
}

/// The target of the link to the next page.
fn next_link(answer: &Response) -> Option<&str> {
    let links = answer.header_values("link");
    links.into_iter().find_map(|mut links| {
        // By the brackets, since a target may hold commas.
        loop {
            let (_, link) = links.split_once('<')?;
            let (target, rest) = link.split_once('>')?;
            let parameters = rest.split('<').next().unwrap_or(rest);
            if parameters.split([';', ',']).any(is_next) {
                return Some(target);
            }
            links = rest;
        }
    })
}

/// Whether a parameter of a link is `rel=next` or `rel="last next"`.
fn is_next(parameter: &str) -> bool {
    let relations = parameter.trim().strip_prefix("rel=").unwrap_or_default();
    let mut relations = relations.trim_matches('"').split_whitespace();
    relations.any(|relation| relation.eq_ignore_ascii_case("next"))
}

/// Path and query of a link: absolute, or relative to the request.
fn target(link: &str, request: &Request) -> Option<String> {
    let link = match link.split_once("://") {
        // Otherwise it is in the path or in the query.
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
            rest.find('/').and_then(|start| rest.get(start..))?
        }
        _ => link,
    };
    let path = request.path();
    Some(match link.chars().next()? {
        '/' => link.to_owned(),
        '?' => format!("{path}{link}"),
        _ => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{link}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::{http, testing};

    fn collected<P>(pages: impl Iterator<Item = Result<Vec<P>, Error>>) -> Result<Vec<P>, Error> {
        let pages: Vec<_> = pages.collect::<Result<_, _>>()?;
        Ok(pages.into_iter().flatten().collect())
    }

    #[test]
    fn a_list_by_offset_ends_at_an_empty_page() {
        testing::reset();
        testing::http(|request| {
            let offset = request
                .query_value("offset")
                .map_or(0, |it| it.parse().unwrap());
            let page: Vec<u64> = (offset..5).take(2).collect();
            http::Response::new(200).with_json(&page)
        });
        let mut offset = 0;
        let all = http::get("array", "/list").pages(|page: &Vec<u64>| {
            offset += page.len();
            (!page.is_empty()).then(|| ("offset", offset.to_string()))
        });
        assert_eq!(collected(all), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(
            testing::requests(),
            [
                "GET array/list",
                "GET array/list?offset=2",
                "GET array/list?offset=4",
                "GET array/list?offset=5"
            ]
        );
    }

    #[test]
    fn a_list_by_links_follows_path_and_query_of_each() {
        testing::reset();
        testing::http(|request| {
            let (page, link) = match request.path_with_query().as_str() {
                "/v3/list?limit=1" => (1, "<https://10.0.0.1:8443/v3/list?m=a>; rel=\"next\""),
                "/v3/list?m=a" => (2, "</v3/list>; rel=first, <?m=b,c>; title=x; rel=next"),
                "/v3/list?m=b,c" => (3, "<list?m=c>; rel=\"last next\""),
                "/v3/list?m=c" => (4, "</v3/list?m=a://b/c>; rel=next"),
                "/v3/list?m=a://b/c" => (5, "<?m=d://e/f>; rel=next"),
                "/v3/list?m=d://e/f" => (6, "</v3/list>; rel=\"prev\""),
                other => panic!("{other} is no page"),
            };
            http::Response::new(200)
                .with_json(&[page])
                .with_header("Link", "</help>; rel=help")
                .with_header("Link", link)
        });
        let all = http::get("array", "/v3/list")
            .query("limit", 1)
            .linked_pages();
        assert_eq!(collected::<u64>(all), Ok(vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn a_list_without_an_end_is_an_error() {
        testing::reset();
        testing::http(|_| {
            let answer = http::Response::new(200).with_json(&[1]);
            answer.with_header("link", "</list?m=a>; rel=next")
        });
        let linked = http::get("array", "/list").linked_pages();
        let code = collected::<u64>(linked).map_err(|error| error.code);
        assert_eq!(code, Err(Code::Internal));
        assert_eq!(
            testing::requests(),
            ["GET array/list", "GET array/list?m=a"]
        );
        let same = |_: &Vec<u64>| Some(("marker", "a".to_owned()));
        let by_token = collected(http::get("array", "/list").pages(same));
        assert_eq!(by_token.map_err(|error| error.code), Err(Code::Internal));
    }

    #[test]
    fn a_list_that_comes_back_to_a_page_is_an_error() {
        testing::reset();
        testing::http(|request| {
            let next = match request.path_with_query().as_str() {
                "/list?m=a" => "<?m=b>; rel=next",
                _ => "<?m=a>; rel=next",
            };
            let answer = http::Response::new(200).with_json(&[1]);
            answer.with_header("link", next)
        });
        let linked = http::get("array", "/list").linked_pages();
        let code = collected::<u64>(linked).map_err(|error| error.code);
        assert_eq!(code, Err(Code::Internal));
        assert_eq!(
            testing::requests(),
            ["GET array/list", "GET array/list?m=a", "GET array/list?m=b"]
        );
    }

    #[test]
    fn a_page_that_fails_ends_the_list() {
        testing::reset();
        testing::http(|_| http::Response::new(503));
        let mut pages = http::get("array", "/list").linked_pages::<Vec<u64>>();
        let first = pages.next().map(|page| page.map_err(|error| error.code));
        assert_eq!(first, Some(Err(Code::Unavailable)));
        assert!(pages.next().is_none());
    }
}

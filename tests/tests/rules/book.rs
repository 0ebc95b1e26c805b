//! The book of `docs/`: mdBook builds it, every page is in its summary, and every internal link leads to a page and an anchor that exist.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use mdbook_driver::MDBook;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use xtask::workspace::Workspace;

/// The list of pages, which is no page itself.
const SUMMARY: &str = "SUMMARY.md";
/// The fewest internal links of the book: fewer were misread.
const LINKS: usize = 200;

/// What the check needs of a page.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Collects them while html5ever reads the page.
#[derive(Default)]
struct Collector(RefCell<Page>);

impl TokenSink for Collector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token {
            let mut page = self.0.borrow_mut();
            for attribute in tag.attrs {
                let value = attribute.value.to_string();
                match attribute.name.local.as_ref() {
                    "href" | "src" => page.links.push(value),
                    "id" => drop(page.anchors.insert(value)),
                    _ => {}
                }
            }
        }
        TokenSinkResult::Continue
    }
}

fn read(html: &str) -> Page {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Collector::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

/// The pages of a book that was built, by their file names. No page lies in a folder.
fn pages(built: &Path) -> BTreeMap<PathBuf, Page> {
    fs::read_dir(built)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "html"))
        .map(|path| {
            let page = read(&fs::read_to_string(&path).unwrap());
            (path.file_name().unwrap().into(), page)
        })
        .collect()
}

fn is_external(link: &str) -> bool {
    ["http://", "https://", "mailto:", "data:"]
        .iter()
        .any(|scheme| link.starts_with(scheme))
}

/// Whether the link of a page leads somewhere inside of the book.
fn leads(built: &Path, pages: &BTreeMap<PathBuf, Page>, from: &Path, link: &str) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() {
        from
    } else {
        Path::new(path)
    };
    let inside = target
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    inside
        && match pages.get(target) {
            Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
            None => anchor.is_empty() && built.join(target).is_file(),
        }
}

/// Internal links that lead nowhere, and how many internal links there are.
fn broken(built: &Path) -> (BTreeSet<String>, usize) {
    let pages = pages(built);
    let internal: Vec<(&PathBuf, &String)> = pages
        .iter()
        .flat_map(|(from, page)| page.links.iter().map(move |link| (from, link)))
        .filter(|(_, link)| !is_external(link))
        .collect();
    let broken = internal
        .iter()
        .filter(|(from, link)| !leads(built, &pages, from, link))
        .map(|(from, link)| format!("{}: {link}", from.display()))
        .collect();
    (broken, internal.len())
}

/// Builds the book that lies at `root` into a directory of its own.
fn build(root: &Path) -> tempfile::TempDir {
    let built = tempfile::tempdir().unwrap();
    let mut book = MDBook::load(root).unwrap();
    book.config.build.build_dir = built.path().to_owned();
    book.build().unwrap();
    built
}

#[test]
fn the_book_builds_and_its_links_lead_somewhere() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let built = build(&root);
    let (broken, all) = broken(built.path());
    assert!(all >= LINKS, "found only {all} links");
    assert!(
        broken.is_empty(),
        "no such page or anchor in the book; name files of the repository by their path instead: {broken:#?}"
    );
}

#[test]
fn every_page_of_docs_is_in_the_summary() {
    let docs = Workspace::locate().unwrap().root().join("docs");
    let summary = fs::read_to_string(docs.join(SUMMARY)).unwrap();
    let absent: Vec<_> = fs::read_dir(&docs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != SUMMARY)
        .filter(|name| !summary.contains(&format!("]({name})")))
        .collect();
    assert!(absent.is_empty(), "add to docs/{SUMMARY}: {absent:?}");
}

#[test]
fn broken_links_of_a_book_are_found() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("src");
    fs::create_dir(&source).unwrap();
    fs::write(source.join(SUMMARY), "- [A](a.md)\n- [B](b.md)\n").unwrap();
    fs::write(source.join("b.md"), "# B\n\n## Two words\n").unwrap();
    fs::write(source.join("picture.svg"), "<svg/>").unwrap();
    let good = "[b](b.md) [c](b.md#two-words) [d](#a) [e](https://example.com/x) ![f](picture.svg)";
    let bad = "[g](b.md#none) [h](#none) [i](c.md) [j](../secret.md) ![k](none.svg)";
    fs::write(source.join("a.md"), format!("# A\n\n{good}\n\n{bad}\n")).unwrap();
    let options = "[output.html]\nprint.enable = false\ninput-404 = \"\"\n";
    fs::write(root.path().join("book.toml"), options).unwrap();
    let built = build(root.path());
    // The first page is the index too.
    let (found, _) = broken(built.path());
    let of_a: Vec<_> = found
        .iter()
        .filter_map(|it| it.strip_prefix("a.html: "))
        .collect();
    let expected = [
        "#none",
        "../secret.html",
        "b.html#none",
        "c.html",
        "none.svg",
    ];
    assert_eq!(of_a, expected);
    let of_others = found.iter().filter(|it| !it.starts_with("a.html: "));
    assert!(
        of_others.clone().all(|it| it.starts_with("index.html: ")),
        "{found:?}"
    );
}

#[test]
fn a_missing_page_of_the_summary_fails_the_build() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("src")).unwrap();
    fs::write(root.path().join("src").join(SUMMARY), "- [A](a.md)\n").unwrap();
    let options = "[build]\ncreate-missing = false\n";
    fs::write(root.path().join("book.toml"), options).unwrap();
    assert!(MDBook::load(root.path()).is_err());
}

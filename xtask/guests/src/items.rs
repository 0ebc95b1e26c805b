//! The items of a contract, interface by interface: what must not change once it is frozen.

use crate::files::digest;
use std::collections::{BTreeMap, BTreeSet};
use wit_component::{OutputToString, WitPrinter};
use wit_parser::Resolve;
use xtask::failure::Failure;

/// The types, uses and functions of each interface, as canonical text: without comments, and in an order of their own. Worlds do not count: they are
/// for generators, and may be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Items(BTreeMap<String, BTreeSet<String>>);

impl Items {
    /// Those of a text of the contract.
    pub fn of(wit: &str) -> Result<Self, Failure> {
        let blocks = blocks(&print(wit, false)?);
        let interfaces = blocks.into_iter().filter_map(|block| {
            let name = block.title.strip_prefix(INTERFACE)?.to_owned();
            let items = block.items.iter();
            let items = items.map(|item| item.lines.iter().map(|line| line.trim()).collect());
            let items = items.map(|lines: Vec<_>| lines.join(" "));
            Some((name, items.collect()))
        });
        Ok(Self(interfaces.collect()))
    }

    /// A digest of each interface.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let interfaces = self.0.iter().map(|(name, items)| {
            let text: String = items.iter().map(|item| format!("{item}\n")).collect();
            (name.clone(), digest(text.as_bytes()))
        });
        interfaces.collect()
    }

    /// Each interface that differs in a later text: what is gone, and what is new. Interfaces that are new are not among them.
    pub fn changes(&self, later: &Self) -> BTreeMap<String, Change> {
        let none = BTreeSet::new();
        let changes = self.0.iter().filter_map(|(name, items)| {
            let now = later.0.get(name).unwrap_or(&none);
            let change = Change {
                gone: items.difference(now).cloned().collect(),
                new: now.difference(items).cloned().collect(),
            };
            (now != items).then(|| (name.clone(), change))
        });
        changes.collect()
    }
}

/// How an interface differs from an earlier text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Items that are not there any more, or not as they were.
    pub gone: Vec<String>,
    /// Items that were not there before, or not like this.
    pub new: Vec<String>,
}

/// Before the name, in the title of an interface.
const INTERFACE: &str = "interface ";
/// The indentation of items in printed WIT.
const ITEM_DEPTH: usize = 2;
/// The beginning of a line of documentation.
const DOCS: &str = "///";

/// An interface or a world in printed WIT.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Such as `interface pool`.
    pub(crate) title: String,
    /// The lines of its documentation.
    pub(crate) docs: Vec<String>,
    pub(crate) items: Vec<Item>,
}

/// A type, a use or a function of an interface; an import or an export of a world.
#[derive(Debug, Default)]
pub(crate) struct Item {
    /// The lines of its documentation.
    pub(crate) docs: Vec<String>,
    /// Its own lines.
    pub(crate) lines: Vec<String>,
}

/// The contract as the printer writes it, whatever the layout of the source.
pub(crate) fn print(wit: &str, with_docs: bool) -> Result<String, Failure> {
    let mut resolve = Resolve::default();
    let mut printer = WitPrinter::new(OutputToString::default());
    printer.emit_docs(with_docs);
    let printed = resolve
        .push_str("the contract", wit)
        .and_then(|package| printer.print(&resolve, package, &[]));
    printed.map_err(|error| Failure::Unexpected(format!("the contract is no WIT: {error:#}")))?;
    Ok(printer.output.to_string())
}

/// The interfaces and worlds of printed WIT. Items begin at one depth, and end with `;` at that depth or with `}`. Documentation of the package comes
/// as a block of the package.
pub(crate) fn blocks(printed: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut docs, mut item) = (Vec::new(), Item::default());
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let text = line.trim();
        match text.strip_prefix(DOCS) {
            Some(words) if depth <= ITEM_DEPTH => docs.push(words.to_owned()),
            _ if depth == 0 => {
                let title = text.trim_end_matches([' ', '{', ';']).to_owned();
                if title != "}" {
                    let docs = std::mem::take(&mut docs);
                    blocks.push(Block {
                        title,
                        docs,
                        ..Block::default()
                    });
                }
            }
            _ => {
                if item.lines.is_empty() {
                    item.docs = std::mem::take(&mut docs);
                }
                item.lines.push(line.to_owned());
                if depth == ITEM_DEPTH
                    && !text.ends_with('{')
                    && let Some(block) = blocks.last_mut()
                {
                    block.items.push(std::mem::take(&mut item));
                }
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: &str = "package a:b@0.1.0;
        interface types { record error { code: u8 } record extent { size: u64 } }
        /// Words.
        interface pool {
            use types.{error};
            /// Words.
            enum kind { image, directory }
            stat: func(path: string) -> result<option<kind>, error>;
        }
        world plugin { import types; }";

    fn after(before: &str, after: &str) -> (Items, Items) {
        let changed = RELEASED.replace(before, after);
        assert_ne!(changed, RELEASED);
        (Items::of(RELEASED).unwrap(), Items::of(&changed).unwrap())
    }

    #[test]
    fn items_are_types_uses_and_functions_of_interfaces() {
        let items = Items::of(RELEASED).unwrap().0;
        let pool: Vec<_> = items["pool"].iter().map(String::as_str).collect();
        assert_eq!(
            pool,
            [
                "enum kind { image, directory, }",
                "stat: func(path: string) -> result<option<kind>, error>;",
                "use types.{error};",
            ]
        );
        let types: Vec<_> = items["types"].iter().map(String::as_str).collect();
        assert_eq!(
            types,
            ["record error { code: u8, }", "record extent { size: u64, }",]
        );
        assert_eq!(items.len(), 2);
    }

    #[test]
    fn a_new_interface_and_other_comments_are_no_change() {
        for (before, changed) in [
            ("/// Words.", "/// Other words."),
            (
                "world plugin {",
                "interface more { free: func() -> u64; } world plugin {",
            ),
            (
                "record error { code: u8 } record extent { size: u64 }",
                "record extent { size: u64 } record error { code: u8 }",
            ),
        ] {
            let (released, now) = after(before, changed);
            assert!(released.changes(&now).is_empty(), "{changed}");
            let (before, now) = (released.digests(), now.digests());
            assert!(before.iter().all(|(name, digest)| now[name] == *digest));
        }
    }

    #[test]
    fn every_change_of_an_interface_is_found() {
        for (before, changed, interface, gone, new) in [
            // A field of another type, and one more field.
            (
                "code: u8",
                "code: u16",
                "types",
                &["record error { code: u8, }"][..],
                &["record error { code: u16, }"][..],
            ),
            (
                "code: u8",
                "code: u8, why: string",
                "types",
                &["record error { code: u8, }"],
                &["record error { code: u8, why: string, }"],
            ),
            // A case that was removed, one that was added, and another order.
            (
                "image, directory",
                "image",
                "pool",
                &["enum kind { image, directory, }"],
                &["enum kind { image, }"],
            ),
            (
                "image, directory",
                "image, directory, other",
                "pool",
                &["enum kind { image, directory, }"],
                &["enum kind { image, directory, other, }"],
            ),
            (
                "image, directory",
                "directory, image",
                "pool",
                &["enum kind { image, directory, }"],
                &["enum kind { directory, image, }"],
            ),
            // A new function, a parameter with another name, and a function that was removed.
            (
                "stat:",
                "free: func() -> u64; stat:",
                "pool",
                &[],
                &["free: func() -> u64;"],
            ),
            (
                "path: string",
                "name: string",
                "pool",
                &["stat: func(path: string) -> result<option<kind>, error>;"],
                &["stat: func(name: string) -> result<option<kind>, error>;"],
            ),
            (
                "stat: func(path: string) -> result<option<kind>, error>;",
                "",
                "pool",
                &["stat: func(path: string) -> result<option<kind>, error>;"],
                &[],
            ),
            // A type of its own in place of one that is shared.
            (
                "use types.{error};",
                "record error { code: u8 }",
                "pool",
                &["use types.{error};"],
                &["record error { code: u8, }"],
            ),
        ] {
            let (released, now) = after(before, changed);
            let change = Change {
                gone: gone.iter().map(|item| (*item).to_owned()).collect(),
                new: new.iter().map(|item| (*item).to_owned()).collect(),
            };
            let expected = BTreeMap::from([(interface.to_owned(), change)]);
            assert_eq!(released.changes(&now), expected, "{changed}");
            assert_ne!(released.digests()[interface], now.digests()[interface]);
        }
    }

    #[test]
    fn an_interface_that_is_gone_is_a_change() {
        let (released, now) = after("interface pool {", "interface pools {");
        let changes = released.changes(&now);
        assert_eq!(changes.keys().collect::<Vec<_>>(), ["pool"]);
        assert_eq!(changes["pool"].gone.len(), 3);
    }

    #[test]
    fn a_text_that_does_not_parse_is_refused() {
        let refused = Items::of("package a:b; interface {").unwrap_err();
        assert!(refused.to_string().contains("the contract is no WIT"));
    }
}

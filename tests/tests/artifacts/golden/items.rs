//! The items of a contract: what must not change after a release.

use std::collections::BTreeSet;
use wit_component::{OutputToString, WitPrinter};
use wit_parser::Resolve;

/// Every type, alias and function of every interface of a contract, without its comments: these must not change after a release.
pub(crate) fn contract_items(wit: &str) -> BTreeSet<String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("the contract", wit).unwrap();
    let mut printer = WitPrinter::new(OutputToString::default());
    printer.emit_docs(false);
    printer.print(&resolve, package, &[]).unwrap();
    items(&printer.output.to_string())
}

/// The items of printed WIT. All start at one depth, and end with `;` at that depth or with `}`.
fn items(printed: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let mut interface = None;
    let mut item = String::new();
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let text = line.trim();
        if depth == 0 {
            interface = text
                .strip_prefix("interface ")
                .and_then(|rest| rest.strip_suffix(" {"));
            continue;
        }
        // Worlds are only for generators: they may be extended.
        let Some(interface) = interface else {
            continue;
        };
        item.push_str(text);
        if depth > ITEM_DEPTH || text.ends_with('{') {
            item.push(' ');
            continue;
        }
        items.extend(names(&item).map(|item| format!("{interface}: {item}")));
        item.clear();
    }
    items
}

/// The indentation of items in printed WIT.
const ITEM_DEPTH: usize = 2;

/// `use types.{error, extent};` may be extended by a name, so each name is an item; every other line is one item.
fn names(item: &str) -> impl Iterator<Item = String> {
    let used = item
        .strip_prefix("use ")
        .and_then(|rest| rest.strip_suffix("};"))
        .and_then(|rest| rest.split_once(".{"));
    let items: Vec<_> = match used {
        Some((from, names)) => names
            .split(", ")
            .map(|name| format!("use {from}.{{{name}}};"))
            .collect(),
        None => vec![item.to_owned()],
    };
    items.into_iter()
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
        world plugin { import pool; }";

    fn lost(before: &str, after: &str) -> Vec<String> {
        let changed = RELEASED.replace(before, after);
        assert_ne!(changed, RELEASED);
        let now = contract_items(&changed);
        let released = contract_items(RELEASED);
        released.difference(&now).cloned().collect()
    }

    #[test]
    fn items_are_types_uses_and_functions_of_interfaces() {
        let items = contract_items(RELEASED);
        assert_eq!(
            items.into_iter().collect::<Vec<_>>(),
            [
                "pool: enum kind { image, directory, }",
                "pool: stat: func(path: string) -> result<option<kind>, error>;",
                "pool: use types.{error};",
                "types: record error { code: u8, }",
                "types: record extent { size: u64, }",
            ]
        );
    }

    #[test]
    fn growth_and_other_comments_lose_nothing() {
        for (before, after) in [
            ("/// Words.", "/// Other words."),
            ("enum kind", "free: func() -> u64; enum kind"),
            ("{error}", "{error, extent}"),
            (
                "world plugin {",
                "interface more {} world plugin { import more;",
            ),
        ] {
            assert_eq!(lost(before, after), [""; 0], "{after}");
        }
    }

    #[test]
    fn a_change_loses_what_it_changed() {
        for (before, after, item) in [
            ("code: u8", "code: u16", "types: record error { code: u8, }"),
            (
                "image, directory",
                "image, directory, other",
                "pool: enum kind { image, directory, }",
            ),
            (
                "path: string",
                "name: string",
                "pool: stat: func(path: string) -> result<option<kind>, error>;",
            ),
            (
                "use types.{error};",
                "record error { code: u8 }",
                "pool: use types.{error};",
            ),
        ] {
            assert_eq!(lost(before, after), [item]);
        }
    }
}

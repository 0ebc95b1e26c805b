//! No circles of imports between the files of a crate: what acts may use plain data, and plain data uses nothing that acts.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::{Item, UseTree};
use xtask::workspace::Workspace;

/// A module by its path in the crate, such as `pool::ledger`; empty for the crate itself.
type Module = Vec<String>;

/// The modules that each module uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the modules of a crate. A module may use what it is part of, as in `use super::Node`.
fn uses(sources: &Path) -> Uses {
    let mut files = BTreeMap::new();
    read(sources, &Vec::new(), &mut files);
    let modules: BTreeSet<_> = files.keys().cloned().collect();
    let mut uses = Uses::new();
    for (module, paths) in files {
        let used = paths.iter().filter_map(|path| owner(path, &modules));
        let used = used.filter(|used| !module.starts_with(used)).collect();
        uses.insert(module, used);
    }
    uses
}

/// The paths that each file below a directory names, without its tests.
fn read(directory: &Path, module: &Module, files: &mut BTreeMap<Module, Vec<Module>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name == "tests" {
            continue;
        }
        let mut inner = module.clone();
        if path.is_dir() {
            inner.push(name.to_owned());
            read(&path, &inner, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            if !["lib", "main"].contains(&name) {
                inner.push(name.to_owned());
            }
            let text = fs::read_to_string(&path).unwrap();
            let paths = paths(&text, &inner);
            files.insert(inner, paths);
        }
    }
}

/// The paths into its own crate that a file names in imports and in code.
fn paths(text: &str, module: &Module) -> Vec<Module> {
    let mut paths = Vec::new();
    for item in syn::parse_file(text).unwrap().items {
        match item {
            Item::Use(item) => named(&item.tree, &mut Vec::new(), &mut paths),
            Item::Mod(item) if item.ident == "tests" => {}
            item => in_code(quote::ToTokens::into_token_stream(item), &mut paths),
        }
    }
    let absolute = paths.into_iter().filter_map(|path| absolute(path, module));
    absolute.collect()
}

/// The leaves of one `use`.
fn named(tree: &UseTree, before: &mut Module, paths: &mut Vec<Module>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            named(&path.tree, before, paths);
            before.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                named(tree, before, paths);
            }
        }
        UseTree::Name(name) => paths.push([&before[..], &[name.ident.to_string()]].concat()),
        UseTree::Rename(name) => paths.push([&before[..], &[name.ident.to_string()]].concat()),
        UseTree::Glob(_) => paths.push(before.clone()),
    }
}

/// Paths that begin with `crate` or `super`, wherever they stand.
fn in_code(tokens: TokenStream, paths: &mut Vec<Module>) {
    let mut path = Module::new();
    let mut separators = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if separators == 2 || path.is_empty() => {
                path.push(word.to_string());
                separators = 0;
                continue;
            }
            TokenTree::Punct(sign) if sign.as_char() == ':' && !path.is_empty() => {
                separators += 1;
                continue;
            }
            TokenTree::Group(group) => in_code(group.stream(), paths),
            TokenTree::Ident(word) => {
                paths.push(std::mem::replace(&mut path, vec![word.to_string()]));
                separators = 0;
                continue;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        paths.push(std::mem::take(&mut path));
        separators = 0;
    }
    paths.push(path);
}

/// A path from the top of the crate; none: it leads elsewhere, or to the module itself.
fn absolute(path: Module, module: &Module) -> Option<Module> {
    let outwards = path.iter().take_while(|word| *word == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("super") => {
            let above = module.get(..module.len().checked_sub(outwards)?)?;
            Some([above, &path[outwards..]].concat())
        }
        _ => None,
    }
}

/// The module that a path is in.
fn owner(path: &Module, modules: &BTreeSet<Module>) -> Option<Module> {
    let lengths = (1..=path.len()).rev();
    let mut prefixes = lengths.map(|length| path[..length].to_vec());
    prefixes.find(|prefix| modules.contains(prefix))
}

/// One circle, if there is one: modules of which each uses the next, and the last the first.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    fn walk<'a>(
        module: &'a Module,
        uses: &'a Uses,
        way: &mut Vec<&'a Module>,
        done: &mut BTreeSet<&'a Module>,
    ) -> Option<Vec<String>> {
        if let Some(begin) = way.iter().position(|it| *it == module) {
            return Some(way[begin..].iter().map(|it| it.join("::")).collect());
        }
        if done.contains(module) {
            return None;
        }
        way.push(module);
        let found = uses[module]
            .iter()
            .find_map(|used| walk(used, uses, way, done));
        way.pop();
        done.insert(module);
        found
    }
    let mut done = BTreeSet::new();
    let mut modules = uses.keys();
    modules.find_map(|module| walk(module, uses, &mut Vec::new(), &mut done))
}

#[test]
fn no_crate_of_the_host_has_a_circle_of_imports() {
    let root = Workspace::locate().unwrap().root().join("host");
    for entry in fs::read_dir(root).unwrap() {
        let sources = entry.unwrap().path().join("src");
        let uses = uses(&sources);
        assert!(uses.len() > 1, "{}: too few files", sources.display());
        assert_eq!(
            circle(&uses),
            None,
            "{}: move what they share into a file of plain data",
            sources.display()
        );
    }
}

#[test]
fn a_circle_of_imports_is_found_in_imports_and_in_code() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use super::{b::B, c}; struct A;");
    write("b.rs", "struct B; fn b() { x(|| crate::c::f()) }");
    write("c.rs", "fn f() {} mod tests { use crate::a::A; }");
    assert_eq!(circle(&uses(directory.path())), None);
    write("c.rs", "fn f() -> Option<super::a::A> { None }");
    let found = circle(&uses(directory.path())).unwrap();
    assert_eq!(found, ["a", "b", "c"]);
}

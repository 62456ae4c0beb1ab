//! The house that ARCHITECTURE.md describes: each room uses only rooms below it, and no modules use each other in a
//! circle.
//!
//! Reads the sources of every package. A module uses another one where its code, tests aside, names it or what is in it.
//! What a module only passes on (`pub use`) it does not use; who names it there uses the module that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// A package or a module of one, as the segments of its path: `tilewright`, `plan`, `verify`.
type Name = Vec<String>;

/// The sources of a module.
#[derive(Default)]
struct Module {
    /// Its file, from the root of the repository.
    file: PathBuf,
    /// What names mean that it imports, for itself and the modules inside of it, or passes on.
    exports: BTreeMap<String, Name>,
    /// The modules of which it imports or passes on everything.
    globs: Vec<Name>,
    /// The paths that its code names.
    paths: BTreeSet<Name>,
}

/// All modules of all packages, by name.
#[derive(Default)]
struct House {
    modules: BTreeMap<Name, Module>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn child(name: &Name, segment: &str) -> Name {
    name.iter().cloned().chain([segment.to_owned()]).collect()
}

// What the sources say.

/// The directories of all packages, with the name that code calls each by.
fn packages() -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let directories = entries.filter(|path| path.join("src").is_dir() && path.join("Cargo.toml").is_file());
    let mut packages: Vec<_> =
        directories.chain([root().to_owned()]).map(|d| (d.clone(), called(&d))).collect();
    packages.sort();
    packages
}

/// The name of a package's library.
fn called(directory: &Path) -> String {
    let manifest = read(&directory.join("Cargo.toml"));
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    match name.unwrap_or_else(|| panic!("{} has no name", directory.display())) {
        // What the workspace calls it.
        "tilewright-kernels" => "kernels".to_owned(),
        name => name.replace('-', "_"),
    }
}

impl House {
    fn read() -> House {
        let mut house = House::default();
        for (directory, package) in packages() {
            for file in ["src/lib.rs", "src/main.rs"] {
                let file = directory.join(file);
                if file.is_file() {
                    let name =
                        if file.ends_with("main.rs") { format!("{package}::main") } else { package.clone() };
                    house.add(vec![name], &file, file.parent().unwrap());
                }
            }
        }
        let names: BTreeSet<Name> = house.modules.keys().cloned().collect();
        for (name, module) in &mut house.modules {
            let paths = std::mem::take(&mut module.paths);
            module.paths = paths.into_iter().filter_map(|path| absolute(&names, name, path)).collect();
            let exports = std::mem::take(&mut module.exports);
            let exports =
                exports.into_iter().filter_map(|(n, path)| Some((n, absolute(&names, name, path)?)));
            module.exports = exports.collect();
            let globs = std::mem::take(&mut module.globs);
            module.globs = globs.into_iter().filter_map(|path| absolute(&names, name, path)).collect();
        }
        house
    }

    /// Reads a module and those that it declares; `below` is where their files are.
    fn add(&mut self, name: Name, file: &Path, below: &Path) {
        let syntax = syn::parse_file(&read(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let relative = file.strip_prefix(root()).unwrap().to_owned();
        let mut reader = Reader {
            module: Module { file: relative, ..Module::default() },
            declared: Vec::new(),
            inside: 0,
        };
        reader.visit_file(&syntax);
        for declared in reader.declared {
            let directory = below.join(&declared);
            let files = [below.join(format!("{declared}.rs")), directory.join("mod.rs")];
            if let Some(file) = files.iter().find(|file| file.is_file()) {
                self.add(child(&name, &declared), file, &directory);
            }
        }
        self.modules.insert(name, reader.module);
    }

    /// The module that a path from a package on leads to.
    fn resolve(&self, path: &[String], steps: usize) -> Option<Name> {
        let mut at: Name = vec![path.first()?.clone()];
        let mut module = self.modules.get(&at)?;
        for (i, segment) in path.iter().enumerate().skip(1) {
            let next = child(&at, segment);
            if let Some(found) = self.modules.get(&next) {
                (at, module) = (next, found);
                continue;
            }
            // Passed on: by its name, or with everything of a module that has it.
            let rest = |from: &Name| from.iter().chain(&path[i + 1..]).cloned().collect::<Name>();
            let named = module.exports.get(segment).map(&rest);
            let globs = module.globs.iter().filter(|glob| *glob != &at);
            let passed = named.into_iter().chain(globs.map(|glob| rest(&child(glob, segment))));
            let mut found = passed.filter(|_| steps > 0).filter_map(|path| self.resolve(&path, steps - 1));
            return found.next().or(Some(at));
        }
        Some(at)
    }

    /// The modules that each module uses.
    fn uses(&self) -> BTreeMap<&Name, BTreeSet<Name>> {
        let used = |(name, module): (&Name, &Module)| {
            module.paths.iter().filter_map(|path| self.resolve(path, 8)).filter(|used| used != name).collect()
        };
        self.modules.iter().map(|(name, module)| (name, used((name, module)))).collect()
    }
}

/// A path as code writes it, from a package on; none where it leads out of the house.
fn absolute(names: &BTreeSet<Name>, module: &Name, path: Name) -> Option<Name> {
    let package = |name: &str| names.contains(&vec![name.to_owned()]);
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => vec![module[0].clone()],
        "self" => module.clone(),
        "super" => module[..module.len() - 1].to_vec(),
        _ if names.contains(&child(module, first)) => child(module, first),
        name if package(name) => vec![name.to_owned()],
        _ => return None,
    };
    let ups = rest.iter().take_while(|segment| *segment == "super").count();
    base.truncate(base.len() - ups);
    base.extend(rest[ups..].iter().cloned());
    Some(base)
}

/// Collects what a file declares, passes on and names.
struct Reader {
    module: Module,
    declared: Vec<String>,
    /// How many modules inside of the file the code at hand is in; `super` there is the file's own module.
    inside: usize,
}

/// Whether an item is compiled for tests only.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|p| p.is_ident("test") || p.is_ident("doctest"))
    })
}

/// The paths of a tree of `use`; `*` and `self` at its ends are left out.
fn leaves(tree: &syn::UseTree, path: &Name, found: &mut Vec<(Name, Option<String>)>) {
    match tree {
        syn::UseTree::Path(tree) => leaves(&tree.tree, &child(path, &tree.ident.to_string()), found),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, found)),
        syn::UseTree::Glob(_) => found.push((path.clone(), None)),
        syn::UseTree::Name(name) if name.ident == "self" => found.push((path.clone(), path.last().cloned())),
        syn::UseTree::Name(name) => {
            found.push((child(path, &name.ident.to_string()), Some(name.ident.to_string())))
        }
        syn::UseTree::Rename(name) => {
            found.push((child(path, &name.ident.to_string()), Some(name.rename.to_string())));
        }
    }
}

impl Reader {
    fn name(&mut self, mut path: Name) {
        for _ in 0..self.inside {
            match path.first().map(String::as_str) {
                Some("super") => drop(path.remove(0)),
                // Of the module inside of the file, or of what it uses, which is seen there.
                Some("self") | None => return,
                _ => break,
            }
        }
        if self.inside > 0 && path.first().is_some_and(|first| first != "super" && first != "crate") {
            path.insert(0, "self".to_owned());
        }
        self.module.paths.insert(path);
    }

    /// The paths in the tokens of a macro.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree::{Group, Ident, Punct};
        let mut path: Name = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident.to_string()),
                Ident(ident) => {
                    self.end(&mut path);
                    path.push(ident.to_string());
                }
                Group(group) => {
                    self.end(&mut path);
                    self.tokens(group.stream());
                }
                _ => self.end(&mut path),
            }
            colons = 0;
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Name) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.name(path);
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let attributes = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Macro(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Trait(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if module.content.is_none() {
            self.declared.push(module.ident.to_string());
            return;
        }
        self.inside += 1;
        visit::visit_item_mod(self, module);
        self.inside -= 1;
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &Vec::new(), &mut found);
        let passed_on = !matches!(item.vis, syn::Visibility::Inherited) && self.inside == 0;
        for (path, name) in found {
            if !passed_on {
                self.name(path.clone());
            }
            match name {
                _ if self.inside > 0 => {}
                Some(name) => drop(self.module.exports.insert(name, path)),
                None => self.module.globs.push(path),
            }
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Name = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.name(segments);
        }
        visit::visit_path(self, path);
    }

    /// `pub(in path)` names no code.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

// What must hold.

/// The paths of a row, from the first cell of the table under "The house".
fn paths_of(row: &str) -> Vec<String> {
    let cell = row.split('|').nth(1).unwrap_or("");
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rooms, from the top of the house to its bottom; those of one row stand side by side.
fn rooms() -> Vec<Vec<String>> {
    let document = read(&root().join("ARCHITECTURE.md"));
    let section = document.split("\n## ").find(|section| section.starts_with("The house\n"));
    let rows =
        section.expect("a section that is called The house").lines().filter(|line| line.starts_with("| `"));
    let rooms: Vec<_> = rows.map(paths_of).collect();
    assert!(rooms.len() > 5, "a table of rooms: {rooms:?}");
    rooms
}

/// The row and the room of a file: the longest path that it is at or below; none for the roots of packages that have
/// rooms inside.
fn room<'a>(rooms: &'a [Vec<String>], file: &Path) -> Option<(usize, &'a str)> {
    let all = rooms.iter().enumerate().flat_map(|(i, row)| row.iter().map(move |room| (i, room.as_str())));
    all.filter(|(_, room)| file.starts_with(room)).max_by_key(|(_, room)| room.len())
}

#[test]
fn each_room_uses_only_rooms_below_it() {
    let (house, rooms) = (House::read(), rooms());
    let mut wrong = Vec::new();
    for room in rooms.iter().flatten().filter(|room| !root().join(room).exists()) {
        wrong.push(format!("ARCHITECTURE.md has a room {room}, which is not there"));
    }
    for (name, used) in house.uses() {
        let file = &house.modules[name].file;
        let Some((row, own)) = room(&rooms, file) else {
            if file != Path::new("src/lib.rs") {
                wrong.push(format!("{} is in no room", file.display()));
            }
            continue;
        };
        for used in used {
            let target = &house.modules[&used].file;
            match room(&rooms, target) {
                Some((below, other)) if below > row || other == own => {}
                _ => wrong.push(format!("{} uses {}", file.display(), target.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The drawing under the table has the same rooms in the same order.
#[test]
fn the_drawing_has_the_rooms_of_the_table() {
    let document = read(&root().join("ARCHITECTURE.md"));
    let drawing = document.split("```text\n").find(|block| block.contains("+--")).unwrap();
    let inside = drawing.split("```").next().unwrap().lines().filter_map(|line| line.split('|').nth(1));
    let words: Vec<&str> =
        inside.flat_map(str::split_whitespace).map(|word| word.trim_end_matches(':')).collect();
    let mut last = 0;
    for path in rooms().into_iter().flatten() {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap().trim_end_matches(".rs");
        let at = words[last..].iter().position(|word| *word == name);
        last += at.unwrap_or_else(|| panic!("the drawing lacks {path}, or has it above the rooms above it"));
    }
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let house = House::read();
    let uses = house.uses();
    let reached = |from: &Name| {
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        let mut left: Vec<&Name> = uses[from].iter().collect();
        while let Some(name) = left.pop() {
            if seen.insert(name) {
                left.extend(&uses[name]);
            }
        }
        seen
    };
    let reached: BTreeMap<&Name, BTreeSet<&Name>> = uses.keys().map(|name| (*name, reached(name))).collect();
    let mut wrong = Vec::new();
    for (name, used) in &uses {
        // Both ways round: the step from one to the other is part of a circle.
        for other in used.iter().filter(|other| reached[*other].contains(name)) {
            let [from, to] = [*name, other].map(|name| house.modules[name].file.display());
            wrong.push(format!("{from} uses {to}, which leads back to it"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The reading above, on code that is short enough to check by hand.
#[test]
fn names_are_read_as_the_compiler_reads_them() {
    let read = |code: &str| {
        let mut reader = Reader { module: Module::default(), declared: Vec::new(), inside: 0 };
        reader.visit_file(&syn::parse_str(code).unwrap());
        let paths = reader.module.paths.iter().map(|path| path.join("::")).collect::<Vec<_>>().join(" ");
        let exports = reader.module.exports.keys().cloned().collect::<Vec<_>>().join(" ");
        (reader.declared.join(" "), exports, paths)
    };
    let (declared, exports, paths) = read(
        "mod a; pub mod b; #[cfg(test)] mod c;
         pub use a::{X, Y as Z}; pub(crate) use b::*;
         use crate::{d::{self, E}, f};
         pub(in crate::y) fn g() -> h::I { super::j(); vec![crate::k::L; 2] }
         mod inside { use super::m::N; fn o() { super::super::p::q() } }
         #[cfg(test)] use crate::r; #[test] fn s() { t::u() }
         #[cfg(test)] mod tests { use crate::v; }
         /// crate::w
         const W: &str = \"crate::x\";",
    );
    assert_eq!((declared.as_str(), exports.as_str()), ("a b", "E X Z d f"));
    assert_eq!(paths, "crate::d crate::d::E crate::f crate::k::L h::I self::m::N super::j super::p::q");
}

/// A circle and a room used from below are found.
#[test]
fn paths_lead_through_what_is_passed_on() {
    let name = |path: &str| path.split("::").map(str::to_owned).collect::<Name>();
    let mut house = House::default();
    for path in ["a", "a::b", "a::b::c", "d"] {
        house.modules.insert(name(path), Module::default());
    }
    house.modules.get_mut(&name("a")).unwrap().exports.insert("X".into(), name("a::b::X"));
    house.modules.get_mut(&name("a::b")).unwrap().globs.push(name("a::b::c"));
    let names: BTreeSet<Name> = house.modules.keys().cloned().collect();
    let lead = |path: &str| house.resolve(&name(path), 8).map(|found| found.join("::"));
    assert_eq!(lead("a::b::c::Y").as_deref(), Some("a::b::c"));
    assert_eq!(lead("a::X").as_deref(), Some("a::b::c"));
    assert_eq!(lead("d::Z").as_deref(), Some("d"));
    assert_eq!(lead("std::fmt"), None);
    let from = |path: &str| absolute(&names, &name("a::b::c"), name(path)).map(|found| found.join("::"));
    assert_eq!(from("super::super::X").as_deref(), Some("a::X"));
    assert_eq!(from("crate::b").as_deref(), Some("a::b"));
    assert_eq!(from("std::fmt"), None);
}

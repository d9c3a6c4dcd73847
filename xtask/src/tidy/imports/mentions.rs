//! Paths that one source file names, read with `syn`; code for tests aside.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree, Visibility};

/// A path of names from the root of the crate.
pub(super) type Names = Vec<String>;

/// What one module, a file or a `mod` block, says of others.
#[derive(Default)]
pub(super) struct Mentions {
    /// Names that a `use` of any visibility binds here, and where they lead.
    pub(super) bound: BTreeMap<String, Names>,
    /// Modules whose names a glob brings here.
    pub(super) globs: Vec<Names>,
    /// Items defined here.
    pub(super) defined: Vec<String>,
    /// Paths that this module depends on, as absolute names where they begin with a keyword.
    pub(super) paths: Vec<Mention>,
    /// Modules declared here that exist for tests only.
    pub(super) test_modules: Vec<String>,
}

/// A path as it is written and as it counts from the root of the crate.
pub(super) struct Mention {
    pub(super) written: String,
    pub(super) names: Names,
}

/// Reads a file; the answer has an entry for the file's module and for each `mod` block in it.
pub(super) fn read(module: &Names, text: &str) -> syn::Result<BTreeMap<Names, Mentions>> {
    let file = syn::parse_file(text)?;
    let mut reader = Reader { here: module.clone(), modules: BTreeMap::new() };
    reader.modules.insert(module.clone(), Mentions::default());
    reader.visit_file(&file);
    Ok(reader.modules)
}

struct Reader {
    here: Names,
    modules: BTreeMap<Names, Mentions>,
}

impl Reader {
    fn current(&mut self) -> &mut Mentions {
        self.modules.entry(self.here.clone()).or_default()
    }

    /// Names from the root: of a path with a leading keyword, and else of one that begins here.
    fn absolute(&self, path: &[String]) -> Names {
        let mut base = self.here.clone();
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = others;
        }
        base.extend_from_slice(rest);
        base
    }

    fn mention(&mut self, path: &[String]) {
        let names = self.absolute(path);
        self.current().paths.push(Mention { written: path.join("::"), names });
    }

    /// Binds the leaves of a `use`; one that is private is an import as well.
    fn bind(&mut self, prefix: &[String], tree: &UseTree, visibility: &Visibility) {
        let is_import = matches!(visibility, Visibility::Inherited);
        let joined = |name: String| [prefix, &[name]].concat();
        match tree {
            UseTree::Path(path) => {
                self.bind(&joined(path.ident.to_string()), &path.tree, visibility);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.bind(prefix, tree, visibility));
            }
            UseTree::Glob(_) => {
                let names = self.absolute(prefix);
                self.current().globs.push(names);
                if is_import {
                    self.mention(&joined("*".to_owned()));
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                let bound = prefix.last().cloned().unwrap_or_default();
                self.bind_as(bound, prefix, is_import);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.bind_as(name.clone(), &joined(name), is_import);
            }
            UseTree::Rename(rename) => {
                let path = joined(rename.ident.to_string());
                self.bind_as(rename.rename.to_string(), &path, is_import);
            }
        }
    }

    fn bind_as(&mut self, name: String, path: &[String], is_import: bool) {
        let names = self.absolute(path);
        // `use child::Child as Child` and the like lead somewhere; `use serde` does not lead back.
        if names.last() != Some(&name) || names.len() != self.here.len() + 1 {
            self.current().bound.insert(name, names);
        }
        if is_import {
            self.mention(path);
        }
    }

    /// Paths of two names and more among the tokens of a macro's call, which `syn` cannot parse.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Names = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.end(&mut path);
                    path.push(ident.to_string());
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    self.scan(group.stream());
                }
                _ => self.end(&mut path),
            }
            colons = 0;
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Names) {
        if path.len() > 1 {
            self.mention(path);
        }
        path.clear();
    }
}

impl<'code> Visit<'code> for Reader {
    fn visit_item(&mut self, item: &'code Item) {
        if let Some(name) = defined(item) {
            self.current().defined.push(name);
        }
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        } else if let Item::Mod(module) = item {
            self.current().test_modules.push(module.ident.to_string());
        }
    }

    fn visit_impl_item(&mut self, item: &'code ImplItem) {
        let is_tested = matches!(item, ImplItem::Fn(function) if is_test(&function.attrs));
        if !is_tested {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'code syn::ItemMod) {
        if module.content.is_some() {
            self.here.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'code syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.bind(&[], &item.tree, &item.vis);
        }
    }

    fn visit_path(&mut self, path: &'code syn::Path) {
        if path.leading_colon.is_none() {
            let names: Names =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.mention(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'code syn::Macro) {
        visit::visit_macro(self, call);
        self.scan(call.tokens.clone());
    }
}

/// Whether an item is compiled for tests only.
pub(in crate::tidy) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|condition| condition.is_ident("test"))
    })
}

/// The attributes of an item of any kind that a test may be.
pub(in crate::tidy) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

//! Arguments packed in tuples: a way around the bound on their number.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{FnArg, ImplItem, Item, Pat, Signature, Type};

use super::imports::{attributes, is_test};
use super::shape;

/// Reports the functions of every crate that pack arguments, tests aside.
pub(super) fn check(root: &Path, files: &[PathBuf], faults: &mut Vec<String>) -> Result<()> {
    for file in files.iter().filter(|file| !shape::is_test(file)) {
        let name = file.strip_prefix(root).unwrap_or(file);
        if !name.starts_with("crates") {
            continue;
        }
        let functions = packed(&fs::read_to_string(file)?)
            .with_context(|| format!("{} does not parse", name.display()))?;
        faults.extend(functions.into_iter().map(|function| {
            format!("{}: `{function}` packs arguments in a tuple", name.display())
        }));
    }
    Ok(())
}

/// Functions of a file with a parameter of a tuple's type, or one that they take apart as a tuple.
/// Closures, to which iterators give pairs, and functions of traits, whose shape may be another
/// crate's, are free; so are references to tuples and collections of them.
pub(super) fn packed(text: &str) -> syn::Result<Vec<String>> {
    let mut reader = Reader { packed: Vec::new() };
    reader.visit_file(&syn::parse_file(text)?);
    Ok(reader.packed)
}

struct Reader {
    packed: Vec<String>,
}

impl<'code> Visit<'code> for Reader {
    fn visit_item(&mut self, item: &'code Item) {
        match item {
            _ if is_test(attributes(item)) => {}
            Item::Impl(block) if block.trait_.is_some() => {}
            Item::Trait(_) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'code ImplItem) {
        if !matches!(item, ImplItem::Fn(function) if is_test(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'code Signature) {
        let packs = |argument: &FnArg| {
            matches!(argument, FnArg::Typed(argument)
                if is_tuple(&argument.ty) || is_taken_apart(&argument.pat))
        };
        if signature.inputs.iter().any(packs) {
            self.packed.push(signature.ident.to_string());
        }
    }
}

fn is_tuple(argument: &Type) -> bool {
    match argument {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Paren(inner) => is_tuple(&inner.elem),
        Type::Group(inner) => is_tuple(&inner.elem),
        _ => false,
    }
}

fn is_taken_apart(argument: &Pat) -> bool {
    match argument {
        Pat::Tuple(tuple) => tuple.elems.len() > 1,
        Pat::Reference(inner) => is_taken_apart(&inner.pat),
        Pat::Paren(inner) => is_taken_apart(&inner.pat),
        _ => false,
    }
}

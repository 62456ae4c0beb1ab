//! Where the changes of a file go, and the file with all of them in it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Pat, ReturnType,
    Signature, Type,
};

/// A change as cargo-mutants lists it.
pub(crate) struct Change {
    /// What the environment chooses it by.
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) file: String,
    /// The kind of change: cargo-mutants calls it so.
    pub(crate) genre: String,
    /// What stands there instead.
    pub(crate) text: String,
    /// Lines and columns, counted from 1.
    pub(crate) span: [(usize, usize); 2],
}

/// A source with all of its changes, and which of them found their place. A change is an expression of its own beside what it
/// replaces, on a line of its own: a line that does not compile names the changes that are at fault.
pub(crate) fn with_changes(source: &str, changes: &[&Change]) -> (String, HashSet<usize>) {
    let mut by_span: HashMap<_, Vec<&Change>> = HashMap::new();
    changes.iter().for_each(|change| by_span.entry(change.span).or_default().push(change));
    let mut sites = Sites { source, by_span, insertions: Vec::new(), placed: HashSet::new() };
    sites.visit_file(&syn::parse_file(source).expect("a source that compiles"));
    let Sites { mut insertions, placed, .. } = sites;
    insertions.sort_by_key(|insertion| (insertion.at, insertion.rank));
    let (mut out, mut done) = (String::new(), 0);
    for Insertion { at, text, .. } in insertions {
        out.push_str(&source[done..at]);
        out.push_str(&text);
        done = at;
    }
    out.push_str(&source[done..]);
    (out, placed)
}

struct Insertion {
    at: usize,
    /// Among those of one place: what ends there first, the inner ones in front; then what begins, the outer ones in front.
    rank: (bool, isize),
    text: String,
}

struct Sites<'a> {
    source: &'a str,
    by_span: HashMap<[(usize, usize); 2], Vec<&'a Change>>,
    insertions: Vec<Insertion>,
    placed: HashSet<usize>,
}

/// A place as cargo-mutants counts.
fn place(at: LineColumn) -> (usize, usize) {
    (at.line, at.column + 1)
}

fn bytes(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}

/// Whether a condition binds names, which only stand where they are.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => matches!(both.op, BinOp::And(_)) && (binds(&both.left) || binds(&both.right)),
        _ => false,
    }
}

impl<'a> Sites<'a> {
    /// The changes of a kind that stand exactly here.
    fn of(&self, genre: &str, begin: Span, end: Span) -> Vec<&'a Change> {
        let found = self.by_span.get(&[place(begin.start()), place(end.end())]);
        found.into_iter().flatten().copied().filter(|change| change.genre == genre).collect()
    }

    /// A part of the source on one line.
    fn line(&self, part: &impl Spanned) -> String {
        let lines = self.source[bytes(part)].lines();
        lines.map(|line| line.split("//").next().unwrap_or_default().trim()).collect::<Vec<_>>().join(" ")
    }

    fn insert(&mut self, at: usize, rank: (bool, isize), text: String) {
        self.insertions.push(Insertion { at, rank, text });
    }

    fn insert_once(&mut self, at: usize, changes: &[&Change], text: impl Fn(&Change) -> String) {
        let all = changes.iter().map(|&change| format!("\n{}\n", text(change)));
        self.insert(at, (true, isize::MIN), all.collect());
        self.placed.extend(changes.iter().map(|change| change.id));
    }

    /// Each change beside an expression, of which one is evaluated.
    fn beside(&mut self, what: Range<usize>, changes: &[&Change], text: impl Fn(&Change) -> String) {
        if changes.is_empty() {
            return;
        }
        let one = |change: &&Change| format!("\nif {} {{ {} }} else\n", chosen(change), text(change));
        self.insert(
            what.start,
            (true, -(what.end as isize)),
            format!("({}{{(", changes.iter().map(one).collect::<String>()),
        );
        self.insert(what.end, (false, -(what.start as isize)), ")})".into());
        self.placed.extend(changes.iter().map(|change| change.id));
    }

    fn body(&mut self, signature: &Signature, block: &Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        if matches!(&signature.output, ReturnType::Type(_, to) if matches!(**to, Type::ImplTrait(_))) {
            // Such a function returns one type only.
            return;
        }
        let changes = self.of("FnValue", first.span(), last.span());
        self.insert_once(bytes(first).start, &changes, |c| {
            format!("if {} {{ return {}; }}", chosen(c), c.text)
        });
    }
}

fn chosen(change: &Change) -> String {
    format!("crate::mutant::chosen({})", change.id)
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.body(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.body(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_binary(&mut self, both: &'ast ExprBinary) {
        let changes = self.of("BinaryOperator", both.op.span(), both.op.span());
        if !binds(&both.left) && !binds(&both.right) {
            let [left, right] = [&both.left, &both.right].map(|side| self.line(side));
            self.beside(bytes(both), &changes, |change| format!("({left} {} {right})", change.text));
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let changes = self.of("UnaryOperator", unary.op.span(), unary.op.span());
        let inner = self.line(&unary.expr);
        self.beside(bytes(unary), &changes, |_| format!("({inner})"));
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, whole: &'ast ExprStruct) {
        for field in whole.rest.iter().flat_map(|_| &whole.fields) {
            // Their spans end behind a comma.
            let begin = place(field.span().start());
            let here =
                self.by_span.iter().filter(|(span, _)| span[0] == begin).flat_map(|(_, changes)| changes);
            let changes: Vec<_> = here.copied().filter(|change| change.genre == "StructField").collect();
            let (rest, syn::Member::Named(name)) = (self.line(&whole.rest), &field.member) else { continue };
            if field.colon_token.is_none() && !changes.is_empty() {
                self.insert(bytes(field).start, (true, isize::MIN), format!("{name}: "));
            }
            self.beside(bytes(&field.expr), &changes, |_| format!("({rest}).{name}"));
        }
        visit::visit_expr_struct(self, whole);
    }

    fn visit_expr_match(&mut self, whole: &'ast ExprMatch) {
        // Without an arm for all else, none can be left out.
        let all_else = whole.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)));
        for arm in &whole.arms {
            let gone = if all_else { self.of("MatchArm", arm.span(), arm.span()) } else { Vec::new() };
            match &arm.pat {
                Pat::Guard(pattern) if !binds(&pattern.guard) => {
                    let guard = &pattern.guard;
                    let changes = self.of("MatchArmGuard", guard.span(), guard.span());
                    let changes = [changes, gone].concat();
                    // An arm that is deleted has no text, and is as if its guard never held.
                    self.beside(bytes(guard), &changes, |c| {
                        if c.text.is_empty() { "false".into() } else { c.text.clone() }
                    });
                }
                Pat::Guard(_) => {}
                pattern => self.insert_once(bytes(pattern).end, &gone, |c| format!("if !{}", chosen(c))),
            }
        }
        visit::visit_expr_match(self, whole);
    }
}

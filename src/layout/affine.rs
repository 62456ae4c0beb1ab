//! Affine maps: sums of dimensions times constants, with floordiv, ceildiv and mod by constants.
//!
//! An expression is a list of operations in postfix order, so nothing here recurses, however deep the text was.

use std::fmt;

/// One step of an expression, on a stack of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Pushes dimension `d`.
    Dim(usize),
    /// Pushes a constant.
    Const(i64),
    /// Replaces the two topmost values by their sum.
    Add,
    /// Multiplies the topmost value.
    Mul(i64),
    /// Divides the topmost value, rounding down; the divisor is 1 or more.
    FloorDiv(i64),
    /// Divides the topmost value, rounding up; the divisor is 1 or more.
    CeilDiv(i64),
    /// Takes the remainder of the topmost value, 0 or more; the divisor is 1 or more.
    Mod(i64),
}

/// An affine expression. Constants are folded, so an expression without a dimension is a single [`Op::Const`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffineExpr {
    ops: Vec<Op>,
}

impl AffineExpr {
    /// Dimension `d`.
    pub fn dim(d: usize) -> AffineExpr {
        AffineExpr { ops: vec![Op::Dim(d)] }
    }

    /// The constant `c`.
    pub fn constant(c: i64) -> AffineExpr {
        AffineExpr { ops: vec![Op::Const(c)] }
    }

    /// Its value, if it contains no dimension.
    pub fn as_constant(&self) -> Option<i64> {
        match self.ops[..] {
            [Op::Const(c)] => Some(c),
            _ => None,
        }
    }

    /// The steps, in postfix order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The sum of both; `None` where two constants overflow.
    pub fn plus(mut self, other: AffineExpr) -> Option<AffineExpr> {
        if let (Some(a), Some(b)) = (self.as_constant(), other.as_constant()) {
            return Some(AffineExpr::constant(a.checked_add(b)?));
        }
        self.ops.extend(other.ops);
        self.ops.push(Op::Add);
        Some(self)
    }

    /// `self * factor`; `None` where a constant overflows.
    pub fn times(self, factor: i64) -> Option<AffineExpr> {
        self.apply(Op::Mul(factor))
    }

    /// `self floordiv divisor`; `None` for a divisor below 1.
    pub fn floordiv(self, divisor: i64) -> Option<AffineExpr> {
        self.apply(Op::FloorDiv(divisor))
    }

    /// `self ceildiv divisor`; `None` for a divisor below 1.
    pub fn ceildiv(self, divisor: i64) -> Option<AffineExpr> {
        self.apply(Op::CeilDiv(divisor))
    }

    /// `self mod divisor`; `None` for a divisor below 1.
    pub fn modulo(self, divisor: i64) -> Option<AffineExpr> {
        self.apply(Op::Mod(divisor))
    }

    fn apply(mut self, op: Op) -> Option<AffineExpr> {
        if let Op::FloorDiv(c) | Op::CeilDiv(c) | Op::Mod(c) = op
            && c < 1
        {
            return None;
        }
        if let Some(c) = self.as_constant() {
            return Some(AffineExpr::constant(unary(op, c)?));
        }
        self.ops.push(op);
        Some(self)
    }

    /// The value at an index; `None` if a step leaves the range of i64 or the index has too few dimensions.
    pub fn eval(&self, index: &[i64]) -> Option<i64> {
        let mut stack = Vec::new();
        for op in &self.ops {
            let value = match *op {
                Op::Dim(d) => *index.get(d)?,
                Op::Const(c) => c,
                Op::Add => {
                    let b: i64 = stack.pop()?;
                    stack.pop()?.checked_add(b)?
                }
                op => unary(op, stack.pop()?)?,
            };
            stack.push(value);
        }
        stack.pop()
    }

    /// The coefficient of each of `dims` dimensions, and the constant, if the expression is linear;
    /// `None` if it divides, or a coefficient leaves the range of i64.
    pub fn linear(&self, dims: usize) -> Option<(Vec<i64>, i64)> {
        let mut stack: Vec<(Vec<i64>, i64)> = Vec::new();
        for op in &self.ops {
            let term = match *op {
                Op::Dim(d) => {
                    let mut coefs = vec![0; dims];
                    *coefs.get_mut(d)? = 1;
                    (coefs, 0)
                }
                Op::Const(c) => (vec![0; dims], c),
                Op::Add => {
                    let (b, b0) = stack.pop()?;
                    let (mut a, a0) = stack.pop()?;
                    for (a, b) in a.iter_mut().zip(b) {
                        *a = a.checked_add(b)?;
                    }
                    (a, a0.checked_add(b0)?)
                }
                Op::Mul(factor) => {
                    let (mut a, a0) = stack.pop()?;
                    for a in &mut a {
                        *a = a.checked_mul(factor)?;
                    }
                    (a, a0.checked_mul(factor)?)
                }
                Op::FloorDiv(_) | Op::CeilDiv(_) | Op::Mod(_) => return None,
            };
            stack.push(term);
        }
        stack.pop()
    }

    /// Whether dimension `d` occurs.
    pub fn uses(&self, d: usize) -> bool {
        self.ops.contains(&Op::Dim(d))
    }
}

fn unary(op: Op, value: i64) -> Option<i64> {
    match op {
        Op::Mul(c) => value.checked_mul(c),
        Op::FloorDiv(c) if c > 0 => Some(value.div_euclid(c)),
        Op::CeilDiv(c) if c > 0 => Some(value.div_euclid(c) + i64::from(value.rem_euclid(c) != 0)),
        Op::Mod(c) if c > 0 => Some(value.rem_euclid(c)),
        _ => None,
    }
}

impl fmt::Display for AffineExpr {
    /// With dimensions named `d0`, `d1`, ..; no more parentheses than needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each entry: the text so far, and whether its last operation is a sum.
        let mut stack: Vec<(String, bool)> = Vec::new();
        for op in &self.ops {
            let entry = match *op {
                Op::Dim(d) => (format!("d{d}"), false),
                Op::Const(c) => (c.to_string(), false),
                Op::Add => {
                    let (right, right_is_sum) = stack.pop().ok_or(fmt::Error)?;
                    let (mut left, _) = stack.pop().ok_or(fmt::Error)?;
                    if right_is_sum {
                        left.extend([" + (", &right, ")"]);
                    } else if let Some(term) = right.strip_suffix(" * -1") {
                        left.extend([" - ", term]);
                    } else if let Some(constant) =
                        // Only what is a constant without its minus too: of -2^63 there is no positive one.
                        right.strip_prefix('-').filter(|c| c.parse::<i64>().is_ok())
                    {
                        left.extend([" - ", constant]);
                    } else {
                        left.extend([" + ", &right]);
                    }
                    (left, true)
                }
                op => {
                    let (operand, is_sum) = stack.pop().ok_or(fmt::Error)?;
                    let mut text = if is_sum { format!("({operand})") } else { operand };
                    text.push_str(&match op {
                        Op::FloorDiv(c) => format!(" floordiv {c}"),
                        Op::CeilDiv(c) => format!(" ceildiv {c}"),
                        Op::Mod(c) => format!(" mod {c}"),
                        Op::Mul(c) => format!(" * {c}"),
                        Op::Dim(_) | Op::Const(_) | Op::Add => return Err(fmt::Error),
                    });
                    (text, false)
                }
            };
            stack.push(entry);
        }
        f.write_str(&stack.pop().ok_or(fmt::Error)?.0)
    }
}

/// `(d0, d1) -> (d0 * 64 + d1, 0)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffineMap {
    dims: usize,
    results: Vec<AffineExpr>,
}

impl AffineMap {
    /// The map of `dims` dimensions to `results`; `None` if a result names a dimension that is not there.
    pub fn new(dims: usize, results: Vec<AffineExpr>) -> Option<AffineMap> {
        let known = |op: &Op| !matches!(op, Op::Dim(d) if *d >= dims);
        results.iter().all(|r| r.ops.iter().all(known)).then_some(AffineMap { dims, results })
    }

    /// Each dimension to itself.
    pub fn identity(dims: usize) -> AffineMap {
        AffineMap { dims, results: (0..dims).map(AffineExpr::dim).collect() }
    }

    /// Number of dimensions of an index.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// One expression for each dimension of the result.
    pub fn results(&self) -> &[AffineExpr] {
        &self.results
    }

    /// The image of an index; `None` where [`AffineExpr::eval`] is.
    pub fn eval(&self, index: &[i64]) -> Option<Vec<i64>> {
        self.results.iter().map(|r| r.eval(index)).collect()
    }
}

impl fmt::Display for AffineMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for d in 0..self.dims {
            write!(f, "{}d{d}", if d == 0 { "" } else { ", " })?;
        }
        f.write_str(") -> (")?;
        for (i, result) in self.results.iter().enumerate() {
            write!(f, "{}{result}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

//! Three tuples: `((4, 1024, 64), (65536, 64, 1), (64, 256, 1))`.

use std::fmt;

use crate::error::Result;
use crate::family::loops::ThreeTuple;
use crate::text::lexer::Cursor;

/// Reads the three tuples, parentheses included.
pub(in crate::text) fn three_tuple(cursor: &mut Cursor<'_>) -> Result<ThreeTuple> {
    cursor.expect("(", "before the three tuples")?;
    let start = cursor.start();
    let ranges = cursor.numbers("the ranges")?;
    cursor.mark("ranges", start);
    cursor.expect(",", "and the device strides after the ranges")?;
    let start = cursor.start();
    let device_strides = cursor.integers("the device strides")?;
    cursor.mark("device strides", start);
    cursor.expect(",", "and the host strides after the device strides")?;
    let start = cursor.start();
    let host_strides = cursor.integers("the host strides")?;
    cursor.mark("host strides", start);
    cursor.eat(",");
    cursor.expect(")", "after the three tuples")?;
    Ok(ThreeTuple::new(ranges, device_strides, host_strides))
}

/// Numbers as Python prints a tuple: `()`, `(40,)`, `(2, 3)`.
pub(in crate::text) struct Tuple<'a, T>(pub(in crate::text) &'a [T]);

impl<T: fmt::Display> fmt::Display for Tuple<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

impl fmt::Display for ThreeTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, host) = (Tuple(&self.device_strides), Tuple(&self.host_strides));
        write!(f, "({}, {device}, {host})", Tuple(&self.ranges))
    }
}

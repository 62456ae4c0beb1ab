//! Integer formats, and the scalar rule that casts whole numbers.

use super::number::Number;

/// An integer element format, little-endian; signed ones in two's complement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Integer {
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
}

impl Integer {
    /// Every format, signed ones first, widest first.
    pub const ALL: [Integer; 8] = [
        Integer::I64,
        Integer::I32,
        Integer::I16,
        Integer::I8,
        Integer::U64,
        Integer::U32,
        Integer::U16,
        Integer::U8,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Integer::I64 | Integer::U64 => 8,
            Integer::I32 | Integer::U32 => 4,
            Integer::I16 | Integer::U16 => 2,
            Integer::I8 | Integer::U8 => 1,
        }
    }

    /// The name used in messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Integer::I64 => "i64",
            Integer::I32 => "i32",
            Integer::I16 => "i16",
            Integer::I8 => "i8",
            Integer::U64 => "u64",
            Integer::U32 => "u32",
            Integer::U16 => "u16",
            Integer::U8 => "u8",
        }
    }

    /// The least and the greatest value.
    pub const fn range(self) -> (i128, i128) {
        let bits = 8 * self.size();
        match self {
            Integer::I64 | Integer::I32 | Integer::I16 | Integer::I8 => {
                (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            }
            _ => (0, (1 << bits) - 1),
        }
    }

    /// The value of a code; bits above the element are ignored.
    pub const fn decode(self, bits: u64) -> i128 {
        let above = 64 - 8 * self.size() as u32;
        match self {
            Integer::I64 | Integer::I32 | Integer::I16 | Integer::I8 => {
                (((bits << above) as i64) >> above) as i128
            }
            _ => (bits << above >> above) as i128,
        }
    }
}

/// A conversion of whole numbers: all there are that change an integer's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cast {
    /// From one integer format to another: the nearest value, which is the same one wherever it fits.
    Integer(Integer, Integer),
    /// From an integer to the nearest float, by way of the nearest `f32` (ties to even) unless that is narrower than the
    /// destination: `torch.Tensor.to` rounds 64-bit integers to `bfloat16` and `float16` so, twice.
    Value(Integer, Number),
    /// From bytes, of which 0 is false and any other is true, to the numbers 0 and 1.
    Truth(Number),
}

impl Cast {
    /// Bytes of a source element.
    pub const fn source_size(self) -> usize {
        match self {
            Cast::Integer(from, _) | Cast::Value(from, _) => from.size(),
            Cast::Truth(_) => 1,
        }
    }

    /// Bytes of a destination element.
    pub const fn size(self) -> usize {
        match self {
            Cast::Integer(_, to) => to.size(),
            Cast::Value(_, to) | Cast::Truth(to) => to.size(),
        }
    }

    /// The code that a source element becomes, and whether it has the element's value: the rule that every cast kernel follows.
    pub fn apply(self, bits: u64) -> (u64, bool) {
        match self {
            Cast::Integer(from, to) => {
                let (value, (least, greatest)) = (from.decode(bits), to.range());
                let nearest = value.clamp(least, greatest);
                (nearest as u64 & (!0 >> (64 - 8 * to.size())), nearest == value)
            }
            Cast::Value(from, to) => {
                let value = from.decode(bits);
                let value = if to == Number::F64 { value as f64 } else { f64::from(value as f32) };
                (to.encode(value), true)
            }
            Cast::Truth(to) => (to.encode(if bits & 0xFF == 0 { 0.0 } else { 1.0 }), true),
        }
    }
}

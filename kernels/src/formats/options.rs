//! What can be chosen about a block format beside the format itself and its tile.

/// How a significand that has been shifted to the shared exponent becomes a magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// As ttnn does on the host: to nearest, ties to even.
    #[default]
    Host,
    /// As the device's packer does on its precise path (`ttnn.typecast`): to 7 bits, ties away from zero, then cut to the
    /// format's width.
    Device,
    /// As the device's packer does by default (matmul, add, multiply, clone): each element is first cut to bfloat16 and
    /// rounded to 6 fraction bits, ties away from zero, where NaN becomes infinity and subnormals become 0; then as
    /// [`Rounding::Device`].
    DeviceOp,
    /// Cut to the format's width.
    Truncate,
}

/// What unpacking makes of the codes of block floats. MX formats have one rule only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Decoding {
    /// The exact value.
    #[default]
    Exact,
    /// As the device library's host code, which errs for shared exponents below 7 and of 255.
    Host,
    /// As the device's unpacker: magnitude 0 with a sign is minus infinity, and an exponent that normalising takes below 0
    /// wraps modulo 256. Known for 8-bit exponents; 5-bit ones follow the same rule.
    Device,
}

/// What can be chosen about a block codec beside format and tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockOptions {
    /// Store the transposed tile (tiles of 16 or 32 rows).
    pub transposed: bool,
    /// The rounding of block floats; MX formats have `Host` only (nearest, ties to even).
    pub rounding: Rounding,
    /// For `bfloat8_b` and `bfloat4_b`: take the exponent below the group's highest where that has the strictly smaller
    /// sum of squared errors (what is too large for it saturates). [`Rounding::DeviceOp`] searches after its first rounding.
    pub search: bool,
    /// Whether the numbers to be packed lie in bfloat16 registers of the device, where [`Rounding::Device`] takes a NaN for
    /// an infinity. In f32 registers it goes on where the finite numbers end.
    pub bf16_registers: bool,
    /// How block floats are unpacked.
    pub decoding: Decoding,
    /// MX formats in 1x32 tiles: store each as a block of the OCP text, row-major and without padding: the scale byte,
    /// then the codes at their own width (6 bits for the 6-bit floats), the first one in the lowest bits.
    pub compact: bool,
}

//! What can be chosen about a block format beside the format itself and its tile.

/// How a significand that has been shifted to the shared exponent becomes a magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// As ttnn does on the host: to nearest, ties to even.
    #[default]
    Host,
    /// As the device's packer does: to 7 bits, ties away from zero, then cut to the format's width.
    Device,
    /// Cut to the format's width.
    Truncate,
}

/// What can be chosen about a block codec beside format and tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockOptions {
    /// Store the transposed tile (tiles of 16 or 32 rows).
    pub transposed: bool,
    /// The rounding of block floats; MX formats have `Host` only (nearest, ties to even).
    pub rounding: Rounding,
    /// For `bfloat8_b` and `bfloat4_b`: take the exponent below the group's highest where that has the strictly smaller
    /// sum of squared errors (what is too large for it saturates).
    pub search: bool,
    /// Unpack as the device library's host code does, which errs for shared exponents below 7 and of 255.
    pub compat_unpack: bool,
    /// MX formats in 1x32 tiles: store each as a block of the OCP text, row-major and without padding: the scale byte,
    /// then the codes at their own width (6 bits for the 6-bit floats), the first one in the lowest bits.
    pub compact: bool,
}

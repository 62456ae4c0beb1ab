//! Who owns a place: the device, core, tile, face, stick, row and lane that its bits lie in.

use kernels::{BlockCodec, BlockOptions, TileShape};
use tilewright::Format;
use tilewright::layout::Tile;

use super::hardware::Hardware;

/// Bytes of a line of a cache, which is also a burst of memory.
pub(crate) const LINE: u64 = 64;

/// One digit of the number of a bit: all memory is cut into devices, these into cores, these into tiles, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// What the parts are called.
    pub name: &'static str,
    /// Bits of one part.
    pub bits: u64,
    /// Bits in front of the first part: the exponents or scales of a tile.
    pub header: u64,
    /// How many parts stand side by side, so that colours of neighbours differ; the parts fill rows of so many.
    pub wrap: u64,
    /// Whether a part is an owner, which has a colour and a border; rows and lanes are not.
    pub owner: bool,
}

/// The divisions of a layout's memory, the greatest first, and what else follows from its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// The divisions.
    pub divisions: Vec<Division>,
    /// Bits of all buffers.
    pub total_bits: u64,
    /// The codec of a block format.
    pub(crate) codec: Option<BlockCodec>,
}

impl Owners {
    /// The divisions of a layout.
    pub(crate) fn new(hardware: &Hardware<'_>) -> Owners {
        let layout = hardware.layout();
        let tile = tile(hardware);
        let codec = codec(layout.format(), tile);
        let mut owners = Owners { divisions: vec![], total_bits: 8 * layout.total_bytes(), codec };
        let (buffers, bytes) = (layout.buffers(), layout.buffer_bytes());
        let last = |shape: &[u64]| shape.last().copied().unwrap_or(1).max(1);
        let devices = hardware.devices();
        if devices > 1 {
            owners.push("device", 8 * bytes * (buffers / devices), hardware.mesh_columns());
        }
        if buffers > devices {
            let name =
                hardware.buffer(0).last().map_or("buffer", |t| if t.0 == "bank" { "bank" } else { "core" });
            owners.push(name, 8 * bytes, last(&layout.geometry().grid));
        }
        let paged = layout.pages().filter(|p| p.pitch < bytes);
        if let Some(pages) = paged {
            owners.push(if tile.is_some() { "tile" } else { "page" }, 8 * pages.pitch, 1);
        }
        match (tile, &layout.geometry().device_size) {
            (Some(tile), _) => owners.push_tile(tile, paged.is_some(), layout),
            (None, Some(size)) => owners.push_sticks(size, element_bits(layout.format())),
            (None, None) if paged.is_none() => {
                // Lines side by side are those of one row of the shard, or of the array.
                let row = layout.geometry().shard_shape.last().or(layout.shape().last()).copied();
                let bits = row.unwrap_or(1).saturating_mul(element_bits(layout.format()));
                owners.push("line", 8 * LINE, (bits / (8 * LINE)).max(1));
            }
            _ => {}
        }
        owners
    }

    fn push(&mut self, name: &'static str, bits: u64, wrap: u64) {
        self.divisions.push(Division { name, bits: bits.max(1), header: 0, wrap, owner: true });
    }

    fn push_tile(&mut self, tile: Tile, paged: bool, layout: &tilewright::Layout) {
        let (bits, header, block) = match &self.codec {
            Some(c) => (c.code_bits() as u64, 8 * c.header_bytes() as u64, 8 * c.tile_bytes() as u64),
            None => {
                let bits = element_bits(layout.format());
                (bits, 0, tile.elements() * bits)
            }
        };
        if tile.compact {
            self.push("block", block, 1);
            self.divisions.push(Division { name: "lane", bits, header, wrap: 1, owner: false });
            return;
        }
        let across = layout.geometry().shard_shape.last().map_or(1, |cols| cols / tile.cols);
        if !paged {
            self.push("tile", block, across.max(1));
        }
        // A transposed tile is stored with rows and columns exchanged.
        let (rows, cols) = if tile.transposed { (tile.cols, tile.rows) } else { (tile.rows, tile.cols) };
        let face = rows.min(16) * 16 * bits;
        self.divisions.push(Division { name: "face", bits: face, header, wrap: cols / 16, owner: true });
        for (name, bits) in [("row", 16 * bits), ("lane", bits)] {
            self.divisions.push(Division { name, bits, header: 0, wrap: 1, owner: false });
        }
    }

    /// Sticks: the innermost dimension of the device; a group is what lies along the dimension around it.
    fn push_sticks(&mut self, size: &[u64], bits: u64) {
        let Some((&stick, outer)) = size.split_last() else { return };
        if let Some((&sticks, around)) = outer.split_last() {
            self.push("group", sticks * stick * bits, around.last().copied().unwrap_or(1));
        }
        self.push("stick", stick * bits, 1);
        self.divisions.push(Division { name: "lane", bits, header: 0, wrap: 1, owner: false });
    }

    /// The number of each part that a bit lies in, the greatest part first, as far as it lies in one: the exponents of a
    /// tile lie in no face.
    pub fn parts(&self, bit: u64) -> Vec<u64> {
        let mut rest = bit;
        let mut parts = Vec::with_capacity(self.divisions.len());
        for division in &self.divisions {
            let Some(inside) = rest.checked_sub(division.header) else { break };
            parts.push(inside / division.bits);
            rest = inside % division.bits;
        }
        parts
    }

    /// The divisions that give a colour and its shade: the first two of which there are several.
    pub fn coloured(&self) -> Vec<usize> {
        let mut around = self.total_bits;
        let mut several = Vec::new();
        for (i, division) in self.divisions.iter().enumerate().filter(|d| d.1.owner) {
            if around.saturating_sub(division.header) > division.bits {
                several.push(i);
            }
            around = division.bits;
        }
        several
    }

    /// How many parts of a level there are in all memory.
    fn count(&self, level: usize) -> u64 {
        self.total_bits / self.divisions[level].bits
    }

    /// The place of a bit's owners among 7 colours and 4 shades.
    pub fn colour(&self, bit: u64) -> (u64, u64) {
        let (parts, coloured) = (self.parts(bit), self.coloured());
        let square = |k: usize| {
            let level = *coloured.get(k)?;
            let (n, wrap) = (*parts.get(level)?, self.divisions[level].wrap);
            Some((n / wrap, n % wrap))
        };
        let hue = square(0).map_or(0, |(y, x)| (x + 3 * y) % COLOURS);
        let parity = |k| square(k).map_or(0, |(y, x)| (x + y) % 2);
        // Of very many owners, one colour for each seventh of the memory.
        if let Some(&level) = coloured.first().filter(|&&level| self.count(level) > MANY) {
            let (n, wrap) = (parts.get(level).copied().unwrap_or(0), self.divisions[level].wrap);
            let side = if wrap > 1 { n % wrap } else { n };
            return ((COLOURS * n / self.count(level)).min(COLOURS - 1), 2 * (side % 2) + parity(1));
        }
        (hue, 2 * parity(1) + parity(2))
    }
}

/// More owners than this are not told apart by colours.
const MANY: u64 = 64;

/// How many colours there are.
pub(crate) const COLOURS: u64 = 7;

/// Bits of one element of a plain format.
pub(crate) fn element_bits(format: Format) -> u64 {
    match format {
        Format::Plain(dtype) => 8 * dtype.size() as u64,
        Format::Sen169 => 16,
        // Of a block format, codes at the most.
        _ => 8,
    }
}

/// The tile of a layout; the blocks of an MX array are rows of 32 elements.
fn tile(hardware: &Hardware<'_>) -> Option<Tile> {
    let layout = hardware.layout();
    let row = Tile { rows: 1, cols: 32, transposed: false, compact: true };
    let block = matches!(layout.format(), Format::Block(_)).then_some(row);
    layout.geometry().tile.or(block)
}

fn codec(format: Format, tile: Option<Tile>) -> Option<BlockCodec> {
    let (Format::Block(block), Some(tile)) = (format, tile) else { return None };
    let Tile { rows, cols, transposed, compact } = tile;
    let shape = TileShape::new(rows as usize, cols as usize)?;
    BlockCodec::new(block, shape, BlockOptions { transposed, compact, ..BlockOptions::default() }).ok()
}

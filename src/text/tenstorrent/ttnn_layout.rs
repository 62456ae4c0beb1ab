//! `#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<..>, <interleaved>>`, of all dates.

use std::fmt;

use super::attribute::{self, Enclosing, Grid, buffer_type_name, core_range_text, name_of, write_sizes};
use crate::error::Result;
use crate::family::tenstorrent::cores::Orientation;
use crate::family::tenstorrent::ttnn_layout::{
    ShardDistribution, TensorMemoryLayout, TtnnLayout, TtnnNdLayout,
};
use crate::family::{Tensor, join};
use crate::text::affine;
use crate::text::lexer::Cursor;

/// Reads what follows `#ttnn.ttnn_layout`, with the shape and element of the tensor around it, if any.
pub(super) fn layout(cursor: &mut Cursor<'_>, tensor: Option<Enclosing>) -> Result<TtnnLayout> {
    cursor.expect("<", "after `ttnn_layout`")?;
    let map = affine::map(cursor)?;
    cursor.expect(",", "and a grid after the map")?;
    let Grid { sizes: grid, map: grid_map } = attribute::grid(cursor, "grid")?;
    cursor.expect(",", "and a memref after the grid")?;
    let mut mesh = None;
    if cursor.eat_word("mesh") {
        cursor.expect("=", "after `mesh`")?;
        mesh = Some(attribute::mesh_name(cursor)?);
        cursor.expect(",", "and a memref after the mesh")?;
    }
    let (shard, element, buffer_type) = attribute::shard(cursor, "a buffer type", attribute::buffer_type)?;
    let tensor = tensor.and_then(|(shape, of)| Some(Tensor { shape, dtype: of.dtype()? }));
    let mut layout = TtnnLayout::unchecked(tensor, map, grid, shard, element);
    (layout.grid_map, layout.mesh, layout.buffer_type) = (grid_map, mesh, buffer_type);
    while cursor.eat(",") {
        option(cursor, &mut layout)?;
    }
    cursor.expect(">", "or `,` at the end of the layout")?;
    Ok(layout)
}

/// Reads what follows `#ttnn.ttnn_nd_layout`, with the shape and element of the tensor around it, if any.
pub(super) fn nd_layout(cursor: &mut Cursor<'_>, tensor: Option<Enclosing>) -> Result<TtnnNdLayout> {
    cursor.expect("<", "after `ttnn_nd_layout`")?;
    let Grid { sizes: grid, .. } = attribute::grid(cursor, "grid")?;
    cursor.expect(",", "and a memref after the grid")?;
    let (shard, element, buffer_type) = attribute::shard(cursor, "a buffer type", attribute::buffer_type)?;
    let mut layout = TtnnNdLayout::new(grid, shard, element);
    layout.buffer_type = buffer_type;
    layout.tensor = tensor.and_then(|(shape, of)| Some(Tensor { shape, dtype: of.dtype()? }));
    cursor.expect(",", "and a memory layout after the memref")?;
    layout.memory_layout =
        attribute::angled(cursor, |c| c.choose("a memory layout", &TensorMemoryLayout::NAMES))?;
    if cursor.eat(",") {
        let orientation = attribute::angled(cursor, |c| c.choose("an orientation", &ORIENTATIONS))?;
        layout.orientation = Some(orientation);
    }
    if cursor.eat(",") {
        let names = &ShardDistribution::NAMES;
        layout.distribution =
            Some(attribute::angled(cursor, |c| c.choose("a distribution of shards", names))?);
    }
    cursor.expect(">", "at the end of the layout")?;
    Ok(layout)
}

/// The names of orientations here.
pub(super) const ORIENTATIONS: [(&str, Orientation); 2] =
    [("row_major", Orientation::RowMajor), ("col_major", Orientation::ColMajor)];

/// Reads one of the parts behind the memref.
fn option(cursor: &mut Cursor<'_>, layout: &mut TtnnLayout) -> Result<()> {
    const KEYS: [&str; 3] = ["core_ranges", "ignorePhysicalLayout", "exactGrid"];
    const FLAGS: [(&str, bool); 2] = [("true", true), ("false", false)];
    let at = cursor.start();
    let key = cursor.peek_word();
    let twice = match key {
        "core_ranges" | "ignorePhysicalLayout" | "exactGrid" => {
            cursor.eat_word(key);
            cursor.expect("=", format_args!("after `{key}`"))?;
            let value = cursor.start();
            let twice = match key {
                "core_ranges" => {
                    layout.core_ranges.replace(attribute::core_ranges(cursor, "core_ranges")?).is_some()
                }
                "exactGrid" => layout.exact_grid.replace(cursor.choose(key, &FLAGS)?).is_some(),
                _ => std::mem::replace(&mut layout.ignore_physical_layout, cursor.choose(key, &FLAGS)?),
            };
            cursor.mark(key, value);
            twice
        }
        // A bare flag, as of 2025.
        "true" | "false" => {
            std::mem::replace(&mut layout.ignore_physical_layout, cursor.choose("a flag", &FLAGS)?)
        }
        "none" => !cursor.eat_word("none"),
        _ => {
            if cursor.peek() != Some('<') && TensorMemoryLayout::NAMES.iter().all(|n| n.0 != key) {
                let (word, span) = cursor.word("a memory layout or `core_ranges`")?;
                let names = TensorMemoryLayout::NAMES.map(|n| n.0);
                return Err(cursor.unknown(
                    "a part of the layout",
                    word,
                    span,
                    &[&names[..], &KEYS].concat(),
                ));
            }
            let names = &TensorMemoryLayout::NAMES;
            let read = attribute::angled(cursor, |c| c.choose("a memory layout", names))?;
            layout.memory_layout.replace(read).is_some()
        }
    };
    if twice {
        return Err(cursor.error_since(at, "a part of this kind is already given: expected each once".into()));
    }
    Ok(())
}

impl fmt::Display for TtnnLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            f.write_str("tensor<")?;
            write_sizes(f, &tensor.shape)?;
            write!(f, "{}, ", tensor.dtype.mlir_name())?;
        }
        write!(f, "#ttnn.ttnn_layout<{}, <{}", self.map, join(&self.grid))?;
        if let Some(map) = &self.grid_map {
            write!(f, ", {map}")?;
        }
        f.write_str(">, ")?;
        if let Some(mesh) = &self.mesh {
            write!(f, "mesh = <\"{mesh}\">, ")?;
        }
        f.write_str("memref<")?;
        write_sizes(f, &self.shard)?;
        write!(f, "{}, #ttnn.buffer_type<{}>>", self.element, buffer_type_name(self.buffer_type))?;
        if let Some(layout) = self.memory_layout {
            write!(f, ", <{}>", name_of(&TensorMemoryLayout::NAMES, layout))?;
        }
        if let Some(ranges) = &self.core_ranges {
            let ranges: Vec<String> = ranges.iter().map(core_range_text).collect();
            write!(f, ", core_ranges = <[{}]>", ranges.join(", "))?;
        }
        if let Some(exact) = self.exact_grid {
            write!(f, ", exactGrid = {exact}")?;
        }
        if self.ignore_physical_layout {
            f.write_str(", ignorePhysicalLayout = true")?;
        }
        f.write_str(if self.tensor.is_some() { ">>" } else { ">" })
    }
}

impl fmt::Display for TtnnNdLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            f.write_str("tensor<")?;
            write_sizes(f, &tensor.shape)?;
            write!(f, "{}, ", tensor.dtype.mlir_name())?;
        }
        write!(f, "#ttnn.ttnn_nd_layout<<{}>, memref<", join(&self.grid))?;
        write_sizes(f, &self.shard)?;
        write!(f, "{}, #ttnn.buffer_type<{}>>", self.element, buffer_type_name(self.buffer_type))?;
        write!(f, ", <{}>", name_of(&TensorMemoryLayout::NAMES, self.memory_layout))?;
        // A distribution stands behind an orientation.
        let orientation = self.orientation.or(self.distribution.map(|_| Orientation::RowMajor));
        if let Some(orientation) = orientation {
            write!(f, ", <{}>", name_of(&ORIENTATIONS, orientation))?;
        }
        if let Some(distribution) = self.distribution {
            write!(f, ", <{}>", name_of(&ShardDistribution::NAMES, distribution))?;
        }
        f.write_str(if self.tensor.is_some() { ">>" } else { ">" })
    }
}

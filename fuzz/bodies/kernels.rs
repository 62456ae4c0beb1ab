//! Every kernel at every level against the scalar one, over random windows, formats and bytes.
//!
//! An input is a head of choices, then the bytes of the source, repeated as often as needed.

#[path = "choices.rs"]
mod choices;

use std::mem::MaybeUninit;

use choices::Choices;
use kernels::{
    BlockCodec, BlockFormat, BlockOptions, Decoding, Destination, Isa, Kernels, Number, PackArgs, Rounding,
    TileShape, UnpackArgs, Window,
};

/// Bytes of an input that choose; the others are data.
const HEAD: usize = 24;

/// Runs a kernel at every level over a destination of `len` bytes; all give what the scalar one gives.
fn compare(len: usize, run: &dyn Fn(&Kernels, &mut [MaybeUninit<u8>])) {
    let at = |isa: Isa| -> Vec<u8> {
        let mut out = vec![MaybeUninit::new(0xEE); len];
        run(Kernels::for_isa(isa).unwrap(), &mut out);
        // SAFETY: it was filled before, and kernels write initialised bytes only.
        out.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
    };
    let rule = at(Isa::Scalar);
    for isa in Isa::available() {
        assert!(at(isa) == rule, "{} differs", isa.name());
    }
}

/// Bytes of data, as many as are wanted.
fn cycled(data: &[u8], len: usize) -> Vec<u8> {
    (0..len).map(|i| data[i % data.len()].wrapping_add((i / data.len()) as u8)).collect()
}

/// Where element (0, 0) of a window lies, and how many bytes its elements span.
fn extent(size: usize, loops: [(usize, isize); 2]) -> (usize, usize) {
    let reach = loops.map(|(n, step)| n.saturating_sub(1) as isize * step);
    let below = -reach.iter().map(|r| r.min(&0)).sum::<isize>();
    let above = reach.iter().map(|r| r.max(&0)).sum::<isize>();
    (below as usize, (below + above) as usize + size)
}

/// Strides of rows and columns: dense, transposed, with gaps, backwards, and of the source standing still.
fn strides(c: &mut Choices, size: usize, [rows, cols]: [usize; 2], source: bool) -> [isize; 2] {
    let (size, rows, cols) = (size as isize, rows as isize, cols as isize);
    let gap = c.below(70) as isize;
    match c.below(if source { 8 } else { 6 }) {
        0 | 1 => [cols * size, size],
        2 => [size, rows * size],
        3 => [cols * size + gap, size],
        4 => [size, rows * size + gap],
        5 => [-(cols * (size + gap)), size + gap],
        6 => [0, size],
        _ => [cols * size, -size],
    }
}

/// A window with room on both sides: it, and where it begins and how many bytes it spans in source and destination.
fn window(c: &mut Choices, from: usize, to: usize) -> (Window, [(usize, usize); 2]) {
    let size = [1 + c.below(70), 1 + c.below(70)];
    let [src_row, src_col] = strides(c, from, size, true);
    let [dst_row, dst_col] = strides(c, to, size, false);
    let [rows, cols] = size;
    let w = Window { rows, cols, src_row, src_col, dst_row, dst_col };
    (w, [extent(from, [(rows, src_row), (cols, src_col)]), extent(to, [(rows, dst_row), (cols, dst_col)])])
}

fn codec(c: &mut Choices) -> Option<BlockCodec> {
    let tiles: Vec<TileShape> = TileShape::all().collect();
    let options = BlockOptions {
        transposed: c.below(2) == 1,
        rounding: c.of(&[Rounding::Host, Rounding::Device, Rounding::DeviceOp, Rounding::Truncate]),
        search: c.below(4) == 3,
        bf16_registers: c.below(4) == 3,
        decoding: c.of(&[Decoding::Exact, Decoding::Host, Decoding::Device]),
        compact: c.below(8) == 7,
    };
    BlockCodec::new(c.of(&BlockFormat::ALL), c.of(&tiles), options).ok()
}

fn pack(c: &mut Choices, data: &[u8]) -> Option<()> {
    let (codec, from) = (codec(c)?, c.of(&Number::ALL));
    let (rows, cols) = (c.below(codec.tile().rows() + 1), c.below(codec.tile().cols() + 1));
    let [src_row, src_col] = strides(c, from.size(), [rows.max(1), cols.max(1)], true);
    let (src_at, len) = extent(from.size(), [(rows, src_row), (cols, src_col)]);
    let tiles = 1 + c.below(5);
    let pad = c.of(&[0.0, -1.5, f32::INFINITY]);
    let dst_tile = codec.tile_bytes() + c.below(9);
    let args = PackArgs {
        tiles,
        src_at,
        src_tile: len as isize,
        src_row,
        src_col,
        faces: None,
        rows,
        cols,
        pad,
        dst_tile,
        prefetch_distance: (c.below(9) as isize - 4) * len as isize,
    };
    let src = cycled(data, len * tiles);
    compare(tiles * dst_tile + 5, &|kernels, dst| {
        kernels.pack(&codec, from, &src, &args, &mut Destination::cached(dst), 5)
    });
    Some(())
}

fn unpack(c: &mut Choices, data: &[u8]) -> Option<()> {
    let (codec, to) = (codec(c)?, c.of(&Number::ALL));
    let tile = codec.tile();
    let in_faces = c.below(4) == 3;
    let (row0, col0) = if in_faces { (0, 0) } else { (c.below(tile.rows()), c.below(tile.cols())) };
    let (rows, cols) = match in_faces {
        true => (tile.rows(), tile.cols()),
        false => (1 + c.below(tile.rows() - row0), 1 + c.below(tile.cols() - col0)),
    };
    // Faces one behind the other, each in rows and columns of its own.
    let of_face = if in_faces { [tile.face_rows(), tile.face_cols()] } else { [rows, cols] };
    let [dst_row, dst_col] = strides(c, to.size(), of_face, false);
    let (dst_at, face) = extent(to.size(), [(of_face[0], dst_row), (of_face[1], dst_col)]);
    let across = cols / of_face[1];
    let faces = in_faces.then_some([(across * face) as isize, face as isize]);
    let len = face * across * (rows / of_face[0]);
    let tiles = 1 + c.below(5);
    let src_tile = codec.tile_bytes() + c.below(9);
    let args = UnpackArgs {
        tiles,
        src_at: 0,
        src_tile,
        row0,
        col0,
        rows,
        cols,
        dst_at,
        dst_tile: len as isize,
        dst_row,
        dst_col,
        faces,
        prefetch_tiles: c.below(4),
    };
    let src = cycled(data, tiles * src_tile);
    compare(tiles * len, &|kernels, dst| {
        kernels.unpack(&codec, to, &src, &args, &mut Destination::cached(dst))
    });
    Some(())
}

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    if data.len() <= HEAD {
        return;
    }
    let (head, data) = data.split_at(HEAD);
    let c = &mut Choices(head.iter());
    match c.below(5) {
        0 => {
            let elem = 1 + c.below(80);
            let (w, [(src_at, src_len), (dst_at, dst_len)]) = window(c, elem, elem);
            let src = cycled(data, src_len);
            compare(dst_len, &|kernels, dst| kernels.copy(elem, &src, src_at, dst, dst_at, &w));
        }
        1 | 2 => {
            let (from, to) = (c.of(&Number::ALL), c.of(&Number::ALL));
            let (w, [(src_at, src_len), (dst_at, dst_len)]) = window(c, from.size(), to.size());
            let src = cycled(data, src_len);
            compare(dst_len, &|kernels, dst| kernels.convert(from, to, &src, src_at, dst, dst_at, &w));
        }
        3 => drop(pack(c, data)),
        _ => drop(unpack(c, data)),
    }
}

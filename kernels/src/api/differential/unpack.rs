//! Unpacking of block formats.

use super::{Kernels, Random, codecs, one_of, ways};
use crate::{BlockCodec, Number, Rounding, UnpackArgs};

/// Every codec and destination format on random bytes, all exponents among them, and on memory that was cleared, through whole
/// and partial rectangles and every arrangement that takes a path of its own.
pub(crate) fn sweep(tested: &'static Kernels, rule: &'static Kernels) {
    let mut random = Random::new(7);
    let reading = |codec: &BlockCodec| codec.options().rounding == Rounding::Host && !codec.options().search;
    for (turn, codec) in codecs().filter(reading).enumerate() {
        let (tile, bytes) = (codec.tile(), codec.tile_bytes());
        let (rows, cols) = (tile.rows(), tile.cols());
        let mut src: Vec<u8> = (0..3 * bytes + 40).map(|_| random.next() as u8).collect();
        // The second tile, with a zero that may be negative, and sometimes a number, or a scale that means NaN.
        let cleared = &mut src[3 + bytes + 20..][..bytes];
        cleared.fill(0);
        cleared[0] = if turn % 4 == 1 { 0xFF } else { 0 };
        cleared[bytes - 1] = 0x80;
        cleared[bytes / 2] = if turn % 3 == 0 { random.next() as u8 } else { 0 };
        for to in one_of(Number::ALL.len(), turn, Number::ALL) {
            let size = to.size() as isize;
            let parts =
                [(0, 0, rows, cols), (rows / 2, 3, rows - rows / 2, cols - 3), (0, 1, 1, 1), (0, 9, rows, 7)];
            for (row0, col0, rows, cols) in one_of(4, turn, parts) {
                let (r, c) = (rows as isize, cols as isize);
                let whole = (rows, cols) == (tile.rows(), tile.cols());
                let (across, face_row) = (c / 16, 16 * size);
                let face = tile.face_rows() as isize * face_row;
                // Rows and columns of tiles, and of a face: one behind the other, among those beside it, and across.
                let places = [
                    (c * size, 2 * c * size, size, None),
                    (r * c * size + 5, c * size, size, None),
                    (r * c * size, size, r * size, None),
                    (r * c * size, face_row, size, Some([across * face, face])),
                    (r * c * size, c * size, size, Some([tile.face_rows() as isize * c * size, face_row])),
                    (r * c * size, size, r * size, Some([tile.face_rows() as isize * size, 16 * r * size])),
                ];
                let suits = |place: &(isize, isize, isize, Option<_>)| whole || place.3.is_none();
                for (dst_tile, dst_row, dst_col, faces) in one_of(6, turn, places.into_iter().filter(suits)) {
                    let args = UnpackArgs {
                        tiles: 2,
                        src_at: 3,
                        src_tile: bytes + 20,
                        row0,
                        col0,
                        rows,
                        cols,
                        dst_at: 1,
                        dst_tile,
                        dst_row,
                        dst_col,
                        faces,
                        prefetch_tiles: turn % 3,
                    };
                    let run = |kernels: &'static Kernels| {
                        let len = 2 * rows * cols * to.size() + 8;
                        let (codec, src) = (&codec, &src);
                        ways(kernels, len, 1, move |dst| kernels.unpack(codec, to, src, &args, dst))
                    };
                    let want = run(rule).next().unwrap();
                    assert!(
                        run(tested).all(|got| got == want),
                        "{} unpack {codec:?} to {} by {args:?}, {random:?}",
                        tested.isa().name(),
                        to.name()
                    );
                }
            }
        }
    }
}

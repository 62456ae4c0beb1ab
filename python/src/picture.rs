//! Pictures of layouts, small enough for where they are shown.

use tilewright::{Error, Plan, Result};
use tilewright_draw::{Hardware, Limits, Picture, Strip, html, svg};

/// What is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Page<'a> {
    /// An image.
    Svg,
    /// A page, with how a plan fills the layout.
    Html(Option<&'a Plan>),
}

/// Cells of the pictures that are tried, from element by element to a few large ones.
const SIZES: [u64; 3] = [1 << 16, 1 << 12, 1 << 9];

/// The picture of a layout with the most cells that takes at most so many bytes; none where not even the coarsest does.
pub(crate) fn picture(
    hardware: &Hardware<'_>,
    page: Page<'_>,
    most: Option<usize>,
) -> Result<Option<String>> {
    for cells in SIZES {
        let drawn = match Picture::new(hardware, Limits { elements: cells, cells }) {
            Ok(drawn) => drawn,
            // Cells cannot be made as large as that.
            Err(Error::TooComplex { .. }) if cells < SIZES[0] => break,
            Err(error) => return Err(error),
        };
        let text = match page {
            Page::Svg => svg(&drawn),
            Page::Html(plan) => html(&[drawn], plan.map(Strip::new).as_ref(), None),
        };
        if most.is_none_or(|most| text.len() <= most) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

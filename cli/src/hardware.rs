//! Buffers and bytes in the terms of the hardware, for the layout that the texts of a command give.

use tilewright::Layout;
use tilewright::family::Placement;
use tilewright_draw::Hardware;

use super::engine::Texts;
use super::failure::Result;

/// What the buffers of `layout` are, which the texts describe.
pub(crate) fn hardware<'a>(texts: &'a Texts, layout: &'a Layout) -> Result<Hardware<'a>> {
    let placement =
        Placement { device: texts.device.as_ref(), mesh: texts.mesh.as_ref(), ..Placement::default() };
    Ok(Hardware::new(layout, &texts.to, &placement, &texts.tensor)?)
}

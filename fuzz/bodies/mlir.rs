//! Whole files of a compiler: whatever they hold, their layouts are found or refused, and what is found is parsed or
//! refused.

use tilewright::{Descriptor, Placement, text};

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    let Ok(module) = text::mlir::read(data) else { return };
    let mut uses = 0;
    for used in module.uses() {
        assert!(used.line >= 1 && used.column >= 1 && used.count >= 1);
        uses += used.count;
        let Ok(descriptor) = used.text.parse::<Descriptor>() else { continue };
        if let Some(tensor) = descriptor.tensor() {
            let _ = descriptor.layout(&tensor, &Placement { lenient: true, ..Placement::default() });
        }
    }
    assert!(uses <= data.len() as u64);
    for word in String::from_utf8_lossy(data).split_whitespace().take(64) {
        let _ = module.alias(word);
    }
}

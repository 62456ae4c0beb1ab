//! The images of the gallery are those checked in. `TILEWRIGHT_BLESS=1` writes them anew; then look at each.

mod layouts;

use std::fs;
use std::path::Path;

use layouts::GALLERY;
use tilewright_draw::{Limits, svg};

#[test]
fn images_are_those_checked_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    for case in GALLERY {
        let image = case.with(Limits::default(), |_, picture| svg(picture));
        let path = folder.join(format!("{}.svg", case.name));
        if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &image).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(image.len() < 200_000, "{} has {} bytes", case.name, image.len());
        assert!(image == expected, "{} differs from its checked-in image", case.name);
        assert!(image.len() < 120_000, "{} has {} bytes", case.name, image.len());
    }
}

//! The images of the documentation are those checked in. `TILEWRIGHT_BLESS=1` writes them anew; then look at each.

mod layouts;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use layouts::{Case, GALLERY, PAGES, TOUR};
use tilewright_draw::{Limits, svg};

/// Compares a file below `docs/pictures` with what it should hold, or writes it.
fn compare(name: &str, made: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let path = folder.join(name);
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, made).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(made == expected, "{name} differs from its checked-in file");
}

fn image(case: &Case) -> String {
    let image = case.with(Limits::default(), |_, picture| svg(picture));
    assert!(image.len() < 120_000, "{} has {} bytes", case.name, image.len());
    image
}

#[test]
fn images_are_those_checked_in() {
    for case in GALLERY.iter().chain(TOUR).chain(PAGES) {
        compare(&format!("{}.svg", case.name), &image(case));
    }
}

/// Documentation of the crate is one page without files beside it: there the tour's images stand in the links.
#[test]
fn links_of_the_tour_hold_its_images() {
    let mut links = String::new();
    for case in TOUR {
        let _ =
            writeln!(links, "[{}]: data:image/svg+xml;base64,{}", case.name, base64(image(case).as_bytes()));
    }
    compare("tour.links.md", &links);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, k| number << 8 | u32::from(*part.get(k).unwrap_or(&0)));
        for k in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * k)) as usize & 63];
            out.push(if k > part.len() { '=' } else { digit.into() });
        }
    }
    out
}

#[test]
fn base64_is_that_of_its_definition() {
    let said = ["", "f", "fo", "foo", "foob", "fooba"].map(|text| base64(text.as_bytes()));
    assert_eq!(said, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE="]);
}

//! A page of many pictures.

use std::fmt::Write;

use super::svg::{cut, escape};

const STYLE: &str = include_str!("gallery.css");

/// One picture of a gallery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The text of the layout.
    pub title: String,
    /// What else is to be said, e.g. how often the layout is used.
    pub notes: Vec<String>,
    /// The page of the picture, relative to the gallery; none where there is none.
    pub page: Option<String>,
    /// The image, relative to the gallery; none where there is none.
    pub image: Option<String>,
}

/// A page that shows pictures in the order given. It loads the images named, and nothing else.
pub fn gallery(title: &str, summary: &str, entries: &[Entry]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{summary}</p>\n<main>\n",
        title = escape(title),
        summary = escape(summary),
    );
    for (n, entry) in entries.iter().enumerate() {
        let _ = write!(
            out,
            "<article id=\"{n}\">\n<h2><code>{}</code></h2>\n<ul>",
            escape(&cut(&entry.title, 300))
        );
        for note in &entry.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out += "</ul>\n";
        if let Some(image) = &entry.image {
            let image = format!("<img loading=\"lazy\" src=\"{}\" alt=\"\">", escape(image));
            let _ = match &entry.page {
                Some(page) => {
                    writeln!(out, "<a href=\"{}\" aria-label=\"open the picture\">{image}</a>", escape(page))
                }
                None => writeln!(out, "{image}"),
            };
        }
        out += "</article>\n";
    }
    out + "</main>\n</body>\n</html>\n"
}

//! Colour, where somebody looks at it.
//!
//! Invariant: `NO_COLOR`, `TERM=dumb` and a pipe mean plain text unless `--color always` is given.
//! Deliberately absent: themes.

use std::env;
use std::io::IsTerminal;

use crate::ColorWhen;

/// A style of the few in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Bold,
    /// Good.
    Green,
    /// Careful.
    Yellow,
    /// Bad.
    Red,
    /// Side information.
    Dim,
}

/// `text` in `style` when `on`.
pub fn paint(text: &str, style: Style, on: bool) -> String {
    let code = match style {
        Style::Bold => 1,
        Style::Green => 32,
        Style::Yellow => 33,
        Style::Red => 31,
        Style::Dim => 2,
    };
    if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

impl ColorWhen {
    /// Whether text on `stream` is to be coloured.
    pub fn is_on(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let set = |name| env::var_os(name).is_some_and(|v| !v.is_empty());
                stream.is_terminal()
                    && !set("NO_COLOR")
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

//! Colours, where they are wanted.

use super::Style;

/// A colour of the terminal, whatever the user made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// `text`, coloured if `style` wants colours.
pub(crate) fn paint(style: Style, colour: Colour, text: &str) -> String {
    let code = match colour {
        Colour::Plain => return text.to_owned(),
        _ if !style.color => return text.to_owned(),
        Colour::Bold => 1,
        Colour::Dim => 2,
        Colour::Red => 31,
        Colour::Green => 32,
        Colour::Yellow => 33,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

//! Keys, and what they mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    /// The curve of the selected region, large.
    Open,
    Back,
    /// Start typing the filter: text that names must contain.
    Filter,
    /// Append a letter to the filter.
    Letter(char),
    /// Remove the filter's last letter.
    Erase,
    /// Finish typing the filter.
    Done,
    NextOrder,
    NextPoint,
    Warnings,
    Help,
    /// Leave the terminal to others until this process is continued.
    Stop,
    Quit,
}

/// `typing`: letters are part of the filter.
pub fn action(key: KeyEvent, typing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'C') => Some(Action::Quit),
            KeyCode::Char('z' | 'Z') => Some(Action::Stop),
            KeyCode::Char('h' | 'H') if typing => Some(Action::Erase),
            _ => None,
        };
    }
    let action = match key.code {
        KeyCode::Up => Action::Up,
        KeyCode::Down => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::Esc => Action::Back,
        KeyCode::Enter if typing => Action::Done,
        KeyCode::Backspace if typing => Action::Erase,
        KeyCode::Char(letter) if typing => Action::Letter(letter),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Char('k') => Action::Up,
        KeyCode::Char('j') => Action::Down,
        KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => Action::Open,
        KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h') => Action::Back,
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('s') => Action::NextOrder,
        KeyCode::Char('p') => Action::NextPoint,
        KeyCode::Char('w') => Action::Warnings,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    };
    Some(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let letter = |letter| plain(KeyCode::Char(letter));
        // What it means, and what it means in a filter.
        let table: [(KeyEvent, Option<Action>, Option<Action>); 20] = [
            (plain(KeyCode::Up), Some(Action::Up), Some(Action::Up)),
            (letter('k'), Some(Action::Up), Some(Action::Letter('k'))),
            (letter('j'), Some(Action::Down), Some(Action::Letter('j'))),
            (plain(KeyCode::PageDown), Some(Action::PageDown), Some(Action::PageDown)),
            (plain(KeyCode::Home), Some(Action::First), Some(Action::First)),
            (letter('G'), Some(Action::Last), Some(Action::Letter('G'))),
            (plain(KeyCode::Enter), Some(Action::Open), Some(Action::Done)),
            (plain(KeyCode::Right), Some(Action::Open), Some(Action::Open)),
            (plain(KeyCode::Esc), Some(Action::Back), Some(Action::Back)),
            (plain(KeyCode::Backspace), Some(Action::Back), Some(Action::Erase)),
            (letter('/'), Some(Action::Filter), Some(Action::Letter('/'))),
            (letter('s'), Some(Action::NextOrder), Some(Action::Letter('s'))),
            (letter('p'), Some(Action::NextPoint), Some(Action::Letter('p'))),
            (letter('w'), Some(Action::Warnings), Some(Action::Letter('w'))),
            (letter('?'), Some(Action::Help), Some(Action::Letter('?'))),
            (letter('q'), Some(Action::Quit), Some(Action::Letter('q'))),
            (control('c'), Some(Action::Quit), Some(Action::Quit)),
            (control('z'), Some(Action::Stop), Some(Action::Stop)),
            (control('q'), None, None),
            (plain(KeyCode::Tab), None, None),
        ];
        for (key, meaning, typing) in table {
            assert_eq!((action(key, false), action(key, true)), (meaning, typing), "{key:?}");
        }
        let released = KeyEvent { kind: KeyEventKind::Release, ..letter('q') };
        assert_eq!(action(released, false), None);
    }
}

//! The screen: a terminal that is ours for a while, and as it was afterwards.

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, BufWriter, Stdout, stdout};

/// The whole terminal. Dropping it gives it back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    open: bool,
}

impl Screen {
    /// Whatever ends this process while it is open should call [`give_back`]; a panic does.
    pub fn open() -> io::Result<Screen> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let backend = CrosstermBackend::new(BufWriter::new(stdout()));
        let viewport = Viewport::Fixed(size(&backend)?);
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport })?;
        let mut screen = Screen { terminal, open: true };
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        self.open = true;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)
    }

    /// Draws by `draw` what has changed. As large as the terminal is now.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        let size = size(self.terminal.backend())?;
        if self.terminal.get_frame().area() != size {
            self.terminal.resize(size)?;
        }
        self.terminal.draw(draw).map(drop)
    }

    pub fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            give_back();
        }
    }

    /// Gives the terminal to others while `meanwhile`, and draws anew afterwards.
    pub fn lend(&mut self, meanwhile: impl FnOnce()) -> io::Result<()> {
        self.close();
        meanwhile();
        self.take()?;
        // Not `clear`, which asks the terminal where the cursor is, and the answer comes among the keys.
        let size = size(self.terminal.backend())?;
        self.terminal.resize(size)
    }

    /// Whether the terminal has gone away.
    pub fn is_gone(&self) -> bool {
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let asked = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        asked.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// How large the terminal is. Serial lines, and what plays a terminal, may not say: then it is as terminals used to be.
fn size(terminal: &impl Backend<Error = io::Error>) -> io::Result<Rect> {
    let Size { width, height } = terminal.size()?;
    let or = |size: u16, usual| if size == 0 { usual } else { size };
    Ok(Rect::new(0, 0, or(width, 80), or(height, 24)))
}

/// The terminal as it was. It may be gone: then there is nothing to give.
pub fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

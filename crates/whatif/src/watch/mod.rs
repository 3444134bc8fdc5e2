//! `whatif watch`: the report in a terminal, full screen, while the program runs in another one.
//!
//! sample → delay → experiment → record → profile → **report**
//!
//! **Does:** read the recording that a run is writing, estimate again when there is something new ([`source`]), draw what is
//! known ([`draw`]) and follow keys ([`key`], [`view`]). **Does not:** touch the run or the recording; compute or word anything
//! that the report does not.
//!
//! **Constraints:** the terminal is as before when this ends, however it ends, short of `kill -9` ([`screen`]). No terminal is
//! too small. Names come from other people's programs and cannot move the cursor.

mod draw;
mod key;
mod listing;
mod screen;
mod source;
mod standing;
mod view;

use crate::{cli, show};
use anyhow::{Context as _, Result, ensure};
use controller::launch;
use draw::{Room, Scene};
use kernel::signals::was_ignored;
use key::Action;
use listing::Row;
use profile::{Nanos, Profile, Target};
use ratatui::crossterm::event::{self, KeyEvent};
use screen::Screen;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use source::{News, Snapshot};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};
use view::{Choice, View};

/// The seconds that are shown go on without news.
const TICK: Duration = Duration::from_secs(1);
/// A terminal that takes nothing for this long does not keep us from ending.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can happen while `whatif watch` runs.
enum Event {
    Key(KeyEvent),
    /// The terminal has another size, or lost what was on it.
    Redraw,
    Signal(i32),
    News(News),
    /// Keys cannot be read.
    Deaf(std::io::Error),
}

/// `whatif watch`. Ends with `q` or Ctrl-C.
pub fn watch(args: &cli::Watch) -> Result<()> {
    let named = args.file.as_deref();
    let again = named.map_or(String::new(), |path| format!(" {}", path.display()));
    ensure!(
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb(),
        "watch draws on a whole terminal, and this is none; for the answer as text: whatif report{again}"
    );
    if let Some(path) = named {
        source::check(path)?;
    }
    let (to, events) = mpsc::channel();
    // Before the screen is opened: whatever ends us from then on closes it.
    listen_to_signals(to.clone())?;
    let screen =
        Screen::open().context("cannot draw on this terminal; for the answer as text: whatif report")?;
    let mut watched = Watched::new(named, screen);
    let keys = to.clone();
    source::start(named.map(Path::to_owned), move |news| to.send(Event::News(news)).is_ok())?;
    let ended = watched.run(&events, keys);
    watched.screen.close();
    match ended? {
        Some(signal) => launch::finish(launch::Exit::Signal(signal)),
        None => Ok(()),
    }
}

/// Whether the terminal says that it knows no cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn listen_to_signals(to: Sender<Event>) -> Result<()> {
    let handled = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP];
    let mut signals = Signals::new(handled.into_iter().filter(|signal| !was_ignored(*signal)))?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let heard = to.send(Event::Signal(signal)).is_ok();
            if signal == SIGTSTP && heard {
                continue;
            }
            std::thread::sleep(PATIENCE);
            screen::give_back();
            launch::finish(launch::Exit::Signal(signal));
        }
    })?;
    Ok(())
}

fn listen_to_keys(to: Sender<Event>) -> Result<()> {
    std::thread::Builder::new().name("keys".into()).spawn(move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) => Event::Key(key),
                Ok(event::Event::Resize(..) | event::Event::FocusGained) => Event::Redraw,
                Ok(_) => continue,
                Err(error) => Event::Deaf(error),
            };
            let deaf = matches!(event, Event::Deaf(_));
            if to.send(event).is_err() || deaf {
                break;
            }
        }
    })?;
    Ok(())
}

/// What is watched, and how.
struct Watched {
    screen: Screen,
    view: View,
    room: Room,
    /// The name of the file, as far as it is known.
    name: String,
    snapshot: Option<Box<Snapshot>>,
    /// Why there is none.
    nothing: String,
    /// Why it may be old.
    trouble: Option<String>,
    color: bool,
}

impl Watched {
    fn new(named: Option<&Path>, screen: Screen) -> Self {
        let name = named.map_or(String::new(), |path| path.display().to_string());
        Self {
            screen,
            view: View::default(),
            room: Room::default(),
            name,
            snapshot: None,
            nothing: "reading …".into(),
            trouble: None,
            color: show::style(true, 0).color,
        }
    }

    /// Runs until the user quits or a signal arrives; returns the signal.
    fn run(&mut self, events: &mpsc::Receiver<Event>, keys: Sender<Event>) -> Result<Option<i32>> {
        self.draw()?;
        listen_to_keys(keys)?;
        loop {
            let first = match events.recv_timeout(TICK) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            };
            // A terminal that has gone shows nothing and sends no `q`.
            if self.screen.is_gone() {
                return Ok(Some(SIGHUP));
            }
            // What has come meanwhile is drawn at once.
            for event in first.into_iter().chain(events.try_iter()) {
                match event {
                    Event::Key(key) => match key::action(key, self.view.typing) {
                        Some(Action::Quit) => return Ok(None),
                        Some(Action::Stop) => self.stop()?,
                        Some(action) => self.apply(action),
                        None => {}
                    },
                    Event::Signal(SIGTSTP) => self.stop()?,
                    Event::Signal(signal) => return Ok(Some(signal)),
                    Event::Deaf(error) => return Err(error).context("cannot read from the terminal"),
                    Event::News(news) => self.learn(news),
                    Event::Redraw => {}
                }
            }
            self.draw()?;
        }
    }

    /// Until a shell's `fg`.
    fn stop(&mut self) -> Result<()> {
        self.screen.lend(|| drop(emulate_default_handler(SIGTSTP)))?;
        Ok(())
    }

    fn learn(&mut self, news: News) {
        match news {
            News::Nothing(why) => self.nothing = why,
            News::Trouble(why) if self.snapshot.is_none() => self.nothing = why,
            News::Trouble(why) => self.trouble = Some(why),
            News::Written(when) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.written = when;
                }
            }
            News::Snapshot(snapshot) => {
                self.name = snapshot.path.display().to_string();
                self.trouble = None;
                self.snapshot = Some(snapshot);
            }
        }
    }

    fn apply(&mut self, action: Action) {
        let profile = self.snapshot.as_ref().map(|snapshot| &snapshot.profile);
        let (points, rows) = listed(profile, &self.view);
        let regions: Vec<_> = rows.iter().map(|(region, _)| region.region).collect();
        let Room { page, scroll } = self.room;
        self.view.apply(action, Choice { regions: &regions, points: &points, page, scroll });
    }

    fn draw(&mut self) -> Result<()> {
        let profile = self.snapshot.as_ref().map(|snapshot| &snapshot.profile);
        let (points, rows) = listed(profile, &self.view);
        let standing = self.snapshot.as_ref().map_or(String::new(), |snapshot| stands(snapshot));
        let scene = Scene {
            name: &self.name,
            standing: &standing,
            trouble: self.trouble.as_deref(),
            nothing: &self.nothing,
            profile,
            target: self.view.point(&points),
            several_points: points.len() > 1,
            rows: &rows,
            view: &self.view,
            color: self.color,
        };
        let room = &mut self.room;
        self.screen.draw(|frame| *room = draw::draw(&scene, frame.area(), frame.buffer_mut()))?;
        Ok(())
    }
}

/// What can be shown: the points, those that are visited if any is; and the regions, for the point that is shown.
fn listed<'a>(profile: Option<&'a Profile>, view: &View) -> (Vec<Target>, Vec<Row<'a>>) {
    let Some(profile) = profile else { return (Vec::new(), Vec::new()) };
    let idle = profile.points.iter().all(|point| point.idle);
    let shown = profile.points.iter().filter(|point| idle || !point.idle);
    let points: Vec<Target> = shown.map(|point| point.target).collect();
    let rows = match view.point(&points) {
        Some(target) => listing::listing(profile, target, view.order, &view.filter),
        None => Vec::new(),
    };
    (points, rows)
}

fn stands(snapshot: &Snapshot) -> String {
    let now = SystemTime::now();
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let quiet = now.duration_since(snapshot.written).unwrap_or_default();
    let sessions = &snapshot.profile.rows.sessions;
    let now = Nanos::new(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    standing::standing(sessions.len(), sessions.last(), snapshot.experiments, snapshot.seen, quiet, now)
}

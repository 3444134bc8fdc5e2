//! Command: what is done for each `whatif fleet …`.

use crate::answers;
use crate::arguments::{self, At, Diff, Flame, GiveOrder, Hosts, Init, Push, Sql, Status, Top, User, Worth};
use crate::error::{Error, of_analysis};
use crate::flame;
use crate::local::LocalSource;
use crate::order::{self, Order};
use crate::run::Named;
use crate::run_sender::RunSender;
use crate::run_source::LocalRuns;
use crate::sender::{Pushed, Sender};
use crate::server::Login;
use crate::source::Source;
use crate::standing::{Standing, standing};
use crate::store::Store;
use crate::worth::{self as answer, Worths};
use cycles::{Difference, Heading};
use profile::counted;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The server, if `--url` does not say.
const URL: &str = "WHATIF_FLEET_URL";
/// The user, if `--user` does not say.
const USER: &str = "WHATIF_FLEET_USER";
/// The password, if there is no file with it.
const PASSWORD: &str = "WHATIF_FLEET_PASSWORD";
/// How often `push --follow` looks for more.
const LOOK: Duration = Duration::from_secs(60);
/// The first wait for a server that is away, at most; each is twice the last one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// `whatif fleet init`: what was done, a line for each server.
///
/// # Errors
///
/// [`Error::Away`], [`Error::Refused`], [`Error::Usage`], [`Error::Tables`] where they are newer.
pub fn init(args: &Init) -> Result<Vec<String>, Error> {
    let urls = if args.urls.is_empty() { vec![default_url()?] } else { args.urls.clone() };
    if args.cluster.is_none() && urls.len() > 1 {
        return Err(Error::Usage(
            "several servers are shards of a cluster: name it with --cluster, or give one --url".to_owned(),
        ));
    }
    let logins: Vec<Login> = urls.iter().map(|url| login(url, &args.user)).collect::<Result<_, _>>()?;
    Store::init(&logins, args.cluster.as_deref(), args.keep_days)
}

/// `whatif fleet push`: sends what there is, and with `--follow` goes on until `wait` says that it was interrupted. `after` gets what came of each hour, `say` what happens,
/// for people; `wait` gets how long to wait, and returns whether to go on.
///
/// # Errors
///
/// As [`init`]; [`Error::Database`] and [`Error::Note`] of the local side. With `--follow` what may pass ([`Error::is_temporary`]) is none.
pub fn push(
    args: &Push,
    after: &mut dyn FnMut(Pushed),
    say: &mut dyn FnMut(&str),
    wait: &mut dyn FnMut(Duration) -> bool,
) -> Result<Pushed, Error> {
    let login = login_at(&args.at)?;
    let asked = Asked {
        // Recordings may be all there is.
        folder: match (&args.folder.db, args.recordings.is_empty()) {
            (None, false) => None,
            (named, _) => Some(cycles::default_folder(named.as_deref()).map_err(of_analysis)?),
        },
        recordings: args.recordings.clone(),
        named: Named { service: args.service.clone(), version: args.version.clone() },
    };
    let (mut all, mut senders, mut attempts) = (Pushed::default(), None, 0_u32);
    loop {
        let mut once = |senders: &mut Option<Senders>, all: &mut Pushed| {
            if let Some(of) = &*senders
                && !of.store.is_same()?
            {
                // What is noted and remembered is of other tables. The next one needs the lock of this one.
                *senders = None;
            }
            let senders = match senders {
                Some(senders) => senders,
                None => senders.insert(Senders::new(Store::open(&login)?, &asked)?),
            };
            senders.once(
                &mut |pushed| {
                    let pushed = Pushed { waiting: 0, refused: 0, ..pushed };
                    all.add(pushed);
                    after(pushed);
                },
                say,
            )
        };
        match once(&mut senders, &mut all) {
            Ok(pushed) => {
                // Of this moment, and not of all that were.
                (all.waiting, all.refused) = (pushed.waiting, pushed.refused);
                if attempts > 0 {
                    let attempts = counted(attempts.into(), "attempt");
                    say(&format!("{} answers again, after {attempts}", login.url));
                }
                attempts = 0;
                if !args.follow {
                    return Ok(all);
                }
                if pushed.hours > 0 {
                    let (hours, samples) = (counted(pushed.hours, "hour"), counted(pushed.samples, "sample"));
                    say(&format!("sent {hours}, {samples}"));
                }
                if pushed.runs > 0 {
                    let (runs, windows) = (counted(pushed.runs, "run"), counted(pushed.windows, "window"));
                    say(&format!("sent {runs}, {windows}"));
                }
                if !wait(LOOK) {
                    return Ok(all);
                }
            }
            Err(error) if args.follow && error.is_temporary() => {
                attempts += 1;
                if attempts == 1 {
                    say(&format!(
                        "{error}\n  nothing is lost: what was not sent is kept here; trying again until then"
                    ));
                }
                if !wait(pause(attempts, fastrand::f64())) {
                    return Ok(all);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is to be sent.
struct Asked {
    folder: Option<PathBuf>,
    recordings: Vec<PathBuf>,
    named: Named,
}

/// Who send it, to one store.
struct Senders {
    store: Rc<Store>,
    samples: Option<Sender>,
    runs: RunSender,
}

impl Senders {
    fn new(store: Store, asked: &Asked) -> Result<Senders, Error> {
        let store = Rc::new(store);
        let sender = |folder: &PathBuf| Sender::new(Rc::clone(&store), folder);
        let samples = asked.folder.as_ref().map(sender).transpose()?;
        let note = asked.folder.as_deref().zip(samples.as_ref().map(Sender::note));
        let runs = RunSender::new(&asked.recordings, &asked.named, note);
        Ok(Senders { store, samples, runs })
    }

    fn once(&mut self, after: &mut dyn FnMut(Pushed), say: &mut dyn FnMut(&str)) -> Result<Pushed, Error> {
        let mut all = match &mut self.samples {
            Some(sender) => sender.once(after)?,
            None => Pushed::default(),
        };
        all.add(self.runs.once(&self.store, after, say)?);
        Ok(all)
    }
}

/// Sends all runs that are over in recordings (files, or folders with files in them), once: for one who has a folder of them. The files stay; the note of what
/// was sent is in their folder.
///
/// # Errors
///
/// As [`init`]; [`Error::Note`]. What may pass ([`Error::is_temporary`]) is worth another attempt.
pub fn send_recordings(at: &At, recordings: &[PathBuf], named: &Named) -> Result<Pushed, Error> {
    let store = Store::open(&login_at(at)?)?;
    RunSender::new(recordings, named, None).once(&store, &mut |_| (), &mut |_| ())
}

/// How long to wait after so many attempts (from 1 on). `chance`, from 0 to 1, takes up to half of it off: machines that have lost the same server come back one after the other.
fn pause(attempts: u32, chance: f64) -> Duration {
    let longest = FIRST_WAIT * 2_u32.saturating_pow(attempts.saturating_sub(1).min(16));
    longest.min(LONGEST_WAIT).mul_f64(1.0 - chance / 2.0)
}

/// `whatif fleet top`.
///
/// # Errors
///
/// As [`init`]; [`Error::Nothing`] where there are no samples; [`Error::Database`] of a local database.
pub fn top(args: &Top) -> Result<cycles::Top, Error> {
    answers::top(&mut *source(&args.asked)?, args)
}

/// `whatif fleet flame`: the flame graph, and what it is of.
///
/// # Errors
///
/// See [`top`].
pub fn flame(args: &Flame) -> Result<(Heading, cycles::Flame), Error> {
    flame::flame(&mut *source(&args.asked)?, args)
}

/// `whatif fleet diff`.
///
/// # Errors
///
/// See [`top`].
pub fn diff(args: &Diff) -> Result<Difference, Error> {
    answers::diff(&mut *source(&args.asked)?, args)
}

/// `whatif fleet hosts`.
///
/// # Errors
///
/// See [`top`].
pub fn hosts(args: &Hosts) -> Result<answers::Hosts, Error> {
    answers::hosts(&*source(&args.asked)?, &args.which)
}

/// `whatif fleet worth`.
///
/// # Errors
///
/// See [`top`]; [`Error::NoRuns`] where there are none.
pub fn worth(args: &Worth) -> Result<Worths, Error> {
    let mut worths = whole_worth(args)?;
    worths.shorten(args.top);
    Ok(worths)
}

/// The same with all rows, for one who judges them.
///
/// # Errors
///
/// See [`worth`].
pub fn whole_worth(args: &Worth) -> Result<Worths, Error> {
    let which = args.which();
    if args.recordings.is_empty() {
        let mut store = Store::open(&login_at(&args.at)?)?;
        let asked = answer::Asked::of(&store, &which)?;
        return answer::worth(asked, Some(&mut store), args);
    }
    let runs = LocalRuns { paths: args.recordings.clone() };
    let asked = answer::Asked::of(&runs, &which)?;
    let Some(folder) = &args.db else { return answer::worth(asked, None, args) };
    let (_, db) = cycles::open(Some(folder)).map_err(of_analysis)?;
    answer::worth(asked, Some(&mut LocalSource::new(db)?), args)
}

/// `whatif fleet status`.
///
/// # Errors
///
/// See [`init`].
pub fn status(args: &Status) -> Result<Standing, Error> {
    standing(&Store::open(&login_at(&args.at)?)?)
}

/// `whatif fleet sql`: the server's answer in the format that was asked for.
///
/// # Errors
///
/// See [`init`].
pub fn sql(args: &Sql) -> Result<String, Error> {
    if !args.format.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Error::Usage("a format is one word, such as TabSeparated".to_owned()));
    }
    Store::open(&login_at(&args.at)?)?.server.text(&args.statement, &args.format)
}

/// `whatif fleet stop` and `whatif fleet resume`: the order, as it was given.
///
/// # Errors
///
/// See [`init`].
pub fn give_order(args: &GiveOrder, stopped: bool) -> Result<Order, Error> {
    if args.reason.trim().is_empty() {
        return Err(Error::Usage(
            "say why with --reason: it is what people read on their machines".to_owned(),
        ));
    }
    let store = Store::open(&login_at(&args.at)?)?;
    let who = args.by.clone().unwrap_or_else(someone);
    // Where a shard is away what was said last cannot be read, and a stop is given all the same.
    let last = order::last(&store).ok().flatten();
    let order = Order::now(stopped, args.reason.trim(), &who, last.as_ref());
    order::give(&store, &order)?;
    Ok(order)
}

/// The user and the machine.
fn someone() -> String {
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), host.trim())
}

/// A server that is asked, again and again, whether experiments may be made.
pub struct Orders {
    login: Login,
    store: Option<Store>,
}

impl Orders {
    /// Which server; it is not asked yet.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`].
    pub fn at(at: &At) -> Result<Self, Error> {
        Ok(Self { login: login_at(at)?, store: None })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.login.url
    }

    /// The last order; none if none was ever given.
    ///
    /// # Errors
    ///
    /// See [`init`].
    pub fn last(&mut self) -> Result<Option<Order>, Error> {
        // A connection that was left alone for a while may have been closed: that says nothing of the server.
        if let Some(store) = self.store.take()
            && let Ok(order) = order::last(&store)
        {
            self.store = Some(store);
            return Ok(order);
        }
        let store = Store::open(&self.login)?;
        let order = order::last(&store)?;
        self.store = Some(store);
        Ok(order)
    }
}

fn source(asked: &arguments::Asked) -> Result<Box<dyn Source>, Error> {
    match &asked.db {
        Some(folder) => {
            let (_, db) = cycles::open(Some(folder)).map_err(of_analysis)?;
            Ok(Box::new(LocalSource::new(db)?))
        }
        None => Ok(Box::new(Store::open(&login_at(&asked.at)?)?)),
    }
}

fn default_url() -> Result<String, Error> {
    std::env::var(URL).ok().filter(|url| !url.is_empty()).ok_or_else(|| {
        Error::Usage(format!("which server? name it with --url http://HOST:8123, or in ${URL}"))
    })
}

fn login_at(at: &At) -> Result<Login, Error> {
    let url = at.url.clone().map_or_else(default_url, Ok)?;
    login(&url, &at.user)
}

fn login(url: &str, user: &User) -> Result<Login, Error> {
    let from_env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let password = match &user.password_file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::Usage(format!(
                    "cannot read the password in {}: {error}; give another file",
                    path.display()
                ))
            })?;
            Some(text.trim_end_matches(['\n', '\r']).to_owned())
        }
        None => from_env(PASSWORD),
    };
    Ok(Login {
        url: url.to_owned(),
        database: user.database.clone(),
        user: user.user.clone().or_else(|| from_env(USER)),
        password,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_and_are_not_the_same_everywhere() {
        for (attempts, longest) in [(1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (u32::MAX, 300)] {
            let longest = Duration::from_secs(longest);
            assert_eq!(pause(attempts, 0.0), longest, "{attempts}");
            assert_eq!(pause(attempts, 1.0), longest / 2, "{attempts}");
        }
    }
}

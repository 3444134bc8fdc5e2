//! `whatif run --live`: the page while the program runs.
//!
//! **Does:** estimate what is recorded so far now and then, and send it to every browser that shows the page (server-sent
//! events); take note of the region that a user of the page wants to know more about. **Does not:** touch the experiments, but for
//! that region's share of them; nor the recording, which it reads like any other reader.

use crate::show;
use crate::site::{Request, Site};
use anyhow::Result;
use controller::launch;
use profile::{EstimateOptions, Profile, Recording, Region};
use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two reports.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two reports, at least, as a multiple of what a report takes: it uses a CPU that the program may want.
const SHARE: u32 = 25;
/// Intervals that are about to shrink need not be as smooth as those that are kept.
const RESAMPLES: usize = 200;
/// How long a client waits for the first report.
const PATIENCE: Duration = Duration::from_secs(20);
/// A browser that hears nothing for this long is told that all is well.
const SILENCE: Duration = Duration::from_secs(10);

/// The page of a program that is being profiled.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

struct Shared {
    now: Mutex<Now>,
    /// Something new is there.
    news: Condvar,
}

#[derive(Default)]
struct Now {
    /// The latest report, and its number.
    report: Option<Arc<str>>,
    number: u64,
    ended: bool,
    /// What regions are called in the report.
    names: HashSet<String>,
    /// The region that the user wants to know more about.
    pinned: Option<String>,
}

/// What a page is told.
struct News {
    report: Option<Arc<str>>,
    /// The report's number.
    number: u64,
    pinned: Option<String>,
    /// Whether it is the last report.
    ended: bool,
}

impl Live {
    /// Serves the page, and says where.
    pub fn start(recording: PathBuf, browser: bool) -> Result<Self> {
        let live = Self(Arc::new(Shared { now: Mutex::default(), news: Condvar::new() }));
        let site = Site::open()?;
        kernel::say!("whatif: live, to this machine only: {}", site.address());
        if browser {
            site.browse();
        }
        let serving = live.clone();
        std::thread::Builder::new().name("page".into()).spawn(move || {
            site.serve(|request| serving.answer(request));
        })?;
        let looking = live.clone();
        std::thread::Builder::new().name("live".into()).spawn(move || looking.look(&recording))?;
        Ok(live)
    }

    /// Whether the user wants to know more about this region.
    pub fn wants(&self, region: &Region) -> bool {
        self.now().pinned.as_ref().is_some_and(|pinned| *pinned == region.name || *pinned == region.label())
    }

    /// Whether the user wants to know more about any region.
    pub fn wants_more(&self) -> bool {
        self.now().pinned.is_some()
    }

    /// Shows the whole answer, and waits until the user has seen enough (Ctrl-C).
    pub fn stay(&self, recording: &Path) {
        // A user who sees the end on the page may press Ctrl-C at once.
        launch::stay();
        let last = show::load(recording).ok();
        self.publish(last.as_ref(), true);
        kernel::say!("whatif: the page stays until Ctrl-C");
        launch::wait_until_asked_to_end();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `last`: nothing comes after it.
    fn publish(&self, profile: Option<&Profile>, last: bool) {
        let report = profile.map(report::json::render_whole);
        let names = profile.map(|profile| {
            let regions = profile.rows.regions.values();
            regions.flat_map(|region| [region.name.clone(), region.label()]).collect()
        });
        let mut now = self.now();
        if now.ended {
            return; // it was overtaken by the last one
        }
        if let (Some(report), Some(names)) = (report, names) {
            now.report = Some(report.into());
            now.names = names;
            now.number += 1;
        }
        now.ended = last;
        drop(now);
        self.0.news.notify_all();
    }

    fn look(&self, recording: &Path) {
        let options = EstimateOptions { resamples: RESAMPLES, ..EstimateOptions::default() };
        let mut windows = None;
        while !self.now().ended {
            let begin = Instant::now();
            // Before the first experiment there is nothing to read.
            if let Ok(rows) = Recording::open(recording).and_then(|recording| recording.rows())
                && windows.replace(rows.windows.len()) != Some(rows.windows.len())
            {
                self.publish(Some(&Profile::new(rows, &options).read_from(recording)), false);
            }
            std::thread::sleep(LOOK.max(begin.elapsed() * SHARE));
        }
    }

    fn answer(&self, request: Request) {
        match (&*request.method, &*request.path) {
            ("GET", "/") => request.answer("text/html; charset=utf-8", report::html::EMPTY_PAGE),
            ("GET", "/data.json") => match self.after(0, None, PATIENCE).report {
                Some(report) => request.answer("application/json", &report),
                None => request.refuse(503, "there is no experiment yet"),
            },
            ("GET", "/events") => self.tell(request),
            ("POST", "/pin") => match self.pin(&request.parameter("region").unwrap_or_default()) {
                Ok(()) => request.answer("text/plain; charset=utf-8", ""),
                Err(why) => request.refuse(409, why),
            },
            ("GET", _) => request.refuse(404, "there is one page"),
            _ => request.refuse(405, "that cannot be changed"),
        }
    }

    /// Pins the region of that name; nothing lets go what was pinned.
    fn pin(&self, region: &str) -> Result<(), &'static str> {
        let mut now = self.now();
        if now.ended {
            return Err("the program has ended");
        }
        if !region.is_empty() && !now.names.contains(region) {
            return Err("no region has that name so far");
        }
        now.pinned = Some(region.to_owned()).filter(|region| !region.is_empty());
        drop(now);
        self.0.news.notify_all();
        Ok(())
    }

    /// The report after number `seen`, once there is one, or another region than `pinned` is.
    fn after(&self, seen: u64, pinned: Option<&Option<String>>, patience: Duration) -> News {
        let waiting = |now: &mut Now| {
            now.number <= seen && !now.ended && pinned.is_none_or(|pinned| *pinned == now.pinned)
        };
        let waited = self.0.news.wait_timeout_while(self.now(), patience, waiting);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        News {
            report: now.report.clone().filter(|_| now.number > seen),
            number: now.number,
            pinned: now.pinned.clone(),
            ended: now.ended,
        }
    }

    /// Sends each report as it comes, until the end or until the browser has gone.
    fn tell(&self, request: Request) {
        let Ok(mut to) = request.begin("text/event-stream") else { return };
        // From the beginning: something may have come since the page asked for what it has.
        let mut seen = 0;
        let mut pinned = None;
        let mut said = to.write_all(b"retry: 1000\n\n");
        while said.is_ok() {
            let News { report, number, pinned: now_pinned, ended } =
                self.after(seen, pinned.as_ref(), SILENCE);
            seen = number;
            let mut text = match report {
                Some(report) => format!("data: {report}\n\n"),
                None => ": nothing new\n\n".to_owned(),
            };
            // All pages show what was pinned on one of them.
            if pinned.as_ref() != Some(&now_pinned) {
                text += &format!("data: {}\n\n", serde_json::json!({ "pinned": now_pinned }));
                pinned = Some(now_pinned);
            }
            if ended {
                text += "data: {\"ended\":true}\n\n";
            }
            said = to.write_all(text.as_bytes());
            if ended {
                break;
            }
        }
    }
}

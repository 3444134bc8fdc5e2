//! `whatif run --live`: the page while the program runs.
//!
//! **Does:** estimate what is recorded so far now and then, and send it to every browser that shows the page (server-sent
//! events); take note of the region that somebody there wants to know more about. **Does not:** touch the experiments, but for
//! that region's share of them; nor the recording, which it reads like anybody else.

use crate::show;
use crate::site::{self, HEADERS, Site};
use anyhow::Result;
use profile::{EstimateOptions, Profile, Recording, Region};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tiny_http::{Method, Request};

/// Time between two reports,
const LOOK: Duration = Duration::from_secs(1);
/// unless one takes more than such a part of it: it uses a CPU that the program may want.
const SHARE: u32 = 25;
/// Intervals that are about to shrink need not be as smooth as those that are kept.
const RESAMPLES: usize = 200;
/// How long somebody waits for the first report.
const PATIENCE: Duration = Duration::from_secs(20);
/// A browser that hears nothing for so long is told that all is well.
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
    pinned: Option<String>,
}

impl Live {
    /// Serves the page, and says where.
    pub fn start(recording: PathBuf, browser: bool) -> Result<Self> {
        let live = Self(Arc::new(Shared { now: Mutex::default(), news: Condvar::new() }));
        let site = Site::open()?;
        eprintln!("whatif: live, to this machine only: {}", site.address());
        if browser {
            site.browse();
        }
        let serving = live.clone();
        std::thread::Builder::new().name("page".into()).spawn(move || {
            while let Some(request) = site.next() {
                let serving = serving.clone();
                // Some of them take as long as the program.
                let _ =
                    std::thread::Builder::new().name("visitor".into()).spawn(move || serving.answer(request));
            }
        })?;
        let looking = live.clone();
        std::thread::Builder::new().name("live".into()).spawn(move || looking.look(&recording))?;
        Ok(live)
    }

    /// Whether somebody wants to know more about this region.
    pub fn wants(&self, region: &Region) -> bool {
        self.now().pinned.as_ref().is_some_and(|pinned| *pinned == region.name || *pinned == region.label())
    }

    /// Whether somebody wants to know more about any.
    pub fn wants_more(&self) -> bool {
        self.now().pinned.is_some()
    }

    /// Shows the whole answer, and waits until somebody has seen enough (Ctrl-C).
    pub fn stay(&self, recording: &Path) {
        if let Ok(profile) = show::load(recording) {
            self.publish(&profile);
        }
        self.now().ended = true;
        self.0.news.notify_all();
        eprintln!("whatif: the page stays until Ctrl-C");
        crate::launch::wait_until_asked_to_end();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, profile: &Profile) {
        let report = report::json::render_whole(profile);
        let mut now = self.now();
        now.report = Some(report.into());
        now.number += 1;
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
                let profile = Profile::new(rows, &options);
                if !self.now().ended {
                    self.publish(&profile);
                }
            }
            std::thread::sleep(LOOK.max(begin.elapsed() * SHARE));
        }
    }

    fn answer(&self, request: Request) {
        match (request.method(), site::path(&request)) {
            (Method::Get, "/") => site::answer(request, "text/html; charset=utf-8", report::html::EMPTY_PAGE),
            (Method::Get, "/data.json") => match self.after(0, PATIENCE).0 {
                Some(report) => site::answer(request, "application/json", &report),
                None => site::refuse(request, 503, "there is no experiment yet"),
            },
            (Method::Get, "/events") => self.tell(request),
            (Method::Post, "/pin") => match site::parameter(&request, "region") {
                Some(region) if !self.now().ended => {
                    self.now().pinned = Some(region);
                    site::answer(request, "text/plain; charset=utf-8", "");
                }
                _ => site::refuse(request, 409, "the program has ended"),
            },
            (Method::Get, _) => site::refuse(request, 404, "there is one page"),
            _ => site::refuse(request, 405, "that cannot be changed"),
        }
    }

    /// The report after number `seen`, once there is one, its number, and whether it is the last.
    fn after(&self, seen: u64, patience: Duration) -> (Option<Arc<str>>, u64, bool) {
        let waiting = |now: &mut Now| now.number <= seen && !now.ended;
        let waited = self.0.news.wait_timeout_while(self.now(), patience, waiting);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let report = now.report.clone().filter(|_| now.number > seen);
        (report, now.number, now.ended)
    }

    /// Sends each report as it comes, until the end or until the browser has gone.
    fn tell(&self, request: Request) {
        // What was there when the page asked for the data it has.
        let mut seen = self.now().number;
        let mut to = request.into_writer();
        let mut head =
            String::from("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n");
        for (field, value) in HEADERS {
            head += &format!("{field}: {value}\r\n");
        }
        let mut said =
            to.write_all(format!("{head}\r\nretry: 1000\n\n").as_bytes()).and_then(|()| to.flush());
        while said.is_ok() {
            let (report, number, ended) = self.after(seen, SILENCE);
            seen = number;
            let mut text = match report {
                Some(report) => format!("data: {report}\n\n"),
                None => ": nothing new\n\n".to_owned(),
            };
            if ended {
                text += "data: {\"ended\":true}\n\n";
            }
            said = to.write_all(text.as_bytes()).and_then(|()| to.flush());
            if ended {
                break;
            }
        }
    }
}

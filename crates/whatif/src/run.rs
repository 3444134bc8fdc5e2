//! `whatif run`: what the controller finds is drawn, and shown on a page while the program runs.

use crate::cli::Attach;
use crate::live::Live;
use crate::{overview, show};
use anyhow::Result;
use controller::launch::Exit;
use controller::{Audience, arguments};
use profile::{Profile, Region};
use std::cell::OnceCell;
use std::path::Path;

/// Runs a program under the profiler. Returns how it ended, and the exit status that says why there is no answer if there is none.
pub fn run(args: &arguments::Run) -> Result<(Exit, i32)> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(option) = overview::option_behind_the_program(&words, &args.program).filter(|_| !args.quiet) {
        let (option, program) = (profile::printable(option), args.program[0].to_string_lossy());
        let program = profile::printable(&program);
        kernel::say!(
            "whatif: {option} stands behind {program}, so it is an option of {program}; write what is for whatif before it: \
             whatif run {option} … -- {program}"
        );
    }
    let viewers = Viewers { page: args.live, browser: !args.no_browser, live: OnceCell::new() };
    controller::run(args, Box::new(viewers))
}

/// Profiles processes that run already. Returns the exit status that says why there is no answer if there is none.
pub fn attach(args: &mut Attach) -> Result<i32> {
    let selection = args.selection()?;
    let limits = args.limits.asked().map_err(controller::Usage::of)?;
    let args = &mut args.run;
    let viewers = Viewers { page: args.live, browser: !args.no_browser, live: OnceCell::new() };
    controller::attach::attach(args, selection, &limits, Box::new(viewers))
}

/// Those who look at the terminal, and at the page if there is one.
struct Viewers {
    /// Whether there is to be a page, and a browser that shows it.
    page: bool,
    browser: bool,
    live: OnceCell<Live>,
}

impl Audience for Viewers {
    fn begins(&self, recording: &Path) -> Result<()> {
        if self.page {
            // In a container a browser would be that one's.
            let browser = self.browser && !kernel::name_spaces::is_inside();
            let live = Live::start(recording.to_owned(), browser)?;
            self.live.get_or_init(|| live);
        }
        Ok(())
    }

    fn answered(&self, profile: &Profile, recording: &Path) {
        show::after_run(profile, recording);
    }

    fn wants(&self, region: &Region) -> bool {
        self.live.get().is_some_and(|live| live.wants(region))
    }

    fn wants_more(&self) -> bool {
        self.live.get().is_some_and(Live::wants_more)
    }

    fn ended(&self, recording: &Path) {
        if let Some(live) = self.live.get() {
            live.stay(recording);
        }
    }
}

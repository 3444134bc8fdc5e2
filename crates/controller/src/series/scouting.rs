//! A program that marks no progress point, and for which the user has named none: a place is looked for whose visits can count as
//! progress, while the program runs. Where there is none, it is said what there is instead.

use super::Series;
use crate::arguments::Then;
use crate::candidates::{self, Candidate, Found};
use crate::diagnosis;
use crate::launch::is_marked;
use crate::now::monotonic;
use crate::observe::lock;
use crate::runs::Chosen;
use crate::survey;
use crate::warning::Warning;
use crate::window::Conductor;
use anyhow::Result;
use profile::{Nanos, printable};

/// How long a program with marks has to register its first point, before whatif reports that there is none.
const PATIENCE: Nanos = Nanos::from_millis(1500);
/// The same for one without.
const WITHOUT_MARKS: Nanos = Nanos::from_millis(200);
/// Time between two looks whether there is a point.
const LOOK: Nanos = Nanos::from_millis(10);
/// Samples that stacks are judged by.
const ENOUGH: u64 = 100;
/// From the second attempt on any place will do whose visits can be counted.
const CHOOSY: u32 = 1;
/// So long after the first attempt whatif reports that there is none, and the program is asked to end if it has a time. Otherwise the search goes on, ever less often: the load may
/// come later.
const LAST: Nanos = Nanos::from_millis(3000);
/// The time between the first two attempts.
const PAUSE: Nanos = Nanos::from_millis(500);
/// It is doubled so often at most.
const MOST_DOUBLINGS: u32 = 5;
/// How long a program may be idle, before whatif reports that it is.
const IDLE: Nanos = Nanos::from_millis(3000);
/// Other places that are named beside the one that is chosen.
const OTHERS: usize = 3;

/// What has been looked into so far.
#[derive(Default)]
struct Scout {
    warned: bool,
    is_told_idle: bool,
    has_given_up: bool,
    /// How many files had been loaded when marks were looked for last.
    loaded: Option<usize>,
    tries: u32,
    /// When they were counted first.
    first: Option<Nanos>,
    /// When places are counted next.
    next: Nanos,
    /// Samples before those that count.
    before: u64,
    /// Files that are looked into besides the program.
    besides: Vec<String>,
}

impl Series<'_> {
    /// Waits until visits to something can count as progress. False if the program ended or the time was up before.
    pub(super) fn wait_for_point(
        &mut self,
        conductor: &mut Conductor<'_>,
        over: &impl Fn() -> bool,
    ) -> Result<bool> {
        if self.options.looks_for_point() && !self.points.is_any() {
            let chosen = self.runs.chosen.clone();
            if chosen.is_none_or(|chosen| self.choose(&chosen).is_err()) && !self.scout(conductor, over)? {
                return Ok(false);
            }
        }
        lock(self.observer).forget_stacks();
        Ok(true)
    }

    fn scout(&mut self, conductor: &mut Conductor<'_>, over: &impl Fn() -> bool) -> Result<bool> {
        let begin = monotonic();
        let mut scout = Scout::default();
        while !over() && conductor.wait(LOOK) {
            if self.points.is_any() {
                return Ok(true);
            }
            self.save(conductor.delayed())?;
            let passed = monotonic().saturating_sub(begin);
            if passed < WITHOUT_MARKS.max(scout.next) {
                continue;
            }
            if passed < PATIENCE && self.has_new_marks(&mut scout) {
                scout.next = PATIENCE;
                continue;
            }
            if !std::mem::replace(&mut scout.warned, true) {
                self.say(
                    "no progress point is marked in this program: looking for a place whose visits can count as progress \
                     (-p PLACE names one)",
                );
            }
            let (samples, cpu) = lock(self.observer).totals();
            if samples < scout.before + ENOUGH {
                let share = cpu.as_secs_f64() / passed.as_secs_f64();
                if passed > IDLE
                    && share < diagnosis::IDLE
                    && !std::mem::replace(&mut scout.is_told_idle, true)
                {
                    let per_cent = 100.0 * share;
                    self.say(&format!(
                        "the program is idle so far ({per_cent:.1} % of a CPU): send it requests while this runs"
                    ));
                }
                continue;
            }
            scout.before = samples;
            if scout.besides.is_empty() && self.widen(&mut scout, false)? {
                continue;
            }
            scout.tries += 1;
            scout.next = passed + Nanos::new(PAUSE.get() << (scout.tries - 1).min(MOST_DOUBLINGS));
            // Those that are left to be chosen, and all, as they could be counted from the program's beginning.
            let (mut found, mut all) = (Vec::new(), Vec::new());
            for kind in candidates::ALL_KINDS {
                let more = candidates::find(&[kind], self.options, self.points, self.observer, |time| {
                    conductor.wait(time)
                })?;
                let Some(more) = more else { return Ok(false) };
                all.extend_from_slice(&more);
                found.extend(more);
                candidates::sort(&mut found);
                if self.choose_from(&mut found, Found::is_good)? {
                    return Ok(true);
                }
            }
            if found.is_empty() && scout.besides.is_empty() && self.widen(&mut scout, true)? {
                continue;
            }
            // Better than none.
            if scout.tries > CHOOSY && self.choose_from(&mut found, Found::is_affordable)? {
                return Ok(true);
            }
            let first = *scout.first.get_or_insert(passed);
            if scout.tries <= CHOOSY || passed.saturating_sub(first) < LAST {
                continue;
            }
            if !std::mem::replace(&mut scout.has_given_up, true) {
                candidates::sort(&mut all);
                self.give_up(&all, &scout);
            }
            if self.options.duration.is_some() && self.options.then == Then::Terminate {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Chooses the first place that will do; whether any can be.
    fn choose_from(&mut self, found: &mut Vec<Found>, will_do: impl Fn(&Found) -> bool) -> Result<bool> {
        while let Some(nth) = found.iter().position(&will_do) {
            let Found { candidate, by_itself, .. } = &found[nth];
            let chosen = Chosen { place: candidate.place.clone(), by_itself: *by_itself };
            if self.choose(&chosen).is_ok() {
                self.tell(&found[nth], found)?;
                self.runs.chosen = Some(chosen);
                self.runs.visit_cost = kernel::visits::cost(kernel::visits::Means::Breakpoint).ok();
                return Ok(true);
            }
            match &mut found[nth].by_itself {
                // Then by breakpoints, if these are cheap enough.
                by_itself @ true => *by_itself = false,
                false => drop(found.remove(nth)),
            }
            candidates::sort(found);
        }
        Ok(false)
    }

    /// Whether progress points are marked in the source of what was loaded; false where that was looked at before.
    fn has_new_marks(&self, scout: &mut Scout) -> bool {
        let observer = lock(self.observer);
        let images = observer.images();
        scout.loaded.replace(images.arrivals()) != Some(images.arrivals()) && images.opened().any(is_marked)
    }

    /// Looks where the time is, if it is not in the program's own code, or nothing was found there; whether there is more to be seen now.
    fn widen(&mut self, scout: &mut Scout, in_vain: bool) -> Result<bool> {
        scout.besides = candidates::widen(&self.options.scope, &mut lock(self.observer), in_vain);
        if scout.besides.is_empty() {
            return Ok(false);
        }
        let warning = Warning::ChosenFiles { files: scout.besides.clone() };
        self.say(&warning.to_string());
        self.session.warn(&warning)?;
        Ok(true)
    }

    fn choose(&self, chosen: &Chosen) -> Result<()> {
        let observer = lock(self.observer);
        self.points.choose(&chosen.place, chosen.by_itself, observer.images(), &self.options.scope.sources)
    }

    /// Says which place was chosen, and what else there is.
    fn tell(&mut self, best: &Found, found: &[Found]) -> Result<()> {
        let place = &best.candidate.place;
        self.session.warn(&Warning::ChosenPoint { place: place.clone() })?;
        let what = match best.candidate.share {
            Some(_) => format!("visits to {}", printable(place)),
            None => format!("answered requests of other programs ({place})"),
        };
        let mut text = format!("{what} count as progress: {}", seen(best));
        let others = found.iter().filter(|other| *other != best && other.is_affordable()).take(OTHERS);
        let others: Vec<&Candidate> = others.map(|other| &other.candidate).collect();
        text += match others.len() {
            0 => "; if that is no unit of work, name a place where one is done with -p",
            _ => "; if that is no unit of work, name a place where one is done, such as",
        };
        for other in others {
            text += &format!("\n  -p {}   {}", crate::command([&other.place]), printable(&other.at));
        }
        self.say(&text);
        Ok(())
    }

    /// Says that there are no experiments, and what may help.
    fn give_up(&self, found: &[Found], scout: &Scout) {
        self.say(
            "no place was found that is visited steadily and is cheap to count, so there are no experiments",
        );
        if !self.options.quiet && !found.is_empty() {
            self.progress.say(&survey::places(found, self.options, &scout.besides));
            if !found.iter().any(Found::is_affordable) {
                self.say(survey::TOO_OFTEN);
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.options.quiet {
            self.progress.say(&format!("whatif: {text}"));
        }
    }
}

/// What is known of a place, for people.
fn seen(found: &Found) -> String {
    let rate = found.rate;
    let often = format!("{:.0} a second ± {:.0} %", rate.per_second, 100.0 * rate.error);
    if found.candidate.share.is_none() {
        return often;
    }
    format!(
        "{often}{}, {} of the time, counting them costs {} of a CPU{}",
        if rate.is_that_of_requests() { ", one for each request" } else { "" },
        survey::of_time(&found.candidate),
        survey::cost(found.cost()),
        if found.by_itself { " (the program counts them itself)" } else { "" }
    )
}

//! A program that marks no progress point, and for which the user has named none: a place is looked for whose visits can count as
//! progress, while the program runs. Where there is none, it is sampled to its end.

use super::Series;
use crate::candidates::{self, Candidate, Found};
use crate::now::monotonic;
use crate::observe::lock;
use crate::survey;
use crate::warning::Warning;
use crate::window::Conductor;
use anyhow::Result;
use profile::{Nanos, printable};

/// How long a program has to register its first point, before the user is told that there is none.
const PATIENCE: Nanos = Nanos::from_millis(1500);
/// Time between two looks whether there is a point.
const LOOK: Nanos = Nanos::from_millis(10);
/// Samples that stacks are judged by.
const ENOUGH: u64 = 100;
/// How often places are counted, before the user is told that there is none so far. It goes on, ever less often: the load may come later.
const TRIES: u32 = 3;
/// The time between two attempts is doubled so often at most.
const MOST_DOUBLINGS: u32 = 5;
/// A place is chosen only if this share of the samples has it on their stack.
const LEAST_SHARE: f64 = 0.1;
/// A place is chosen only if it varies by less than this.
const MOST_VARIATION: f64 = 1.0;
/// Other places that are named beside the one that is chosen.
const OTHERS: usize = 3;

/// What has been looked into so far.
#[derive(Default)]
struct Scout {
    warned: bool,
    tries: u32,
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
            if chosen.is_none_or(|place| self.choose(&place).is_err()) && !self.scout(conductor, over)? {
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
            if passed < PATIENCE.max(scout.next) {
                continue;
            }
            if !std::mem::replace(&mut scout.warned, true) {
                self.say(
                    "no progress point is marked in this program: looking for a place whose visits can count as progress \
                     (-p PLACE names one)",
                );
            }
            let (samples, _) = lock(self.observer).totals();
            if samples < scout.before + ENOUGH {
                continue;
            }
            scout.before = samples;
            if scout.besides.is_empty() && self.widen(&mut scout, false)? {
                continue;
            }
            scout.tries += 1;
            scout.next = passed + Nanos::new(PATIENCE.get() << scout.tries.min(MOST_DOUBLINGS));
            let found = candidates::find(&self.options.scope, false, self.points, self.observer, |time| {
                conductor.wait(time)
            })?;
            let Some(found) = found else { return Ok(false) };
            if found.is_empty() && scout.besides.is_empty() && self.widen(&mut scout, true)? {
                continue;
            }
            if let Some(best) = best(&found)
                && self.choose(&best.candidate.place).is_ok()
            {
                self.tell(best, &found)?;
                self.runs.chosen = Some(best.candidate.place.clone());
                self.runs.visit_cost = kernel::visits::cost(kernel::visits::Means::Breakpoint).ok();
                return Ok(true);
            }
            if scout.tries == TRIES {
                self.give_up(&found, &scout);
            }
        }
        Ok(false)
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

    fn choose(&self, place: &str) -> Result<()> {
        let observer = lock(self.observer);
        self.points.choose(place, observer.images(), &self.options.scope.sources)
    }

    /// Says which place was chosen, and what else there is.
    fn tell(&mut self, best: &Found, found: &[Found]) -> Result<()> {
        let place = &best.candidate.place;
        self.session.warn(&Warning::ChosenPoint { place: place.clone() })?;
        let mut text = format!("visits to {} count as progress: {}", printable(place), seen(best));
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

    /// Says that there will be no experiments, and what may help.
    fn give_up(&self, found: &[Found], scout: &Scout) {
        let mut text = String::from(
            "no place was found so far that is visited steadily and is cheap to count: the program is sampled without experiments",
        );
        match found.first() {
            None => text += "; name a place where a unit of work is done with -p FILE:LINE or -p NAME",
            Some(first) => {
                text += &format!(
                    "; the likeliest was {} ({}): {}",
                    printable(&first.candidate.place),
                    seen(first),
                    survey::run_with(&[], &first.candidate.place, self.options, &scout.besides)
                );
            }
        }
        self.say(&text);
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
    format!(
        "{:.0} a second ± {:.0} %, {:.0} % of the time, counting them costs {} of a CPU",
        rate.per_second,
        100.0 * rate.error,
        100.0 * found.candidate.share,
        survey::cost(found.cost())
    )
}

/// The one to choose: functions first, for a line may be visited while a thread only waits.
fn best(found: &[Found]) -> Option<&Found> {
    let will_do = |found: &&Found| {
        found.is_affordable() && found.candidate.share >= LEAST_SHARE && found.rate.variation < MOST_VARIATION
    };
    let is_function = |found: &&Found| found.candidate.place.starts_with("fn:");
    found.iter().filter(will_do).find(is_function).or_else(|| found.iter().find(will_do))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::CallRate;

    #[test]
    fn the_best_is_a_function_that_is_visited_steadily_and_costs_little() {
        let found = |place: &str, share, variation, cost| {
            let candidate =
                Candidate { place: place.to_owned(), at: String::new(), share, own: 0.0, threads: 1 };
            Found {
                candidate,
                rate: CallRate { per_second: 100.0, variation, error: 0.1, cost },
                beside: 0.0,
            }
        };
        let all = [
            found("fn:hot", 0.9, 0.0, 0.5),
            found("a.c:7", 0.9, 0.0, 0.01),
            found("fn:unsteady", 0.9, 2.0, 0.01),
            found("fn:seldom", 0.05, 0.0, 0.01),
            found("fn:good", 0.5, 0.1, 0.01),
        ];
        assert_eq!(best(&all).unwrap().candidate.place, "fn:good");
        assert_eq!(best(&all[..4]).unwrap().candidate.place, "a.c:7");
        assert_eq!(best(&all[2..4]), None);
        // On some CPUs a breakpoint slows down what is beside it.
        let beside = Found { beside: 1.0, ..found("fn:beside", 0.9, 0.0, 0.01) };
        assert_eq!(best(&[beside, found("fn:good", 0.5, 0.1, 0.01)]).unwrap().candidate.place, "fn:good");
    }
}

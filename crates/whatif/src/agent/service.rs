//! Service: one that opted in. When a session of it begins, what ends it, and what follows from how it ended.

use super::back_off::BackOff;
use super::budget::Budget;
use super::health::Health;
use super::options::{self, Options};
use super::schedule::Schedule;
use super::session::{Outcome, Session};
use super::spool::Spool;
use super::state::{Breach, Halt, ServiceState, unix};
use profile::printable;
use std::time::{Duration, Instant};

/// How long a service is left alone after a breach, and at most.
const FIRST: Duration = Duration::from_secs(300);
const LONGEST: Duration = Duration::from_secs(86_400);
/// The same where it cannot be attached to.
const FIRST_FAILURE: Duration = Duration::from_secs(60);
const LONGEST_FAILURE: Duration = Duration::from_secs(3600);
/// As many breaches are kept in the state.
const KEPT: usize = 20;
/// No session begins while a health command has not answered for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Service {
    about: options::Service,
    doing: Doing,
    schedule: Schedule,
    budget: Budget,
    breaches: BackOff,
    failures: BackOff,
    health: Vec<Health>,
    begin: Instant,
    state: ServiceState,
}

#[derive(Debug)]
enum Doing {
    /// Until the next session may begin.
    Waiting(Instant),
    /// Health commands are asked, since then.
    Asking(Instant),
    Profiling(Box<Session>),
}

/// What all services have in common.
pub struct Surroundings<'a> {
    pub options: &'a Options,
    pub spool: &'a mut Spool,
    pub random: &'a mut fastrand::Rng,
    /// Why no experiment may be made.
    pub stopped: Option<&'a str>,
}

impl Service {
    /// `before`: what an agent before has left of it.
    pub fn new(
        about: options::Service,
        options: &Options,
        before: Option<ServiceState>,
        random: &mut fastrand::Rng,
    ) -> Self {
        let schedule = Schedule::new(options.duty, options.session);
        let now = unix();
        let mut state = before.unwrap_or_default();
        let passed = now.saturating_sub(state.at_unix) as f64;
        let owed = Duration::from_secs_f64((state.owed_s - options.most_delay * passed).clamp(0.0, 1e9));
        let (mut breaches, mut failures) =
            (BackOff::new(FIRST, LONGEST), BackOff::new(FIRST_FAILURE, LONGEST_FAILURE));
        let left = |until: Option<u64>| Duration::from_secs(until.unwrap_or(0).saturating_sub(now));
        breaches.resume(state.back_off_steps, left(state.back_off_until_unix));
        failures.resume(0, Duration::ZERO);
        state.name = about.name.clone();
        state.which = format!("{} {}", about.which.0, about.which.1);
        let wait = schedule.wait(random);
        Self {
            health: about.health.iter().cloned().map(Health::new).collect(),
            budget: Budget::new(options.most_delay, schedule.cycle(), owed),
            doing: Doing::Waiting(Instant::now() + wait),
            about,
            schedule,
            breaches,
            failures,
            begin: Instant::now(),
            state,
        }
    }

    /// Whether a session is under way, or about to be.
    pub fn is_busy(&self) -> bool {
        !matches!(self.doing, Doing::Waiting(_))
    }

    /// When something is to be done next, if that is known.
    pub fn next(&self) -> Option<Instant> {
        match self.doing {
            Doing::Waiting(until) => Some(until),
            _ => None,
        }
    }

    /// How it stands.
    pub fn state(&self) -> ServiceState {
        let now = self.begin.elapsed();
        let back_off = self.breaches.left(now).max(self.failures.left(now));
        let doing = match &self.doing {
            Doing::Profiling(_) => "session",
            Doing::Asking(_) => "health",
            Doing::Waiting(_) if back_off.is_some() => "back-off",
            Doing::Waiting(_) => "waiting",
        };
        let before = &self.state;
        ServiceState {
            doing: doing.to_owned(),
            watched_s: before.watched_s + now.as_secs_f64(),
            back_off_s: back_off.map_or(0.0, |left| left.as_secs_f64()),
            back_off_steps: self.breaches.steps(),
            back_off_until_unix: self.breaches.left(now).map(|left| unix() + left.as_secs().max(1)),
            owed_s: self.budget.owed().as_secs_f64(),
            at_unix: unix(),
            ..before.clone()
        }
    }

    /// Does what is to be done now, and waits for nothing; what there is to be said. `around` says whether experiments may be made.
    pub fn step(&mut self, around: &mut Surroundings<'_>) -> Option<String> {
        match &mut self.doing {
            Doing::Waiting(until) if Instant::now() < *until => None,
            Doing::Waiting(_) => match self.not_now(around.stopped) {
                Some(why) => self.skip(why, around),
                None => {
                    self.health.iter_mut().for_each(Health::begin);
                    self.doing = Doing::Asking(Instant::now());
                    None
                }
            },
            Doing::Asking(since) => {
                let since = *since;
                let failed = self.health.iter_mut().find_map(Health::step);
                let why = failed.or_else(|| around.stopped.map(str::to_owned)).or_else(|| {
                    (since.elapsed() > PATIENCE).then(|| "a health command does not answer".to_owned())
                });
                if let Some(why) = why {
                    return self.skip(why, around);
                }
                self.health.iter().all(Health::is_known).then(|| self.begin_session(around)).flatten()
            }
            Doing::Profiling(session) => {
                if let Some(why) = around.stopped {
                    session.halt(why, None);
                }
                if !session.is_halting() {
                    for health in &mut self.health {
                        if let Some(why) = health.step() {
                            session.halt(&why, Some(&format!("health: {}", health.command())));
                        }
                    }
                }
                let outcome = session.step()?;
                self.health.iter_mut().for_each(Health::end);
                self.ended(&outcome, around)
            }
        }
    }

    /// Why no session may begin, apart from health.
    fn not_now(&mut self, stopped: Option<&str>) -> Option<String> {
        let now = self.begin.elapsed();
        if let Some(why) = stopped {
            return Some(why.to_owned());
        }
        if self.breaches.left(now).max(self.failures.left(now)).is_some() {
            return Some("it is left alone for a while, after what went wrong".to_owned());
        }
        self.budget.allows(now).is_none().then(|| "the delay that --most-delay allows is spent".to_owned())
    }

    /// The moment passes without a session: the next one is as random as this one was.
    fn skip(&mut self, why: String, around: &mut Surroundings<'_>) -> Option<String> {
        self.health.iter_mut().for_each(Health::end);
        self.state.skipped += 1;
        let is_new = self.state.last_skip.as_ref() != Some(&why);
        let text = is_new.then(|| format!("{}: no session now: {why}", printable(&self.about.name)));
        self.state.last_skip = Some(why);
        self.wait(around);
        text
    }

    fn wait(&mut self, around: &mut Surroundings<'_>) {
        self.doing = Doing::Waiting(Instant::now() + self.schedule.wait(around.random));
    }

    fn begin_session(&mut self, around: &mut Surroundings<'_>) -> Option<String> {
        let Some(delay) = self.budget.allows(self.begin.elapsed()) else {
            return self.skip("the delay that --most-delay allows is spent".to_owned(), around);
        };
        let length = self.schedule.length(around.random);
        let path = around.spool.begin(&self.about.name, around.random);
        match Session::begin(around.options, &self.about, &path, (length, delay)) {
            Ok(session) => {
                self.state.sessions += 1;
                self.state.last_skip = None;
                self.doing = Doing::Profiling(Box::new(session));
                None
            }
            Err(error) => {
                around.spool.finish(&path);
                let why = format!("no process can be started: {error}; raise its limits (ulimit -u)");
                Some(self.failed(why, around))
            }
        }
    }

    fn failed(&mut self, why: String, around: &mut Surroundings<'_>) -> String {
        let wait = self.failures.fail(self.begin.elapsed());
        self.state.failed += 1;
        let text = format!(
            "{}: {}; left alone for {} s",
            printable(&self.about.name),
            printable(&why),
            wait.as_secs()
        );
        self.state.last_error = Some(why);
        self.wait(around);
        text
    }

    fn ended(&mut self, outcome: &Outcome, around: &mut Surroundings<'_>) -> Option<String> {
        let now = self.begin.elapsed();
        self.schedule.ended(outcome.took);
        self.budget.spend(now, outcome.delayed);
        self.state.attached_s += outcome.took.as_secs_f64();
        self.state.delayed_s += outcome.delayed.as_secs_f64();
        self.state.experiments += outcome.experiments;
        around.spool.finish(&outcome.path);
        if let Some(halted) = outcome.halted.as_ref().filter(|halted| !halted.is_spent) {
            self.state.last_halt = Some(Halt {
                why: halted.why.clone(),
                asked_monotonic_ns: halted.asked_ns,
                still_after_ms: halted.still_after_ms,
            });
        }
        let name = printable(&self.about.name).into_owned();
        if let Some(halted) = &outcome.halted
            && let Some(guard) = &halted.guard
        {
            let wait = self.breaches.fail(now);
            let breach = Breach {
                at_unix: unix(),
                guard: guard.clone(),
                seen: halted.why.clone(),
                still_after_ms: halted.still_after_ms,
                back_off_s: wait.as_secs_f64(),
            };
            let took = halted.still_after_ms.map_or_else(
                || "some threads still paused two seconds later".to_owned(),
                |ms| format!("{ms:.1} ms later no thread was delayed"),
            );
            let text =
                format!("{name}: {}: {took}; left alone for {} s", printable(&halted.why), wait.as_secs());
            self.state.breaches += 1;
            self.state.last_breaches.push(breach);
            let many = self.state.last_breaches.len().saturating_sub(KEPT);
            self.state.last_breaches.drain(..many);
            self.wait(around);
            return Some(text);
        }
        if let Some(error) = &outcome.error {
            return Some(self.failed(error.clone(), around));
        }
        if !outcome.attached && outcome.halted.is_none() && outcome.experiments == 0 {
            return Some(self.failed("the session has ended before it began".to_owned(), around));
        }
        self.failures.succeed();
        self.wait(around);
        match &outcome.halted {
            Some(halted) if !halted.is_spent => {
                Some(format!("{name}: the session has ended early: {}", printable(&halted.why)))
            }
            _ => {
                self.breaches.succeed();
                (!around.options.quiet).then(|| {
                    format!(
                        "{name}: {} experiments in {:.0} s, {:.2} s of delay",
                        outcome.experiments,
                        outcome.took.as_secs_f64(),
                        outcome.delayed.as_secs_f64()
                    )
                })
            }
        }
    }

    /// The agent ends: a session that is under way is told to end.
    pub fn end(&mut self) {
        self.health.iter_mut().for_each(Health::end);
        match &mut self.doing {
            Doing::Profiling(session) => session.halt("the agent ends", None),
            _ => self.doing = Doing::Waiting(Instant::now() + LONGEST),
        }
    }
}

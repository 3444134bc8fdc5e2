//! Supervisor: the loop. It looks at everything every 20 ms while a session is under way, and less often otherwise, and waits for nothing else.

use super::companion::Companion;
use super::options::Options;
use super::service::{Service, Surroundings};
use super::spool::{self, Gone, Size, Spool};
use super::state::{CompanionState, ServerState, SpoolState, State, unix};
use super::switch::Switch;
use anyhow::{Context as _, Result};
use fleet::arguments::At;
use fleet::command::Orders;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use storage::{Lock, Unlocked};

/// Time between two looks while a session is under way: the kill switch is seen so soon.
const LOOK: Duration = Duration::from_millis(20);
/// The same otherwise.
const REST: Duration = Duration::from_millis(200);
/// How often the state is written where nothing happens.
const WRITE: Duration = Duration::from_secs(10);
/// At the end sessions and companions are waited for, but for no longer than this.
const END: Duration = Duration::from_secs(30);

/// Runs the agent until it is asked to end.
pub fn run(options: Options) -> Result<()> {
    let stop = Arc::<AtomicBool>::default();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    kernel::clock::sleep_precisely();
    let made = DirBuilder::new().recursive(true).mode(0o750).create(&options.folder);
    made.with_context(|| {
        format!("cannot make the folder {}; name another one with --db", options.folder.display())
    })?;
    let _lock = lock(&options.folder)?;
    let mut supervisor = Supervisor::new(options)?;
    supervisor.greet();
    while !stop.load(Ordering::Relaxed) {
        supervisor.step();
        std::thread::sleep(supervisor.rest());
    }
    supervisor.end();
    Ok(())
}

/// A folder has one agent.
fn lock(folder: &Path) -> Result<Lock> {
    let path = folder.join("agent.lock");
    Lock::take(&path).map_err(|why| match why {
        Unlocked::NotOpened(error) => anyhow::Error::new(error)
            .context(format!("cannot open {}; use sudo, or name another folder with --db", path.display())),
        Unlocked::Taken(_) => anyhow::anyhow!(
            "another agent works in {0}; see what it does with: whatif agent status --db {0}, or name another folder with --db",
            folder.display()
        ),
        Unlocked::Refused(error) => {
            anyhow::Error::new(error).context(format!("cannot lock {}", path.display()))
        }
    })
}

struct Supervisor {
    options: Options,
    services: Vec<Service>,
    companions: Vec<Companion>,
    switch: Switch,
    spool: Spool,
    random: fastrand::Rng,
    started: u64,
    written: Option<Instant>,
    /// Why experiments were stopped at the last look.
    stopped: Option<String>,
    /// Whether it was said that the state cannot be written.
    is_told: bool,
}

impl Supervisor {
    fn new(options: Options) -> Result<Self> {
        let before = State::read(&options.folder).unwrap_or_default();
        let SpoolState { sent_files, sent_bytes, removed_files, removed_bytes, .. } = before.spool;
        let gone = Gone {
            sent: Size { files: sent_files, bytes: sent_bytes },
            unsent: Size { files: removed_files, bytes: removed_bytes },
        };
        let spool = Spool::open(&options.folder, options.max_spool, gone)?;
        let mut random = fastrand::Rng::with_seed(options.seed);
        let services = options
            .services
            .iter()
            .map(|service| {
                let known = before.services.iter().find(|known| known.name == service.name);
                Service::new(service.clone(), &options, known.cloned(), &mut random)
            })
            .collect();
        let orders = options.at.as_ref().map(Orders::at).transpose()?;
        // What another server has said is no matter.
        let order =
            before.server.filter(|server| orders.as_ref().is_some_and(|orders| orders.url() == server.url));
        let order = order.and_then(|server| server.last_order);
        let switch =
            Switch::new(options.kill_switch.clone(), orders, order).context("a thread cannot be started")?;
        let companions = companions(&options);
        let started = unix();
        Ok(Self {
            options,
            services,
            companions,
            switch,
            spool,
            random,
            started,
            written: None,
            stopped: None,
            is_told: false,
        })
    }

    fn greet(&self) {
        if self.options.quiet {
            return;
        }
        let Options { services, duty, most_delay, folder, session, .. } = &self.options;
        kernel::say!(
            "whatif: the agent works in {}; {} attached to for {:.2} % of the time, {:.0} s each time on average, and delayed for {:.2} % of it at most",
            folder.display(),
            match services.len() {
                1 => "1 service is".to_owned(),
                more => format!("{more} services are"),
            },
            100.0 * duty,
            session.as_secs_f64(),
            100.0 * most_delay
        );
    }

    fn step(&mut self) {
        let stopped = self.switch.stopped();
        let mut is_news = stopped != self.stopped;
        if is_news {
            match &stopped {
                Some(why) => kernel::say!("whatif: no experiments: {}", profile::printable(why)),
                None => kernel::say!("whatif: experiments may be made"),
            }
        }
        self.stopped = stopped;
        for service in &mut self.services {
            let was_busy = service.is_busy();
            let said = service.step(&mut Surroundings {
                options: &self.options,
                spool: &mut self.spool,
                random: &mut self.random,
                stopped: self.stopped.as_deref(),
            });
            is_news |= said.is_some() || was_busy != service.is_busy();
            said.iter().for_each(|text| kernel::say!("whatif: {text}"));
        }
        self.switch.set_in_session(self.services.iter().any(Service::is_busy));
        for companion in &mut self.companions {
            let was_running = companion.is_running();
            let said = companion.step();
            is_news |= said.is_some() || was_running != companion.is_running();
            said.iter().for_each(|text| kernel::say!("whatif: {text}"));
        }
        if is_news || self.written.is_none_or(|written| written.elapsed() >= WRITE) {
            self.write(false);
        }
    }

    /// Until the next look.
    fn rest(&self) -> Duration {
        if self.services.iter().any(Service::is_busy) {
            return LOOK;
        }
        let next = self.services.iter().filter_map(Service::next).min();
        next.map_or(REST, |next| next.saturating_duration_since(Instant::now()).min(REST))
    }

    fn write(&mut self, ended: bool) {
        self.written = Some(Instant::now());
        self.spool.bound();
        match self.state(ended).write(&self.options.folder) {
            Ok(()) => self.is_told = false,
            Err(error) if !std::mem::replace(&mut self.is_told, true) => {
                kernel::say!("whatif: the agent's state cannot be written: {error}; it goes on without");
            }
            Err(_) => {}
        }
    }

    fn state(&self, ended: bool) -> State {
        let size = self.spool.size();
        let server = self.switch.heard().map(|heard| ServerState {
            url: heard.url,
            answered_unix: heard.at_unix,
            error: heard.error,
            last_order: heard.order,
        });
        let of = |companion: &Companion| CompanionState {
            name: companion.name.to_owned(),
            running: companion.is_running(),
            ends: companion.ends,
            last_error: companion.error.clone(),
        };
        State {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix: self.started,
            written_unix: unix(),
            ended,
            duty: self.options.duty,
            most_delay: self.options.most_delay,
            session_s: self.options.session.as_secs_f64(),
            stopped: self.stopped.clone(),
            server,
            spool: SpoolState {
                files: size.files,
                bytes: size.bytes,
                max_bytes: self.spool.most_bytes(),
                sent_files: self.spool.gone.sent.files,
                sent_bytes: self.spool.gone.sent.bytes,
                removed_files: self.spool.gone.unsent.files,
                removed_bytes: self.spool.gone.unsent.bytes,
            },
            companions: self.companions.iter().map(of).collect(),
            services: self.services.iter().map(Service::state).collect(),
        }
    }

    /// Ends everything that was begun, and waits for it.
    fn end(&mut self) {
        let until = Instant::now() + END;
        self.services.iter_mut().for_each(Service::end);
        self.companions.iter().for_each(Companion::terminate);
        while self.services.iter().any(Service::is_busy) && Instant::now() < until {
            for service in &mut self.services {
                let said = service.step(&mut Surroundings {
                    options: &self.options,
                    spool: &mut self.spool,
                    random: &mut self.random,
                    stopped: Some("the agent ends"),
                });
                said.iter().for_each(|text| kernel::say!("whatif: {text}"));
            }
            std::thread::sleep(LOOK);
        }
        self.companions.iter_mut().for_each(|companion| companion.wait_until(until));
        self.write(true);
    }
}

/// The collector, and the sender if there is a server.
fn companions(options: &Options) -> Vec<Companion> {
    let folder = options.folder.display().to_string();
    let collector = || {
        let words = ["collect", "--db", &folder, "--quiet"].map(str::to_owned);
        Companion::new("the collector", [&words[..], &options.collect_options].concat(), None)
    };
    let sender = |at: &At| {
        let recordings = spool::finished(&options.folder).display().to_string();
        let mut words =
            ["fleet", "push", "--follow", "--recordings", &recordings].map(str::to_owned).to_vec();
        if options.collects {
            words.extend(["--db", &folder].map(str::to_owned));
        }
        words.extend(at.url.iter().map(|url| format!("--url={url}")));
        words.push(format!("--database={}", at.user.database));
        words.extend(at.user.user.iter().map(|user| format!("--user={user}")));
        words.extend(at.user.password_file.iter().map(|file| format!("--password-file={}", file.display())));
        // Before there is a database there is no sample to send.
        Companion::new("the sender", words, options.collects.then(|| options.folder.join("catalogue.db")))
    };
    options.collects.then(collector).into_iter().chain(options.at.as_ref().map(sender)).collect()
}

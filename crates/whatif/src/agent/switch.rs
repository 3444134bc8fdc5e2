//! Switch: whether experiments may be made at all: a file says so on this machine, and an order on the server for all of them.
//!
//! The server is asked by a thread, every two seconds while a session is under way and every half minute otherwise. Where it does not answer, what it has said last counts, also what it has said to an agent before.

use fleet::Order;
use fleet::command::Orders;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time between two questions while a session is under way.
const SOON: Duration = Duration::from_secs(2);
/// And otherwise; half of it and once more, at random: not all machines ask at the same moment.
const LATER: Duration = Duration::from_secs(30);

/// What the server has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    pub url: String,
    /// The last order; none if there was none.
    pub order: Option<Order>,
    /// When the server has answered for the last time, in seconds since 1970.
    pub at_unix: Option<u64>,
    /// Why it did not answer when it was last asked.
    pub error: Option<String>,
    /// Whether it was asked at all since this agent began.
    pub is_asked: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Switch {
    file: Option<PathBuf>,
    heard: Option<Arc<Mutex<Heard>>>,
    in_session: Arc<AtomicBool>,
    asks: Option<std::thread::Thread>,
}

impl Switch {
    /// `orders`: the server, if there is one; `order`: what it has said to an agent before.
    ///
    /// # Errors
    /// There is no thread.
    pub fn new(file: Option<PathBuf>, orders: Option<Orders>, order: Option<Order>) -> std::io::Result<Self> {
        let in_session = Arc::<AtomicBool>::default();
        let Some(mut orders) = orders else { return Ok(Self { file, heard: None, in_session, asks: None }) };
        let heard = Heard { url: orders.url().to_owned(), order, ..Heard::default() };
        let heard = Arc::new(Mutex::new(heard));
        let (tells, is_soon) = (Arc::clone(&heard), Arc::clone(&in_session));
        let thread = std::thread::Builder::new().name("orders".into()).spawn(move || {
            loop {
                let answer = orders.last().map_err(|error| error.to_string());
                lock(&tells).hear(answer);
                let soon = is_soon.load(Ordering::Relaxed);
                std::thread::park_timeout(if soon { SOON } else { LATER.mul_f64(0.5 + fastrand::f64()) });
            }
        })?;
        let asks = Some(thread.thread().clone());
        Ok(Self { file, heard: Some(heard), in_session, asks })
    }

    /// Whether a session is under way: then it is asked more often.
    pub fn set_in_session(&self, is_any: bool) {
        if !self.in_session.swap(is_any, Ordering::Relaxed)
            && is_any
            && let Some(asks) = &self.asks
        {
            asks.unpark();
        }
    }

    /// Why no experiment may be made; none if one may.
    pub fn stopped(&self) -> Option<String> {
        if let Some(file) = &self.file {
            match file.symlink_metadata() {
                Ok(_) => return Some(format!("{} exists (--kill-switch)", file.display())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // Who cannot look cannot know that all is well.
                Err(error) => {
                    return Some(format!("{} cannot be looked at: {error} (--kill-switch)", file.display()));
                }
            }
        }
        lock(self.heard.as_ref()?).stopped()
    }

    /// What the server has said, if there is one.
    pub fn heard(&self) -> Option<Heard> {
        self.heard.as_ref().map(|heard| lock(heard).clone())
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    fn hear(&mut self, answer: Result<Option<Order>, String>) {
        self.is_asked = true;
        match answer {
            Ok(order) => {
                (self.order, self.error) = (order, None);
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                self.at_unix = since.ok().map(|since| since.as_secs());
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn stopped(&self) -> Option<String> {
        if !self.is_asked {
            return Some("the server has not answered yet whether experiments may be made".to_owned());
        }
        let order = self.order.as_ref().filter(|order| order.is_stop())?;
        let (who, reason) = (profile::printable(&order.who), profile::printable(&order.reason));
        let last = if self.error.is_some() {
            "; the server does not answer now, and that was its last word"
        } else {
            ""
        };
        Some(format!("{who} has stopped all experiments: {reason} (until whatif fleet resume{last})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(stopped: u8) -> Option<Order> {
        Some(Order { number: 1, stopped, reason: "checkout is slow".into(), who: "anna".into() })
    }

    #[test]
    fn the_last_word_of_a_server_holds_while_it_is_away() {
        let mut heard = Heard::default();
        assert!(heard.stopped().unwrap().contains("not answered yet"));
        heard.hear(Err("away".into()));
        assert_eq!(heard.stopped(), None, "it never said anything else");
        heard.hear(Ok(order(1)));
        let stopped = heard.stopped().unwrap();
        assert!(stopped.starts_with("anna has stopped all experiments: checkout is slow"), "{stopped}");
        heard.hear(Err("away".into()));
        assert!(heard.stopped().unwrap().contains("that was its last word"));
        assert!(heard.at_unix.is_some());
        heard.hear(Ok(order(0)));
        heard.hear(Err("away".into()));
        assert_eq!(heard.stopped(), None);
        // What an agent before has heard.
        let before =
            Heard { order: order(1), is_asked: true, error: Some("away".into()), ..Heard::default() };
        assert!(before.stopped().is_some());
    }

    #[test]
    fn a_file_stops_experiments_and_so_does_not_being_able_to_look() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stop");
        let switch = Switch::new(Some(file.clone()), None, None).unwrap();
        assert_eq!((switch.stopped(), switch.heard()), (None, None));
        std::fs::write(&file, "").unwrap();
        assert!(switch.stopped().unwrap().contains("--kill-switch"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(switch.stopped(), None);
        let below_a_file = Switch::new(Some("/proc/self/exe/stop".into()), None, None).unwrap();
        assert!(below_a_file.stopped().unwrap().contains("cannot be looked at"));
    }
}

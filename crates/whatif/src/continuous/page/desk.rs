//! Desk: where questions wait. Few are answered at a time, the same one once for all who ask it, and none for a browser that has
//! gone meanwhile, as it does while a span is being chosen. Answers are kept until there are other samples.

use super::asked::Asked;
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Questions that are being answered at a time: each uses several CPUs by itself.
const AT_ONCE: usize = 2;
/// How often a question that waits looks whether its browser is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Answers that are kept, in number and bytes.
const KEPT: usize = 64;
const KEPT_BYTES: usize = 64 << 20;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Answer(Arc<str>),
    /// Why there is no answer.
    Refused(Arc<str>),
}

impl Found {
    fn text(&self) -> &Arc<str> {
        match self {
            Found::Answer(text) | Found::Refused(text) => text,
        }
    }
}

/// Of which samples an answer is.
type Revision = Option<u64>;

#[derive(Default)]
struct State {
    /// The last that was asked for comes last.
    kept: Vec<(Asked, Found)>,
    revision: Revision,
    open: HashSet<Asked>,
}

/// The answer as text, or why there is none.
type Answer<'d> = dyn Fn(&Asked) -> Result<String, String> + Sync + 'd;

pub struct Desk<'d> {
    answer: Box<Answer<'d>>,
    revision: Box<dyn Fn() -> Revision + Sync + 'd>,
    state: Mutex<State>,
    /// A question was answered.
    news: Condvar,
}

impl<'d> Desk<'d> {
    /// `revision`: a number that changes with the samples; `None` if it is not known, and then nothing is kept.
    pub fn new(
        answer: impl Fn(&Asked) -> Result<String, String> + Sync + 'd,
        revision: impl Fn() -> Revision + Sync + 'd,
    ) -> Self {
        let (answer, revision) = (Box::new(answer), Box::new(revision));
        Desk { answer, revision, state: Mutex::default(), news: Condvar::new() }
    }

    /// The answer; `None` if all who asked have gone.
    pub fn ask(&self, asked: &Asked, has_gone: impl Fn() -> bool) -> Option<Found> {
        let revision = (self.revision)();
        let mut state = self.state();
        if state.revision != revision || revision.is_none() {
            state.revision = revision;
            state.kept.clear();
        }
        loop {
            if let Some(at) = state.kept.iter().position(|(known, _)| known == asked) {
                let kept = state.kept.remove(at);
                let found = kept.1.clone();
                state.kept.push(kept);
                return Some(found);
            }
            if !state.open.contains(asked) && state.open.len() < AT_ONCE {
                break;
            }
            drop(state);
            if has_gone() {
                return None;
            }
            let waited = self.news.wait_timeout(self.state(), LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.open.insert(asked.clone());
        drop(state);
        let found = match (self.answer)(asked) {
            Ok(text) => Found::Answer(text.into()),
            Err(why) => Found::Refused(why.into()),
        };
        let mut state = self.state();
        state.open.remove(asked);
        if state.revision == revision {
            keep(&mut state.kept, asked.clone(), found.clone());
        }
        drop(state);
        self.news.notify_all();
        Some(found)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps an answer, and as many of the others as there is room for.
fn keep(kept: &mut Vec<(Asked, Found)>, asked: Asked, found: Found) {
    kept.push((asked, found));
    let bytes = |kept: &[(Asked, Found)]| kept.iter().map(|(_, found)| found.text().len()).sum::<usize>();
    while kept.len() > 1 && (kept.len() > KEPT || bytes(kept) > KEPT_BYTES) {
        kept.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::continuous::page::asked::{Filters, Times};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    fn asked(nth: i64) -> Asked {
        let times = Times { since: Some(nth), until: None };
        Asked::Span { filters: Filters { times, ..Filters::default() } }
    }

    #[test]
    fn an_answer_is_kept_until_there_are_other_samples() {
        let (asks, revision) = (AtomicUsize::new(0), AtomicU64::new(1));
        let desk = Desk::new(
            |asked| match asked {
                Asked::Span { filters } if filters.times.since == Some(0) => Err("there is none".to_owned()),
                _ => Ok(format!("answer {}", asks.fetch_add(1, Ordering::Relaxed))),
            },
            || Some(revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0),
        );
        let ask = |nth| match desk.ask(&asked(nth), || false).unwrap() {
            Found::Answer(text) | Found::Refused(text) => text.to_string(),
        };
        assert_eq!([ask(1), ask(1), ask(2), ask(1)], ["answer 0", "answer 0", "answer 1", "answer 0"]);
        assert_eq!(ask(0), "there is none");
        revision.store(2, Ordering::Relaxed);
        assert_eq!([ask(1), ask(1)], ["answer 2", "answer 2"]);
        revision.store(0, Ordering::Relaxed);
        assert_eq!([ask(1), ask(1)], ["answer 3", "answer 4"]);
    }

    #[test]
    fn few_are_answered_at_a_time_each_once_and_none_for_those_who_have_gone() {
        let (open, most, asks) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let full = Barrier::new(AT_ONCE + 1);
        let desk = Desk::new(
            |asked| {
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                asks.fetch_add(1, Ordering::SeqCst);
                if matches!(asked, Asked::Span { filters } if filters.times.since < Some(AT_ONCE as i64)) {
                    full.wait();
                    full.wait();
                }
                open.fetch_sub(1, Ordering::SeqCst);
                Ok(String::new())
            },
            || Some(1),
        );
        std::thread::scope(|scope| {
            for nth in 0..AT_ONCE as i64 {
                scope.spawn({
                    let desk = &desk;
                    move || desk.ask(&asked(nth), || false)
                });
            }
            full.wait();
            // All places are taken.
            assert_eq!(desk.ask(&asked(99), || true), None);
            let same: Vec<_> = (0..8).map(|_| scope.spawn(|| desk.ask(&asked(5), || false))).collect();
            full.wait();
            for one in same {
                assert_eq!(one.join().unwrap(), Some(Found::Answer("".into())));
            }
        });
        assert_eq!((most.load(Ordering::SeqCst), asks.load(Ordering::SeqCst)), (AT_ONCE, AT_ONCE + 1));
    }

    #[test]
    fn what_is_kept_has_bounds() {
        let mut kept = Vec::new();
        for nth in 0..KEPT as i64 + 9 {
            keep(&mut kept, asked(nth), Found::Answer("x".into()));
        }
        assert_eq!((kept.len(), &kept[0].0), (KEPT, &asked(9)));
        keep(&mut kept, asked(-1), Found::Answer("y".repeat(KEPT_BYTES - 1).into()));
        assert_eq!(kept.len(), 2);
    }
}

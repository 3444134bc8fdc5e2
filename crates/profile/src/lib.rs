//! What the experiments showed, kept and judged.
//!
//! **Does:** the model of a recording (sessions, regions, progress points, windows), the database
//! that keeps it (one SQLite file), and the estimators that turn windows into "making this region
//! 20 % faster saves the program 11 % of its time". It also reads profiles of Coz, as recordings.
//!
//! **Does not:** choose or run experiments, read debug information, or draw anything. It never
//! stores an estimate: only windows are stored, and every number is computed from them again, so a
//! better estimator improves old recordings too.
//!
//! **Constraints:** no unsafe code; a recording is valid after `kill -9` at any moment; the same rows
//! and the same seed give the same numbers, bit for bit.
//!
//! **Place:** sample → delay → experiment → **record → profile** → report.
//!
//! The controller writes through a [`Recorder`]; a report opens a [`Recording`], takes its [`Rows`]
//! and makes a [`Profile`] of them:
//!
//! ```no_run
//! use profile::{EstimateOptions, Profile, Recording};
//!
//! let rows = Recording::open("profile.whatif".as_ref())?.rows()?;
//! let profile = Profile::new(rows, &EstimateOptions::default());
//! println!("{}", profile.sentence());
//! # Ok::<(), profile::Error>(())
//! ```
#![forbid(unsafe_code)]

mod answer;
pub mod audit;
mod builds;
mod caveat;
mod comparison;
pub mod condition;
pub mod coz;
mod cpu_limit;
pub mod database;
mod discovery;
pub mod drift;
pub mod estimate;
pub mod explain;
mod go_time;
mod interpreter;
mod load;
mod mark;
pub mod meta_analysis;
pub mod model;
mod number;
mod overhead;
mod production;
mod programs;
mod ranking;
pub mod relation;
mod rust_std;
mod sentence;
pub mod shell;
pub mod stacks;
mod threads;
mod turns;
mod units;

pub use answer::{
    Answer, Badge, Decision, Needed, Next, Piece, PointAnswer, Quality, State, Step, factor, gain_at,
    lessened, percent, percent_range, rate, verdict_words,
};
pub use audit::{Audited, Doubt, Withheld};
pub use builds::{Builds, OtherBuild};
pub use comparison::{
    Change, Comparison, PointChange, PointHeadline, PointLevel, RegionChange, RegionSide, SlopeChange,
};
pub use cpu_limit::CpuLimit;
pub use database::{Recorder, Recording};
pub use drift::{Drift, RunDrift, RunSegment, Segment};
pub use estimate::{
    Dot, ENOUGH_BLOCKS, Era, Estimate, EstimateOptions, LeftOutReason, LeftOutWindows, Phase, PointEstimate,
    QUANTILES, Quantile, QuantileGain, REFERENCE, Reach, Reading, Shares, SpeedupSum, Target, Trend,
    Unsteady, Verdict, Working,
};
pub use explain::{BlockRow, Explanation, PointExplanation, Unexplained, WithoutEstimate};
pub use go_time::GoTime;
pub use interpreter::Interpreter;
pub use load::Load;
pub use mark::Mark;
pub use model::{
    ArrivalClock, ArrivalKind, Arrivals, Audit, Books, Exit, Frame, Function, FunctionId, Image, InFlight,
    Latencies, OverheadPair, Point, PointId, PointKind, Production, Program, Region, RegionId, RegionKind,
    RegionSamples, Rows, SampleTotals, Session, SessionEnd, SessionId, SessionStart, Snippet, Span,
    StackFrame, StackId, StackSamples, Stacks, Thread, Visits, Warning, Window, WindowFlags, between_samples,
};
pub use number::counted;
pub use production::Covered;
pub use programs::ProgramTime;
pub use ranking::{Candidate, Doubts, LeftOut, PointSummary, Profile, RegionEstimate};
pub use rust_std::is_rust_std;
pub use sentence::plus_minus;
pub use stacks::CallTree;
pub use storage::{Error, printable};
pub use threads::ThreadGroup;
pub use turns::{gain_by_turns, throughput_factor};
pub use units::{Epoch, Nanos, Speedup, UnixSeconds, VisitNanos};

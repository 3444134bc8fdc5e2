//! The nouns of a recording, and nothing that computes.
//!
//! **Does:** name what is kept. **Does not:** read or write it (`database`), or judge it
//! (`estimate`). **Constraints:** plain data with public fields; units live in types. **Place:** what
//! *record* writes and *profile* reads.

mod arrivals;
pub(crate) mod audit;
mod overhead;
mod point;
mod production;
mod program;
mod region;
mod rows;
mod session;
mod stack;
mod thread;
mod warning;
mod window;

pub use arrivals::{ArrivalClock, ArrivalKind, Arrivals};
pub use audit::Audit;
pub use overhead::OverheadPair;
pub use point::{Point, PointId, PointKind};
pub use production::Production;
pub use program::Program;
pub use region::{Image, Region, RegionId, RegionKind, Snippet};
pub(crate) use rows::Served;
pub use rows::{RegionSamples, Rows};
pub use session::{Exit, SampleTotals, Session, SessionEnd, SessionId, SessionStart};
pub use stack::{Frame, Function, FunctionId, StackFrame, StackId, StackSamples, Stacks};
pub use thread::Thread;
pub use warning::Warning;
pub use window::{Books, InFlight, Latencies, Span, Visits, Window, WindowFlags, between_samples};

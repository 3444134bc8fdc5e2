//! Worth across a fleet: many hosts ran few experiments each on the same code, and differ in truth.
//!
//! **Does:** put together what each host's windows say about a region, with an interval that knows that hosts differ; say how much they
//! differ, what a new host may expect, what a release changed, and how many host-days a narrower interval takes. **Does not:** fetch
//! windows, find out about phases or what is wrong with the method ([`estimate`](crate::estimate) does), or put anything into words. **Constraints:** pure; the same
//! hosts in any order give the same bits. **Place:** sample → delay → experiment → record → **profile** → report.
//!
//! ```
//! use profile::Nanos;
//! use profile::meta_analysis::{Fleet, HostId, HostSlope, Variances, VersionId};
//!
//! let day = Nanos::new(86_400_000_000_000);
//! let row = |host, slope| HostSlope {
//!     host: HostId::new(host),
//!     version: VersionId::new(1),
//!     slope,
//!     variance: 0.0004,
//!     method_error: 0.0,
//!     blocks: 35,
//!     observed: day,
//! };
//! let fleet = Fleet::new(&[row(1, 0.21), row(2, 0.35), row(3, 0.28)], Variances::Pooled)?;
//! let worth = fleet.worth();
//! assert!((worth.estimate.value - 0.28).abs() < 1e-9);
//! // 4.3 standard errors of three hosts that differ by 0.07.
//! assert!((worth.estimate.half_width() - 0.174).abs() < 0.001);
//! # Ok::<(), profile::meta_analysis::Refused>(())
//! ```
//!
//! # How
//!
//! The slope of host *i* is *yᵢ = μ + uᵢ + eᵢ*: *u* is how its truth differs (variance τ²), *e* is the noise of its windows (variance *vᵢ*).
//! Asked for is μ, the mean of the true slopes of hosts, each of which counts the same: a random-effects meta-analysis (DerSimonian and Laird,
//! *Meta-analysis in clinical trials*, 1986) with weights *1 / (vᵢ + τ²)*, and τ² by restricted maximum likelihood (Viechtbauer 2005).
//!
//! **Noise comes from all hosts.** In textbooks each study brings a variance of its own, which is taken for certain. Here it comes from a handful of
//! windows, and is related to the slope: a host whose windows make its slope too large has too small a variance. Ten
//! thousand hosts with 35 blocks each then agree on an answer 0.3 points too large, with an interval of ± 0.1. So the variance of a block is
//! pooled over all hosts, and a host's is that by its number of blocks (`noise.rs`): weights do not know what was measured. What
//! that costs, where some hosts are noisier than others, is width and not honesty, because of what follows.
//!
//! **The interval** is made of how hosts' slopes really scatter, each by its weight, and not of variances (`pool.rs`). Where all weights are equal it is
//! the one of Hartung and Knapp (*A refined method for the meta-analysis of controlled clinical trials with binary outcome*, 2001), Student's with *k* − 1 degrees
//! of freedom; where they are not, it does not need the weights to be right (Hedges, Tipton and Johnson, *Robust variance estimation in meta-regression with
//! dependent effect size estimates*, 2010; Bell and McCaffrey's correction and degrees of freedom, 2002, as Tipton 2015 has them). It is never narrower than that of
//! hosts that do not differ (Röver, Knapp and Friede, *Hartung-Knapp-Sidik-Jonkman approach and its modification for random-effects meta-analysis with few studies*, 2015).
//!
//! **Busy hosts.** Where hosts with many windows are worth more or less than others, any weights but equal ones answer another question. Where the two
//! answers differ beyond chance, all hosts get the same weight ([`Weights::Even`]).
//!
//! **Few hosts.** Two hosts give an interval of a single degree of freedom (12.7 standard errors); one host gives its own, which says nothing
//! of others: [`Basis`] tells.
//!
//! **The method** ([`METHOD_ERROR`](crate::estimate::METHOD_ERROR)) is wrong in the same way on all hosts. It is left out of all of the above, and widens the result.
//!
//! `bench -- fleet-worth` simulates fleets with known truths; docs/accuracy.md has what came out.

mod fleet;
mod heterogeneity;
mod host;
mod host_days;
mod judged;
mod needed;
mod noise;
mod pool;
mod recorded;
mod refused;
mod version;
mod windows;
mod worth;

pub use fleet::Fleet;
pub use heterogeneity::Heterogeneity;
pub use host::{BlockTerm, HostId, HostSlope, VersionId};
pub use host_days::HostDays;
pub use judged::verdicts;
pub use needed::{MoreHosts, Needed};
pub use noise::Variances;
pub use pool::Weights;
pub use recorded::{Recorded, audited};
pub use refused::Refused;
pub use version::{VersionChange, VersionWorth};
pub use worth::{Basis, Worth};

//! What reports and exports say. One program for all of it, because each would be linked by itself.

mod agreement;
mod changes;
mod coz_roundtrip;
mod cycles;
mod damaged;
mod damaged_catalogue;
mod formats;
mod hostile;
#[path = "../../profile/tests/synthetic/mod.rs"]
mod synthetic;

//! What is sent is what is answered, on real servers: those of the distribution's package `clickhouse-server`, which each test starts for itself. Where they are not
//! installed, a test says so and does nothing.
//!
//! ```text
//! $ apt-get install clickhouse-server
//! $ cargo test --release -p whatif-fleet --test all
//! ```

mod answers;
#[path = "support/experiments.rs"]
mod experiments;
mod grafana;
mod kills;
#[path = "support/machines.rs"]
mod machines;
mod measure;
#[path = "support/nodes.rs"]
mod nodes;
mod users;
mod worth;

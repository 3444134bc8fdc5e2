//! Order: whether agents may make experiments, for all machines: the last one counts. Older ones stay, as a record of who stopped what, when and why.

use crate::error::Error;
use crate::row_binary::RowBinary;
use crate::store::Store;
use crate::tables::ORDERS;
use clickhouse::Row;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// The longest wait for the answer whether experiments may be made.
const PATIENCE: Duration = Duration::from_secs(20);

/// An order about the experiments on all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Row)]
pub struct Order {
    /// When, in microseconds since 1970: later orders have larger numbers.
    pub number: u64,
    /// 1: no experiment may be made; 0: they may again.
    pub stopped: u8,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub who: String,
}

impl Order {
    /// One that is given now, after `last`.
    pub fn now(stopped: bool, reason: &str, who: &str, last: Option<&Order>) -> Order {
        // Clocks of those who give orders differ.
        let number = now().max(last.map_or(0, |last| last.number.saturating_add(1)));
        Order { number, stopped: stopped.into(), reason: reason.to_owned(), who: who.to_owned() }
    }

    /// Whether it says that no experiment may be made.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.stopped != 0
    }
}

/// No clock is wrong by more, in microseconds: what claims to be later is no order.
const A_DAY: u64 = 86_400_000_000;

/// Now, in microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The order that counts; none if none was ever given.
pub fn last(store: &Store) -> Result<Option<Order>, Error> {
    let newest = format!(
        "SELECT number, stopped, reason, who FROM {} WHERE number < {} ORDER BY number DESC, stopped DESC LIMIT 1",
        store.table(ORDERS.name),
        now().saturating_add(A_DAY)
    );
    Ok(store.server.all_within::<Order>(PATIENCE, &newest)?.pop())
}

/// Gives an order.
pub fn give(store: &Store, order: &Order) -> Result<(), Error> {
    let mut rows = RowBinary::new();
    rows.row().u64(order.number).u8(order.stopped).text(&order.reason).text(&order.who);
    store.server.insert(ORDERS.name, &format!("whatif-order-{}", archive::new_uid()), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_order_counts_although_a_clock_is_behind() {
        let first = Order { number: u64::MAX - 5, ..Order::now(true, "too slow", "me", None) };
        let second = Order::now(false, "solved", "you", Some(&first));
        assert!(second.number > first.number && first.is_stop() && !second.is_stop());
        assert!(Order::now(true, "", "", None).number > 1_700_000_000_000_000);
    }
}

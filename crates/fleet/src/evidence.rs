//! Evidence: which hours of an epoch the server has, as it says itself.

use crate::batch::LocalEpoch;
use crate::error::Error;
use crate::hour::Hour;
use crate::question::quoted;
use crate::store::Store;
use crate::tables::{BOOKS, HOURS, SAMPLES};
use std::collections::{BTreeSet, HashMap};

/// What additive tables call the begin of a time bucket.
const TIMES: [(&str, &str); 3] = [(SAMPLES, "minute"), (HOURS, "start"), (BOOKS, "start")];

/// What the server has answered since [`forget`](Self::forget). It stays true while no other sender sends these epochs, as a sender has
/// its database to itself.
#[derive(Debug, Default)]
pub struct Evidence {
    /// For each table, and what its rows of an epoch have in common, the hours that are there, from one on.
    known: HashMap<(&'static str, String), (Hour, BTreeSet<Hour>)>,
}

/// The condition on rows of an epoch. What another machine has sent under the name of this epoch is no reason to send nothing.
fn of_epoch(epoch: &LocalEpoch) -> String {
    let (machine, host) = (quoted(&epoch.machine.key), quoted(&epoch.machine.host));
    format!("epoch = {} AND machine = {machine} AND host = {host}", quoted(&epoch.uid))
}

/// What the names of all requests begin with that send something of an epoch, or a run.
pub fn prefix(uid: &str) -> String {
    format!("whatif-{uid}")
}

/// What a request is called that sends an hour of an epoch to a table. No server runs two of one name.
pub fn request_name(epoch: &str, hour: Hour, table: &str) -> String {
    format!("{}-{}-{table}", prefix(epoch), hour.0)
}

/// Whether no server is at work on what an earlier sender has asked for, about an epoch or a run.
///
/// # Errors
///
/// [`Error::Busy`] where one is: there may be rows in a moment.
pub fn is_idle(store: &Store, uid: &str) -> Result<(), Error> {
    let running = format!(
        "SELECT count() FROM {} WHERE startsWith(query_id, {name}) OR startsWith(initial_query_id, {name})",
        store.of_system("processes"),
        name = quoted(&format!("{}-", prefix(uid)))
    );
    match store.server.all::<u64>(&running)?.iter().any(|count| *count > 0) {
        true => Err(Error::Busy { url: store.server.url().to_owned() }),
        false => Ok(()),
    }
}

impl Evidence {
    /// Whether the server has rows of an hour. They are there all or not at all, because an hour is one block of one partition.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while the server still does what an earlier sender has asked for: it may have rows in a moment.
    pub fn has(
        &mut self,
        store: &Store,
        table: &'static str,
        epoch: &LocalEpoch,
        hour: Hour,
    ) -> Result<bool, Error> {
        let rows = of_epoch(epoch);
        let key = (table, rows.clone());
        if let Some((from, hours)) = self.known.get(&key)
            && *from <= hour
        {
            return Ok(hours.contains(&hour));
        }
        // First this: what ends in between is found by the second question.
        is_idle(store, &epoch.uid)?;
        let time = TIMES.iter().find(|(name, _)| *name == table).map_or("", |(_, time)| time);
        let there = format!(
            "SELECT DISTINCT toUInt32(intDiv(toUInt32({time}), 3600)) AS hour FROM {} WHERE {rows} AND {time} >= toDateTime({})",
            store.table(table),
            hour.start().0.max(0)
        );
        let hours: BTreeSet<Hour> =
            store.server.all::<u32>(&there)?.into_iter().map(|hour| Hour(hour.into())).collect();
        let has = hours.contains(&hour);
        self.known.insert(key, (hour, hours));
        Ok(has)
    }

    /// Something went wrong: what is there has to be asked again.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

//! Samples that are lost, and those whose image is unknown.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::cost::per_cent;
use super::daemon::{Daemon, books, state_of};
use super::{Bench, as_number, run_load};

impl Bench<'_> {
    pub fn loss(&self) -> Result<()> {
        println!(
            "{:<44} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}",
            "samples", "expected", "stored", "unknown", "lost", "unknown %", "lost %"
        );
        let cpus = std::thread::available_parallelism()?.get().to_string();
        let seconds = self.options.seconds.to_string();
        let mix = ["mix", &cpus, &seconds];
        let forks = ["forks", "500", &seconds];
        let storm = ["forks", "100000", &seconds];
        self.lost("default rate, all CPUs busy", &[], &mix, None)?;
        self.lost("default rate, 500 processes a second", &[], &forks, None)?;
        self.lost("997 Hz, 500 processes a second", &["--rate", "997"], &forks, None)?;
        self.lost("997 Hz, as many processes as there can be", &["--rate", "997"], &storm, None)?;
        self.lost("10,000 Hz, all CPUs busy", &["--rate", "10000"], &mix, None)?;
        let stopped = Some(Duration::from_secs(u64::from(self.options.seconds) / 2));
        // Rings have room for some seconds of less.
        let options = ["--rate", "25000"];
        let no_room =
            self.lost("25,000 Hz, the collector stopped for half of it", &options, &mix, stopped)?;
        ensure!(no_room > 0, "there was room for everything although nothing was read");
        Ok(())
    }

    /// Says what became of the samples, and returns how many there was no room for.
    fn lost(&self, name: &str, options: &[&str], load: &[&str], stopped: Option<Duration>) -> Result<u64> {
        let folder = tempfile::tempdir()?;
        let options =
            [&["--max-cpu", "100%", "--interval", "3600", "--resolution", "3600"], options].concat();
        let daemon = Daemon::start(self.whatif.path(), folder.path(), &options)?;
        let before = daemon.all_cpu()?;
        if let Some(stopped) = stopped {
            daemon.signal("-STOP")?;
            let program = &self.load;
            std::thread::scope(|scope| -> Result<()> {
                let load = scope.spawn(|| run_load(program, load));
                sleep(stopped);
                daemon.signal("-CONT")?;
                load.join().map_err(|_| anyhow::anyhow!("the load failed"))??;
                Ok(())
            })?;
        } else {
            self.run_load(load)?;
        }
        let own = daemon.all_cpu()? - before;
        daemon.end()?;
        let no_room = state_of(folder.path()).and_then(|state| state["no_room"].as_u64()).unwrap_or(0);
        let books = books(folder.path())?;
        ensure!(books.expected == books.taken() + books.lost, "the books do not balance: {books:?}");
        println!(
            "{name:<44} {:>9} {:>9} {:>8} {:>8} {:>9.3} {:>9.3}   {no_room} for lack of room; {:.0} Hz, own \
             {:.0} ns/sample with its start",
            books.expected,
            books.stored,
            books.unknown,
            books.lost,
            per_cent(books.unknown, books.expected),
            per_cent(books.lost, books.expected),
            books.rate(),
            own / as_number(books.taken().max(1)),
        );
        Ok(no_room)
    }
}

//! A file system in an image that stops as if the power failed, while a collector runs on it: a second opinion, of a real journal.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::catalogue::{self, Kept};
use super::kept::{Content, Kept as _};
use crate::collect::Daemon;
use crate::faults::harness::Harness;
use crate::program;

/// Times that the power fails.
const TIMES: usize = 20;

/// An ext4 that is mounted from an image.
struct Mounted {
    image: PathBuf,
    at: PathBuf,
}

impl Mounted {
    fn new(folder: &Path) -> Result<Mounted> {
        let mounted = Mounted { image: folder.join("image"), at: folder.join("mounted") };
        std::fs::create_dir(&mounted.at)?;
        std::fs::File::create(&mounted.image)?.set_len(200 << 20)?;
        program::output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&mounted.image))?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn mount(&self) -> Result<()> {
        program::output(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.at)).map(drop)
    }

    fn unmount(&self) -> Result<()> {
        program::output(Command::new("umount").arg(&self.at)).map(drop)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

pub fn run(harness: &Harness, whatif: &Path) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    let mounted = match Mounted::new(folder.path()) {
        Ok(mounted) => mounted,
        Err(why) => {
            println!("\nno file system is stopped: {why:#} (it takes root, mkfs.ext4 and a loop device)");
            return Ok(0);
        }
    };
    let database = mounted.at.join("db");
    let mut findings = 0;
    let mut kept: Content = Vec::new();
    for nth in 0..TIMES {
        let daemon = Daemon::start(whatif, &database, &["--interval", "1", "--rate", "97"])?;
        sleep(Duration::from_millis(fastrand::u64(500..4500)));
        let promised = catalogue::read(&database)?;
        harness.power_off(&mounted.at)?;
        drop(daemon);
        mounted.unmount()?;
        mounted.mount()?;
        match Kept.open(&mounted.at) {
            Ok(content) if promised.iter().zip(&content).all(|(promised, there)| promised <= there) => {
                kept = content
            }
            Ok(content) => {
                println!("    failure {nth}: there is {content:?} of {promised:?}");
                findings += 1;
            }
            Err(problem) => {
                println!("    failure {nth}: {problem:#}");
                findings += 1;
            }
        }
    }
    ensure!(kept.iter().all(|number| *number > 0), "nothing was collected: {kept:?}");
    println!(
        "\nan ext4 that stopped {TIMES} times under a collector: {findings} findings; in the end there are {} epochs, {} intervals, \
         {} samples",
        kept[0], kept[1], kept[2]
    );
    Ok(findings)
}

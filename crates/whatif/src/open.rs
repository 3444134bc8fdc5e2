//! `whatif open`: the report in a browser; or a database of continuous profiles, which `continuous/page` shows.

use crate::continuous::page;
use crate::site::Site;
use crate::{cli, show};
use anyhow::{Result, ensure};
use cycles::arguments::{Causes, Which};

/// `whatif open`. Ends with Ctrl-C.
pub fn open(args: &cli::Open) -> Result<()> {
    let is_folder = args.file.as_deref().is_some_and(std::path::Path::is_dir);
    let is_selected = args.which != Which::default() || args.causes != Causes::default();
    if is_folder || is_selected || args.output.is_some() {
        ensure!(
            args.file.is_none() || is_folder && args.which.folder.db.is_none(),
            "give either a recording, or --db DIR and what else selects samples of a database; a recording becomes a file \
             with: whatif export --format html -o FILE RECORDING"
        );
        let mut which = args.which.clone();
        which.folder.db = which.folder.db.or_else(|| args.file.clone());
        let (causes, output) = (&args.causes, args.output.as_deref());
        return page::open(&page::Opened { which: &which, causes, output, browser: !args.no_browser });
    }
    let path = show::recording(args.file.as_deref())?;
    let page = report::html::render(&show::load(&path)?);
    let site = Site::open()?;
    show::print(&format!("{}\n", site.address()))?;
    kernel::say!("whatif: showing {} there, to this machine only, until Ctrl-C", path.display());
    if !args.no_browser {
        site.browse();
    }
    site.serve(|request| match (&*request.method, &*request.path) {
        ("GET", "/") => request.answer("text/html; charset=utf-8", &page),
        ("GET", _) => request.refuse(404, "there is one page"),
        _ => request.refuse(405, "there is only something to read"),
    });
    Ok(())
}

//! `whatif open`: the report in a browser.

use crate::site::Site;
use crate::{cli, show};
use anyhow::Result;

/// `whatif open`. Ends with Ctrl-C.
pub fn open(args: &cli::Open) -> Result<()> {
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

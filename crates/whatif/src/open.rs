//! `whatif open`: the report in a browser.

use crate::site::{self, Site};
use crate::{cli, show};
use anyhow::Result;

/// `whatif open`. Ends with Ctrl-C.
pub fn open(args: &cli::Open) -> Result<()> {
    let path = show::recording(args.file.as_deref())?;
    let page = report::html::render(&show::load(&path)?);
    let site = Site::open()?;
    show::print(&format!("{}\n", site.address()))?;
    eprintln!("whatif: showing {} there, to this machine only, until Ctrl-C", path.display());
    if !args.no_browser {
        site.browse();
    }
    while let Some(request) = site.next() {
        match (request.method(), site::path(&request)) {
            (tiny_http::Method::Get, "/") => site::answer(request, "text/html; charset=utf-8", &page),
            (tiny_http::Method::Get, _) => site::refuse(request, 404, "there is one page"),
            _ => site::refuse(request, 405, "there is only something to read"),
        }
    }
    Ok(())
}

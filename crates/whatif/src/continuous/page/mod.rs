//! `whatif open --db`: a database as a page: a map over time, the flame graph and the table of a span, and two spans compared.
//!
//! **Does:** understand what the page asks for, have it answered by the functions that the commands use, and keep answers for when it
//! asks again. **Does not:** query, estimate, draw, or read what a request without the token says.
//!
//! **Place:** sample → count → store → query → **report**.

mod answers;
mod asked;
mod desk;

use crate::show;
use crate::site::{Request, Site};
use answers::Settings;
use anyhow::{Context as _, Result};
use asked::Asked;
use cycles::arguments::{Causes, Which};
use desk::{Desk, Found};
use std::path::Path;

/// What is typed after `whatif open --db DIR`.
pub struct Opened<'a> {
    pub which: &'a Which,
    pub causes: &'a Causes,
    /// Where to write a page that needs no server.
    pub output: Option<&'a Path>,
    pub browser: bool,
}

/// Serves the page until Ctrl-C, or writes one.
pub fn open(opened: &Opened<'_>) -> Result<()> {
    let settings = Settings::new(opened.which, opened.causes)?;
    if let Some(path) = opened.output {
        let page = report::html::render_database(answers::alone(&settings)?);
        std::fs::write(path, page)
            .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display()))?;
        return show::print(&format!(
            "the page of {} is {}: open it in a browser\n",
            settings.said(),
            path.display()
        ));
    }
    let site = Site::open()?;
    show::print(&format!("{}\n", site.address()))?;
    kernel::say!("whatif: showing {} there, to this machine only, until Ctrl-C", settings.said());
    if opened.browser {
        site.browse();
    }
    let desk = Desk::new(|asked: &Asked| answers::answer(&settings, asked), || settings.revision());
    site.serve(|request| answer(request, &settings, &desk));
    Ok(())
}

fn answer(request: Request, settings: &Settings, desk: &Desk<'_>) {
    match (&*request.method, &*request.path) {
        ("GET", "/") => request.answer("text/html; charset=utf-8", report::html::EMPTY_DATABASE_PAGE),
        ("GET", "/data.json") => request.answer("application/json", &settings.beginning()),
        ("GET", path) => match Asked::understand(path, |name| request.parameter(name)) {
            None => request.refuse(404, "there is one page"),
            Some(Err(why)) => request.refuse(400, &why),
            Some(Ok(asked)) => match desk.ask(&asked, || request.has_gone()) {
                Some(Found::Answer(text)) => request.answer("application/json", &text),
                Some(Found::Refused(why)) => request.refuse(422, &why),
                None => {}
            },
        },
        _ => request.refuse(405, "there is only something to read"),
    }
}

//! `whatif man`: the manual pages, generated from what can be typed.

use crate::overview;
use anyhow::{Context as _, Result};
use clap_mangen::Man;
use roff::{Roff, roman};
use std::path::Path;

/// Writes a page for each command: `whatif.1`, `whatif-run.1`, `whatif-db-gc.1`.
pub fn write(folder: &Path) -> Result<()> {
    let failed = || format!("cannot write manual pages to {}; choose another folder", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    let mut all = overview::visible().disable_help_subcommand(true);
    // Gives the commands their full names.
    all.build();
    write_all(&all, folder).with_context(failed)
}

fn write_all(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands() {
        write_all(command, folder)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let page = Man::new(command.clone()).source(format!("whatif {version}")).manual("whatif");
    std::fs::write(folder.join(page.get_filename()), text(command, &page)?)
}

/// The page. Not `Man::render`, which calls examples *extra*, and writes them into one line.
fn text(command: &clap::Command, page: &Man) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().next().is_some() {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    if let Some(examples) = command.get_after_help() {
        rest.control("SH", ["EXAMPLES"]).control("EX", []);
        for line in examples.to_string().lines() {
            rest.text([roman(line.trim_start_matches("Example: "))]);
        }
        rest.control("EE", []);
    }
    if command.get_display_name().is_some_and(|name| name != "whatif") {
        rest.control("SH", ["SEE ALSO"]).text([roman("whatif(1)")]);
    }
    rest.to_writer(&mut text)?;
    Ok(text)
}

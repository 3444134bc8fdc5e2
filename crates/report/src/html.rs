//! The page: the whole report as one HTML file that works from disk. What it draws is in `page/`; here it gets its data.

use profile::Profile;

use crate::json;

/// As `page/` builds it.
const PAGE: &str = include_str!("../../../page/dist/page.html");
/// Where the data go.
const EMPTY: &str = r#"<script type="application/json" id="whatif-data">null</script>"#;

/// The page with the profile in it. Nothing in it can end the element that it is in: there is no `<` in the data.
///
/// # Panics
///
/// Never: a test makes sure that the page has a place for its data.
pub fn render(profile: &Profile) -> String {
    let (before, after) = PAGE.split_once(EMPTY).expect("the page has a place for its data");
    let data = json::render_for_page(profile).replace('<', "\\u003c");
    let (open, close) = EMPTY.split_once("null").unwrap_or((EMPTY, ""));
    [before, open, &data, close, after].concat()
}

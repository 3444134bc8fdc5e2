//! The page: the whole report, or a comparison, as one HTML file that works from disk. What it draws is in `page/`; here it gets its data.

use profile::{Comparison, Profile};

use crate::json;

/// As `page/` builds it: without data, so that it asks the server that has sent it.
pub const EMPTY_PAGE: &str = include_str!("../page.html");
/// The page of a database of continuous profiles, likewise.
pub const EMPTY_DATABASE_PAGE: &str = include_str!("../database.html");
/// Where the data go.
const EMPTY: &str = r#"<script type="application/json" id="whatif-data">null</script>"#;
/// What the parts stand before: behind the script, so that the page is drawn before all of them have come.
const END: &str = "</body>";

/// The page with the profile in it. Nothing in it can end the element that it is in: there is no `<` in the data.
pub fn render(profile: &Profile) -> String {
    filled(&json::render_in_parts(profile))
}

/// The page with the comparison in it.
pub fn render_comparison(comparison: &Comparison<'_>) -> String {
    filled(&json::InParts {
        summary: json::render_comparison_for_page(comparison),
        regions: None,
        parts: vec![],
    })
}

/// The page of a database with one answer in it, for a file.
pub fn render_database(data: String) -> String {
    filled_into(EMPTY_DATABASE_PAGE, &json::InParts { summary: data, regions: None, parts: vec![] })
}

fn filled(data: &json::InParts) -> String {
    filled_into(EMPTY_PAGE, data)
}

/// # Panics
///
/// Never: a test makes sure that each page has a place for its data.
fn filled_into(empty: &str, json::InParts { summary, regions, parts }: &json::InParts) -> String {
    let (before, rest) = empty.split_once(EMPTY).expect("the page has a place for its data");
    let (script, end) = rest.rsplit_once(END).expect("the page has an end");
    let length: usize = regions.iter().chain(parts).map(String::len).sum();
    let mut page = String::with_capacity(empty.len() + summary.len() + length + length / 8);
    page.push_str(before);
    push_element(&mut page, "whatif-data", summary);
    page.push_str(script);
    if let Some(regions) = regions {
        push_element(&mut page, "whatif-regions", regions);
        page.push('\n');
    }
    for (nth, part) in parts.iter().enumerate() {
        push_element(&mut page, &format!("whatif-part-{nth}"), part);
        page.push('\n');
    }
    page.push_str(END);
    page.push_str(end);
    page
}

fn push_element(page: &mut String, id: &str, data: &str) {
    page.push_str(&format!(r#"<script type="application/json" id="{id}">"#));
    page.push_str(&data.replace('<', "\\u003c"));
    page.push_str("</script>");
}

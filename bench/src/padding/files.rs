//! The files that programs work on, the same everywhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Of the text, in bytes.
const LENGTH: usize = 8 << 20;

/// Writes what is not there yet into `folder`.
pub fn write(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let keep = |name: &str, contents: &dyn Fn() -> String| {
        let path = folder.join(name);
        let contents = contents();
        if fs::read(&path).is_ok_and(|there| there == contents.as_bytes()) {
            return Ok(());
        }
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))
    };
    keep("text", &text)?;
    keep("script.lua", &|| include_str!("../../padding/script.lua").to_owned())
}

/// Writes what a run needs in a folder of its own.
pub fn write_for_run(folder: &Path) -> Result<()> {
    let page = format!("{}\nend\n", "a page of the site ".repeat(430));
    let configuration = NGINX.replace("{folder}", &folder.display().to_string());
    for (name, contents) in [("page", page), ("nginx.conf", configuration)] {
        fs::write(folder.join(name), contents)
            .with_context(|| format!("writing into {}", folder.display()))?;
    }
    Ok(())
}

const NGINX: &str = "daemon off; master_process off; error_log /dev/null; pid {folder}/nginx.pid;
events { }
http {
    access_log off;
    keepalive_requests 1000000000;
    server { listen unix:{folder}/socket; location / { root {folder}; } }
}
";

/// Four thousand words, the first ones more often, and now and then a number: compresses like a log.
fn text() -> String {
    let mut random = fastrand::Rng::with_seed(17);
    let words: Vec<String> = (0..4000)
        .map(|_| (0..random.usize(2..11)).map(|_| char::from(random.u8(b'a'..=b'z'))).collect())
        .collect();
    let mut text = String::with_capacity(LENGTH + 16);
    while text.len() < LENGTH {
        if random.usize(..12) == 0 {
            text.push_str(&random.u32(..1_000_000).to_string());
        } else {
            // The smaller of three: frequent words are frequent.
            let word = (0..3).map(|_| random.usize(..words.len())).min().unwrap_or(0);
            text.push_str(&words[word]);
        }
        text.push(if random.usize(..14) == 0 { '\n' } else { ' ' });
    }
    text.truncate(LENGTH);
    text
}

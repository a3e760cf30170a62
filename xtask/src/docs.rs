//! The guide as a book: its links, its runnable blocks, mdBook.
//!
//! Holds the check of links between Markdown files of the repository (a test of its own, too). mdBook is the one of this machine, or is installed by its
//! package name into `target/tools`.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use suites::guide;
use suites::run::{must, root};

/// The version that is installed where there is none.
const MDBOOK: &str = "^0.5";

/// Checks links, runs blocks again with `update`, and makes the book.
pub fn docs(update: bool, only: Option<&str>, allow_skips: bool) -> Result<()> {
    if update {
        suites::cluster::build()?;
        let count = guide::run(Path::new(suites::clients::SHARED), |page| only.is_none_or(|part| page.contains(part)), true)?;
        println!("{count} commands of the guide were run");
    }
    let broken = broken_links()?;
    ensure!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    match mdbook() {
        Ok(program) => {
            must(Command::new(program).args(["build", "docs"]).current_dir(root()))?;
            println!("the book is in target/guide/index.html");
            Ok(())
        }
        Err(e) if allow_skips => {
            println!("SKIPPED the book: {e:#}");
            Ok(())
        }
        Err(e) => Err(e.context("links are well, but the book can't be made (--allow-skips leaves it out)")),
    }
}

/// mdBook, installed if it isn't there.
fn mdbook() -> Result<PathBuf> {
    let runs = |program: &Path| Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    let (own, tools) = (PathBuf::from("mdbook"), root().join("target/tools"));
    let kept = tools.join("bin/mdbook");
    if let Some(there) = [own, kept.clone()].into_iter().find(|p| runs(p)) {
        return Ok(there);
    }
    let install = ["install", "mdbook", "--locked", "--version", MDBOOK, "--no-default-features", "--root"];
    must(Command::new("cargo").args(install).arg(&tools).current_dir(root()))
        .context("mdbook is not installed, and `cargo install mdbook` failed: is there a way to the crates' registry?")?;
    Ok(kept)
}

/// Markdown files whose links are checked.
fn files() -> Result<Vec<PathBuf>> {
    let mut files = guide::pages()?;
    for folder in [root(), root().join("docs/conformance")] {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "md") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// The targets of `[text](target)` and `<img src="target">`, code aside.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") {
            continue;
        }
        // What stands between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (opens, closes) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')] {
            for part in prose.split(opens).skip(1) {
                found.extend(part.split(closes).next().map(String::from));
            }
        }
    }
    found
}

/// As mdBook and GitHub make an anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>();
    kept.replace(' ', "-")
}

/// `file: target` of each link inside the repository that leads nowhere, and each page that the summary lacks.
fn broken_links() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in files()? {
        let text = std::fs::read_to_string(&file)?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        for target in links(&text).iter().filter(|t| !t.contains("://") && !t.starts_with("mailto:")) {
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let to = if path.is_empty() { file.clone() } else { file.parent().context("a folder")?.join(path) };
            let Ok(there) = std::fs::read(&to) else {
                if !to.is_dir() {
                    broken.push(format!("{name}: {target}"));
                }
                continue;
            };
            let headings = String::from_utf8_lossy(&there).into_owned();
            if !fragment.is_empty()
                && !headings.lines().filter(|l| l.starts_with('#')).any(|l| anchor(l.trim_start_matches('#')) == fragment)
            {
                broken.push(format!("{name}: {target} (no such heading)"));
            }
        }
    }
    let summary = std::fs::read_to_string(root().join("docs/src/SUMMARY.md"))?;
    for page in guide::pages()? {
        let page = page.file_name().and_then(|n| n.to_str()).context("a page's name")?.to_string();
        if page != "SUMMARY.md" && !summary.contains(&format!("({page})")) {
            broken.push(format!("docs/src/SUMMARY.md does not name {page}"));
        }
    }
    if broken.len() > 100 {
        bail!("{} links lead nowhere", broken.len());
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_leads_somewhere() {
        assert_eq!(broken_links().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn links_are_found_and_code_is_not() {
        let text = "a [b](c.md#d) `[no](x)` ![e](f.svg)\n```\n[g](h)\n```\n<img src=\"i.svg\">\n";
        assert_eq!(links(text), ["c.md#d", "f.svg", "i.svg"]);
        assert_eq!(anchor(" What works, with which client"), "what-works-with-which-client");
    }
}

//! An image as the Open Container Initiative lays it out: blobs by their digests, and two files that name them.
//!
//! Source: OCI image format specification 1.0, "Image Layout", "Image Manifest", "Image Configuration". `manifest.json` beside them is that
//! of `docker save`, for versions of Docker that know no layout. One layer; nothing in it depends on the time or the place of the build.
//! Absent: an image's content.

use super::tree;
use crate::run::run;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// How an image runs.
#[derive(Debug, Clone)]
pub struct Image {
    pub name: String,
    /// The kind of machine, by the names of Go and Debian: `amd64`, `arm64`.
    pub arch: String,
    pub version: String,
    /// Seconds since 1970: of the commit.
    pub time: u64,
    pub entry_point: Vec<String>,
    /// `NAME=VALUE`.
    pub environment: Vec<String>,
    pub ports: Vec<u16>,
    /// A folder whose content outlives a container.
    pub volume: String,
    pub title: String,
    pub licences: String,
}

/// A time as RFC 3339 has it.
fn shown(time: u64) -> Result<String> {
    let out = run(Command::new("date").args(["-u", "-d", &format!("@{time}"), "+%Y-%m-%dT%H:%M:%SZ"]), Duration::from_secs(10))?;
    ensure!(out.ok(), "date: {}", out.stderr);
    Ok(out.stdout.trim().to_string())
}

/// A layout that is being written.
struct Layout<'a> {
    dir: &'a Path,
}

impl Layout<'_> {
    fn blobs(&self) -> PathBuf {
        self.dir.join("blobs/sha256")
    }
    /// Moves a file among the blobs; how others refer to it.
    fn take(&self, file: &Path, kind: &str) -> Result<Value> {
        let (sum, size) = (tree::digest(file)?, fs::metadata(file)?.len());
        fs::rename(file, self.blobs().join(&sum))?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": size }))
    }
    fn put(&self, value: &Value, kind: &str) -> Result<Value> {
        let file = self.dir.join("blob");
        fs::write(&file, serde_json::to_vec(value)?)?;
        self.take(&file, kind)
    }
}

/// The path of a blob in its layout.
fn path_of(descriptor: &Value) -> Result<String> {
    let digest = descriptor["digest"].as_str().context("a descriptor has a digest")?;
    Ok(format!("blobs/{}", digest.replace(':', "/")))
}

/// Writes an image, of `root` as its one layer, into the folder `dir`, which must not be there. Modes and times in `root` are made even.
pub fn write(image: &Image, root: &Path, dir: &Path) -> Result<()> {
    let layout = Layout { dir };
    fs::create_dir_all(layout.blobs())?;
    tree::even(root, image.time)?;
    let archive = dir.join("layer");
    tree::pack(root, image.time, &archive)?;
    let unpacked = tree::digest(&archive)?;
    let layer = layout.take(&tree::squeeze(&archive)?, LAYER)?;
    let created = shown(image.time)?;
    let labels = json!({
        "org.opencontainers.image.title": image.title,
        "org.opencontainers.image.version": image.version,
        "org.opencontainers.image.licenses": image.licences,
        "org.opencontainers.image.created": created,
    });
    let ports: serde_json::Map<String, Value> = image.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
    let config = json!({
        "created": created, "architecture": image.arch, "os": "linux",
        "config": {
            "Entrypoint": image.entry_point, "Env": image.environment, "ExposedPorts": ports, "Volumes": { &image.volume: {} },
            "WorkingDir": "/", "StopSignal": "SIGTERM", "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{unpacked}")] },
        "history": [{ "created": created, "created_by": "cargo xtask release" }],
    });
    let config = layout.put(&config, CONFIG)?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": labels });
    let mut named = layout.put(&manifest, MANIFEST)?;
    let reference = format!("{}:{}", image.name, image.version);
    named["platform"] = json!({ "architecture": image.arch, "os": "linux" });
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": reference });
    let file = |name: &str, value: &Value| -> Result<()> { Ok(fs::write(dir.join(name), serde_json::to_vec(value)?)?) };
    file("index.json", &json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] }))?;
    file("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))?;
    file("manifest.json", &json!([{ "Config": path_of(&config)?, "RepoTags": [reference], "Layers": [path_of(&layer)?] }]))?;
    tree::even(dir, image.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn image() -> Image {
        Image {
            name: "squid".into(),
            arch: "amd64".into(),
            version: "1.2".into(),
            time: 1_700_000_000,
            entry_point: vec!["/usr/bin/squid".into()],
            environment: vec!["PATH=/usr/bin".into()],
            ports: vec![80],
            volume: "/data".into(),
            title: "A squid".into(),
            licences: "MIT".into(),
        }
    }

    /// A folder with a program, a file, a link and an open folder, as a maker with that mask and at that hour leaves them.
    fn tree_of(dir: &Path, mask: u32, modified: u64) -> PathBuf {
        let root = dir.join("root");
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::create_dir_all(root.join("tmp")).unwrap();
        for (name, mode) in [("usr/bin/squid", 0o755), ("usr/readme", 0o644)] {
            fs::write(root.join(name), name).unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode & !mask)).unwrap();
            let file = fs::File::options().write(true).open(root.join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(modified)).unwrap();
        }
        symlink("usr/bin", root.join("bin")).unwrap();
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        root
    }

    /// All files of a layout, by name.
    fn files(dir: &Path, below: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(dir.join(below)).unwrap().map(|e| e.unwrap());
        let named = entries.map(|e| (format!("{below}{}", e.file_name().to_string_lossy()), e.path()));
        named
            .flat_map(|(name, path)| if path.is_dir() { files(dir, &format!("{name}/")) } else { [(name, fs::read(path).unwrap())].into() })
            .collect()
    }

    #[test]
    fn a_layout_depends_on_its_content_alone_and_names_what_is_there() {
        let dir = std::env::temp_dir().join(format!("humboldt-layout-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let write_at = |name: &str, mask, modified| {
            let at = dir.join(name);
            let root = tree_of(&at, mask, modified);
            write(&image(), &root, &at.join("layout")).unwrap();
            files(&at.join("layout"), "")
        };
        let one = write_at("one", 0o022, 1_600_000_000);
        assert_eq!(one, write_at("another-place", 0o077, 1_800_000_000), "mask, time and place of the build don't count");

        let read = |name: &str| -> Value { serde_json::from_slice(&one[name]).unwrap() };
        let blob = |of: &Value| {
            let bytes = &one[&path_of(of).unwrap()];
            assert_eq!(of["size"], bytes.len());
            serde_json::from_slice::<Value>(bytes).unwrap_or_default()
        };
        assert_eq!(read("oci-layout")["imageLayoutVersion"], "1.0.0");
        let named = &read("index.json")["manifests"][0];
        assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "squid:1.2");
        let manifest = blob(named);
        let config = blob(&manifest["config"]);
        assert_eq!((&config["created"], &config["config"]["Entrypoint"][0]), (&json!("2023-11-14T22:13:20Z"), &json!("/usr/bin/squid")));
        assert_eq!(config["config"]["Volumes"], json!({ "/data": {} }));
        blob(&manifest["layers"][0]);
        for name in one.keys().filter(|name| name.starts_with("blobs/")) {
            let path = dir.join("one/layout").join(name);
            assert_eq!(tree::digest(&path).unwrap(), name.rsplit('/').next().unwrap(), "a blob is called by its digest");
        }
        let docker = read("manifest.json");
        assert!(one.contains_key(docker[0]["Config"].as_str().unwrap()) && one.contains_key(docker[0]["Layers"][0].as_str().unwrap()));
        assert_eq!(one.len(), 6, "three blobs and three files: {:?}", one.keys());

        // The layer is what the configuration says, with one owner, one time and a package's modes.
        let layer = dir.join("one/layout").join(path_of(&manifest["layers"][0]).unwrap());
        let said = run(Command::new("sh").args(["-c", "gzip -dc \"$0\" | sha256sum"]).arg(&layer), Duration::from_secs(10)).unwrap().stdout;
        assert!(config["rootfs"]["diff_ids"][0].as_str().unwrap().ends_with(said.split(' ').next().unwrap()), "{said}");
        let list = run(Command::new("tar").args(["-tvzf"]).arg(&layer).env("TZ", "UTC"), Duration::from_secs(10)).unwrap().stdout;
        let line = |name: &str| list.lines().find(|l| l.ends_with(name)).unwrap_or_else(|| panic!("{name}: {list}"));
        assert!(line(" usr/bin/squid").starts_with("-rwxr-xr-x 0/0") && line(" usr/bin/squid").contains("2023-11-14 22:13"), "{list}");
        assert!(line(" usr/readme").starts_with("-rw-r--r-- 0/0") && line(" tmp/").starts_with("drwxrwxrwt"), "{list}");
        assert!(line(" bin -> usr/bin").starts_with('l'), "{list}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

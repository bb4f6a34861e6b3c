//! `--disk`, `--root`, `--share`, `--net` and `--rng`: the devices that a guest has because the user asks for them.

use super::Failure;
use crate::boards;
use crate::boot::initramfs::{Devices, ROOT_TAG};
use crate::devices::virtio::{Attached, blk, net, ninep, rng};
use crate::network::door::Door;
use crate::{disks, folders, network};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments for devices.
#[derive(Clone, clap::Args, Default, Serialize, Deserialize)]
pub struct DeviceArgs {
    /// A disk for a stock kernel: a raw or qcow2 image, never written (the guest's writes stay in memory). `,ro` makes it
    /// read-only for the guest. May be repeated: /dev/vda, /dev/vdb
    #[arg(long = "disk", value_name = "FILE[,ro]")]
    disks: Vec<String>,
    /// A folder of the host that a stock kernel runs the script or the shell in, such as a tree made by mmdebstrap. The
    /// guest's changes stay in its memory
    #[arg(long, value_name = "DIR", conflicts_with = "initrd")]
    root: Option<PathBuf>,
    /// A folder of the host for a stock kernel, mounted at /mnt/TAG (by default the folder's name). The guest's changes
    /// stay in its memory. May be repeated
    #[arg(long = "share", value_name = "DIR[:TAG]", conflicts_with = "initrd")]
    shares: Vec<String>,
    /// A network for a stock kernel: closed and the same in every run, with DHCP, DNS and a web server at http://10.0.2.2.
    /// www=DIR shows a folder of the host there, for reading only. forward=PORT makes a TCP port of the host's loopback
    /// (127.0.0.1) a port of 10.0.2.2; then the run repeats only if it is recorded. May be repeated
    #[arg(long = "net", value_name = "www=DIR|forward=PORT", num_args = 0..=1, default_missing_value = "")]
    #[serde(default, deserialize_with = "none_one_or_several")]
    net: Vec<String>,
    /// Random numbers for a stock kernel (/dev/hwrng) that follow from a seed
    #[arg(long = "rng", value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    random: Option<u64>,
}

/// A virtio driver, and the file system that is usual on its device.
const FOR_DISKS: &[&str] = &["virtio_blk", "crc32c_generic", "ext4"];
const FOR_FOLDERS: &[&str] = &["9pnet_virtio", "9p", "overlay"];
const FOR_NETWORKS: &[&str] = &["virtio_net"];
const FOR_RANDOM: &[&str] = &["virtio_rng"];

impl DeviceArgs {
    /// Whether there is any device.
    pub fn is_empty(&self) -> bool {
        self.disks.is_empty() && self.random.is_none() && !self.init_uses_any()
    }

    /// Whether init makes any device ready.
    pub fn init_uses_any(&self) -> bool {
        self.has_folders() || self.has_network()
    }

    /// Whether there is a folder of the host.
    fn has_folders(&self) -> bool {
        self.root.is_some() || !self.shares.is_empty()
    }

    /// Whether there is a network.
    fn has_network(&self) -> bool {
        !self.net.is_empty()
    }

    /// The door of the network to ports of the host, if any port is forwarded.
    pub fn door(&self) -> Result<Option<Arc<Door>>, Failure> {
        let ports = Settings::of(&self.net)?.ports;
        Ok((!ports.is_empty()).then(Arc::default))
    }

    /// The folder that programs run in.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The devices, in the order of their arguments: disks, the root folder, further folders, the network, random
    /// numbers. Opens their files. The network's forwarded ports lead to the door.
    pub fn attached(&self, door: Option<&Arc<Door>>) -> Result<Vec<Attached>, Failure> {
        let disks = self.disks.iter().map(|disk| disk_of(disk));
        let root = self.root.iter().map(|root| folder_of("--root", root, ROOT_TAG));
        let shares = self.shares.iter().map(|share| {
            let (folder, tag) = share_of(share)?;
            folder_of("--share", folder, tag)
        });
        let net = self.has_network().then(|| Settings::of(&self.net)?.network(door)).into_iter();
        let random = self.random.iter().map(|seed| Ok(Attached::Random(rng::Source { seed: *seed })));
        disks.chain(root).chain(shares).chain(net).chain(random).collect()
    }

    /// The devices that init makes ready. Fails if two folders have one tag.
    pub fn for_init(&self) -> Result<Devices, Failure> {
        let mut tags: Vec<String> = Vec::new();
        for share in &self.shares {
            let (_, tag) = share_of(share)?;
            if tag == ROOT_TAG || tags.iter().any(|known| known == tag) {
                return Err(Failure::usage(format!("--share: the tag `{tag}` is taken"))
                    .advise("give another one behind a colon: --share DIR:TAG"));
            }
            tags.push(tag.into());
        }
        Ok(Devices { has_root: self.root.is_some(), tags, has_network: self.has_network() })
    }

    /// The kernel modules that these devices need on a board, in the order in which they are loaded. Fails if the board
    /// has no place for devices.
    pub fn modules(&self, board: &str) -> Result<Vec<&'static str>, Failure> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let transport = boards::virtio_modules(board).ok_or_else(|| {
            Failure::usage(format!("the {board} board has no virtio devices yet"))
                .advise("leave out `--disk`, `--root`, `--share`, `--net` and `--rng`")
        })?;
        let disks = if self.disks.is_empty() { &[][..] } else { FOR_DISKS };
        let folders = if self.has_folders() { FOR_FOLDERS } else { &[][..] };
        let networks = if self.has_network() { FOR_NETWORKS } else { &[][..] };
        let random = if self.random.is_some() { FOR_RANDOM } else { &[][..] };
        Ok([transport, disks, folders, networks, random].concat())
    }
}

fn disk_of(text: &str) -> Result<Attached, Failure> {
    let (file, read_only) = match text.strip_suffix(",ro") {
        Some(file) => (file, true),
        None => (text, false),
    };
    let base = disks::open(Path::new(file)).map_err(|error| Failure::usage(format!("--disk: `{file}` is no disk: {error}")))?;
    Ok(Attached::Disk(blk::Disk { base, read_only }))
}

fn folder_of(option: &str, folder: &Path, tag: &str) -> Result<Attached, Failure> {
    let no_folder = |error| Failure::usage(format!("{option}: `{}` is no folder that can be read: {error}", folder.display()));
    Ok(Attached::Folder(ninep::Folder { tree: folders::open_folder(folder).map_err(no_folder)?, tag: tag.into() }))
}

/// The settings of a network, as its arguments give them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings<'a> {
    /// The folder of the web server.
    www: Option<&'a str>,
    /// The forwarded ports.
    ports: Vec<u16>,
}

impl<'a> Settings<'a> {
    /// The settings of these arguments. An argument without text adds none.
    fn of(arguments: &'a [String]) -> Result<Settings<'a>, Failure> {
        let usage = |message: String| {
            Failure::usage(message)
                .advise("write `--net`, `--net www=DIR` with a folder for the web server, or `--net forward=PORT`")
        };
        let mut settings = Settings::default();
        for text in arguments.iter().filter(|text| !text.is_empty()) {
            match text.split_once('=') {
                Some(("www", folder)) if settings.www.is_none() => settings.www = Some(folder),
                Some(("www", _)) => return Err(usage("--net: there is one web server, and it shows one folder".into())),
                Some(("forward", port)) => {
                    let number = port.parse::<u16>().ok().filter(|number| *number != 0);
                    match number.ok_or_else(|| usage(format!("--net: `{port}` is no port: write a number from 1 to 65535")))? {
                        network::HTTP => {
                            return Err(Failure::usage(
                                "--net: port 80 of 10.0.2.2 is the web server's, so it cannot be forwarded",
                            )
                            .advise("let the host's server listen at another port, such as 8080"));
                        }
                        number if settings.ports.contains(&number) => {}
                        number => settings.ports.push(number),
                    }
                }
                _ => return Err(usage(format!("--net: `{text}` is no setting of a network"))),
            }
        }
        settings.ports.sort_unstable();
        Ok(settings)
    }

    /// The network, whose forwarded ports lead to the door.
    fn network(&self, door: Option<&Arc<Door>>) -> Result<Attached, Failure> {
        let open = |folder: &str| {
            let opened = folders::open_folder(Path::new(folder));
            opened.map_err(|error| {
                Failure::usage(format!("--net: `{folder}` is no folder that can be read: {error}"))
                    .advise("give a folder for the web server: --net www=DIR")
            })
        };
        let www = self.www.map(open).transpose()?;
        let network = match door {
            Some(door) => network::forwarding(www, &self.ports, door.clone()),
            None => network::closed(www),
        };
        Ok(Attached::Network(net::Card { network }))
    }
}

/// Reads the networks' settings of a recording: none, one text, or a list of them.
fn none_one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        None,
        One(String),
        Several(Vec<String>),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::None => Vec::new(),
        Given::One(text) => vec![text],
        Given::Several(texts) => texts,
    })
}

/// The folder and the tag of a share.
fn share_of(text: &str) -> Result<(&Path, &str), Failure> {
    let (folder, tag) = match text.rsplit_once(':') {
        Some((folder, tag)) => (Path::new(folder), tag),
        None => (Path::new(text), Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or_default()),
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_tag = (1..=ninep::LONGEST_TAG).contains(&tag.len()) && tag.chars().all(is_plain) && !tag.starts_with(['-', '.']);
    match is_tag {
        true => Ok((folder, tag)),
        false => Err(Failure::usage(format!("--share: `{tag}` cannot be a tag"))
            .advise("give one of letters, digits, `-`, `_` and `.` behind a colon: --share DIR:TAG")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4, FS-5: a share has a tag that is safe in a shell command and in a path.
    #[test]
    fn shares_have_tags() {
        #[rustfmt::skip]
        let cases = [
            ("/tmp/work",       Some(("/tmp/work", "work"))),
            ("/tmp/work/",      Some(("/tmp/work/", "work"))),
            ("a:b:c-1",         Some(("a:b", "c-1"))),
            ("/tmp/a b:ab",     Some(("/tmp/a b", "ab"))),
            ("/tmp/a b",        None),
            ("/",               None),
            ("/:..",            None),
            ("/:a/b",           None),
            ("/:-t",            None),
            ("/:$(reboot)",     None),
            ("",                None),
        ];
        for (text, expected) in cases {
            assert_eq!(share_of(text).ok(), expected.map(|(folder, tag)| (Path::new(folder), tag)), "{text}");
        }
        let twice = |first: &str, second: &str| DeviceArgs { shares: vec![first.into(), second.into()], ..DeviceArgs::default() };
        assert!(twice("/a:x", "/b:x").for_init().is_err() && twice("/a:x", "/b:root").for_init().is_err());
        assert_eq!(twice("/a:x", "/b:y").for_init().map(|devices| devices.tags), Ok(vec!["x".into(), "y".into()]));
    }

    /// NW-4: several settings are one network, whatever their order; a second folder is refused.
    #[test]
    fn settings_of_a_network_add_up() {
        let given = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
        let several = given(&["forward=9000", "", "www=/tmp", "forward=22", "forward=9000"]);
        assert_eq!(Settings::of(&several).ok(), Some(Settings { www: Some("/tmp"), ports: vec![22, 9000] }));
        assert!(Settings::of(&given(&["www=/a", "www=/b"])).is_err());
    }

    /// NW-4: recordings of earlier versions have no network or one setting.
    #[test]
    fn networks_of_earlier_recordings_are_read() {
        for (text, expected) in [("null", &[][..]), ("\"\"", &[""]), ("[\"www=a\", \"forward=9\"]", &["www=a", "forward=9"])] {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            assert_eq!(none_one_or_several(&mut deserializer).expect("settings"), expected, "{text}");
        }
    }

    /// DV-4, NW-3: a network has no setting, or a folder that can be read. Others are refused with advice.
    #[test]
    fn networks_have_settings() {
        let folder = std::env::temp_dir();
        #[rustfmt::skip]
        let cases = [
            (String::new(),                             None),
            (format!("www={}", folder.display()),       None),
            ("www=/no/such/folder".into(),              Some("is no folder that can be read")),
            ("www=/proc/self/exe".into(),               Some("is no folder that can be read")),
            ("www".into(),                              Some("`www` is no setting of a network")),
            ("debian/amd64".into(),                     Some("`debian/amd64` is no setting of a network")),
            ("forward=8080".into(),                     None),
            ("forward=80".into(),                       Some("the web server's")),
            ("forward=0".into(),                        Some("`0` is no port")),
            ("forward=65536".into(),                    Some("`65536` is no port")),
            ("forward=ssh".into(),                      Some("`ssh` is no port")),
        ];
        for (text, refusal) in cases {
            let made = Settings::of(std::slice::from_ref(&text)).and_then(|settings| settings.network(None).map(|_| ()));
            let message = made.err().map(|failure| format!("{failure:?}"));
            assert_eq!(message.is_some(), refusal.is_some(), "{text}: {message:?}");
            assert!(refusal.is_none_or(|refusal| message.is_some_and(|message| message.contains(refusal))), "{text}");
        }
    }
}

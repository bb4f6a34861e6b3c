use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A folder beside a secret that is outside of it.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SECRET: &[u8] = b"secret";

fn place(name: &str) -> Place {
    let place = Place(std::env::temp_dir().join(format!("trapline-folder-{name}-{}", std::process::id())));
    let _ = fs::remove_dir_all(&place.0);
    fs::create_dir_all(place.0.join("outside")).unwrap();
    fs::create_dir_all(place.0.join("in/sub")).unwrap();
    fs::write(place.0.join("outside/file"), SECRET).unwrap();
    fs::write(place.0.join("in/sub/file"), b"open").unwrap();
    place
}

fn folder(place: &Place) -> HostFolder {
    HostFolder::new(&place.0.join("in")).unwrap()
}

fn path(text: &str) -> Vec<Vec<u8>> {
    text.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

fn content(folder: &HostFolder, at: &str) -> Result<Vec<u8>, ErrorNumber> {
    let mut bytes = vec![0; 64];
    let held = folder.read(&path(at), 0, &mut bytes)?;
    bytes.truncate(held);
    Ok(bytes)
}

/// FS-1: files are read, and folders are listed in the order of their names.
#[test]
fn a_folder_is_listed_in_order_and_its_files_are_read() {
    let place = place("reads");
    for name in ["b", "a", "\u{e4}", "Z"] {
        fs::write(place.0.join("in").join(name), name).unwrap();
    }
    symlink("sub/file", place.0.join("in/link")).unwrap();
    fs::set_permissions(place.0.join("in/a"), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = folder(&place);
    let names: Vec<String> =
        folder.list(&[]).unwrap().into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect();
    assert_eq!(names, ["Z", "a", "b", "link", "sub", "\u{e4}"]);
    assert_eq!(content(&folder, "sub/file"), Ok(b"open".to_vec()));
    assert_eq!(folder.target(&path("link")), Ok(b"sub/file".to_vec()));
    let seen = folder.attributes(&path("a")).unwrap();
    assert_eq!((seen.mode, seen.user, seen.group, seen.bytes), (FILE | 0o755, 0, 0, 1), "the owner is shown as root");
    assert_eq!(content(&folder, "sub"), Err(errors::IS_FOLDER));
    assert_eq!(content(&folder, "none"), Err(errors::NO_ENTRY));
    assert_eq!(folder.list(&path("a")), Err(errors::NO_FOLDER));
}

/// FS-2: no symbolic link is followed, neither the last name nor one in front of it, and special files are not opened.
#[test]
fn symbolic_links_and_pipes_lead_nowhere() {
    let place = place("links");
    let outside = place.0.join("outside");
    for (target, name) in [(outside.clone(), "folder"), (outside.join("file"), "file"), ("../outside".into(), "up")] {
        symlink(target, place.0.join("in").join(name)).unwrap();
    }
    symlink(".", place.0.join("in/self")).unwrap();
    rustix::fs::mknodat(CWD, place.0.join("in/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let folder = folder(&place);
    for wrong in ["folder/file", "up/file", "self/sub/file", "file"] {
        assert!(content(&folder, wrong).is_err(), "{wrong}");
    }
    for wrong in ["folder/file", "up/file", "self/sub"] {
        assert_eq!(folder.attributes(&path(wrong)), Err(errors::NO_FOLDER), "{wrong}");
        assert!(folder.list(&path(wrong)).is_err() && folder.target(&path(wrong)).is_err(), "{wrong}");
    }
    assert_eq!(folder.attributes(&path("folder")).unwrap().mode & TYPE, LINK);
    assert_eq!(folder.list(&path("folder")), Err(errors::NO_FOLDER));
    // Opening it for reading would wait for a writer.
    assert_eq!(content(&folder, "pipe"), Err(errors::INVALID));
}

/// FS-2: a program that exchanges a folder for a link to the outside meanwhile makes accesses fail, and reveals nothing.
#[test]
fn exchanging_a_folder_for_a_link_reveals_nothing() {
    let place = place("races");
    let inside = place.0.join("in");
    symlink(place.0.join("outside"), inside.join("link")).unwrap();
    let folder = folder(&place);
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, inside.join("sub"), CWD, inside.join("link"), rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
            }
        });
        // Nothing panics before the other thread is told to stop.
        let (mut read, mut refused, mut revealed) = (0, 0, None);
        let end = Instant::now() + Duration::from_secs(10);
        while (read < 500 || refused < 500) && revealed.is_none() && Instant::now() < end {
            match content(&folder, "sub/file") {
                Ok(bytes) if bytes == b"open" => read += 1,
                Ok(bytes) => revealed = Some(bytes),
                Err(_) => refused += 1,
            }
            if let Ok(seen) = folder.attributes(&path("sub/file"))
                && seen.bytes != 4
            {
                revealed = Some(format!("{seen:?}").into_bytes());
            }
        }
        stops.store(true, Ordering::Relaxed);
        assert_eq!(revealed, None);
        assert!(read > 0 && refused > 0, "{read} read, {refused} refused: the attack did not take place");
    });
}

/// FS-3: the checksum changes with names, modes and contents of the same length.
#[test]
fn the_checksum_changes_with_any_file() {
    let place = place("sums");
    let sum = || folder(&place).checksum().unwrap();
    let first = sum();
    assert_eq!(first, sum());
    // The clock of the file system ticks every few milliseconds.
    std::thread::sleep(Duration::from_millis(20));
    fs::write(place.0.join("in/sub/file"), b"OPEN").unwrap();
    let second = sum();
    fs::set_permissions(place.0.join("in/sub/file"), fs::Permissions::from_mode(0o600)).unwrap();
    let third = sum();
    fs::rename(place.0.join("in/sub/file"), place.0.join("in/sub/other")).unwrap();
    let all = [first, second, third, sum()];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{all:?}");
    assert!(HostFolder::new(&place.0.join("in/sub/other")).is_err(), "a file is no folder");
}

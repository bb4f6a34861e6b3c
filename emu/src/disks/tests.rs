use super::*;
use proptest::prelude::*;
use std::path::PathBuf;
use std::process::Command;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trapline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const BYTES: usize = 3 << 20;

/// Contents with clusters that are zero, that compress well, and that do not.
fn contents() -> Vec<u8> {
    let mut state = 1u32;
    let noise = |at: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match at >> 16 & 3 {
            0 => 0,
            1 => (at / 100) as u8,
            _ => (state >> 24) as u8,
        }
    };
    (0..BYTES - 512).map(noise).collect()
}

fn all(disk: &dyn Base) -> Vec<u8> {
    let mut bytes = vec![1; disk.bytes() as usize];
    // In two parts, so that a read starts inside a cluster.
    let (first, rest) = bytes.split_at_mut(70_000);
    disk.read(0, first).expect("it can be read");
    disk.read(70_000, rest).expect("it can be read");
    bytes
}

/// DK-5
#[test]
fn a_raw_file_is_read_and_zero_behind_its_end() {
    let folder = Folder::new("raw");
    let path = folder.0.join("disk");
    std::fs::write(&path, b"0123456789").expect("written");
    let disk = open(&path).expect("a disk");
    let mut bytes = [9; 6];
    disk.read(7, &mut bytes).expect("read");
    assert_eq!((disk.bytes(), &bytes), (10, b"789\0\0\0"));
    disk.read(u64::MAX, &mut bytes).expect("read");
    assert_eq!(bytes, [0; 6]);
    let same = open(&path).expect("a disk").checksum().expect("read");
    assert_eq!(disk.checksum().expect("read"), same);
    std::fs::write(&path, b"0123456780").expect("written");
    assert_ne!(open(&path).expect("a disk").checksum().expect("read"), same);
    assert!(matches!(open(&folder.0), Err(DiskError::NotAFile)));
    assert!(matches!(open(Path::new("/dev/zero")), Err(DiskError::NotAFile)));
}

/// DK-5
#[test]
fn images_of_qemu_img_have_the_contents_they_were_made_of() {
    if Command::new("qemu-img").arg("--version").output().is_err() {
        eprintln!("skipped: there is no qemu-img (Debian's package qemu-utils)");
        return;
    }
    let folder = Folder::new("qcow2");
    let (raw, qcow2) = (folder.0.join("raw"), folder.0.join("qcow2"));
    let contents = contents();
    std::fs::write(&raw, &contents).expect("written");
    for options in [
        &["-o", "compat=0.10"][..],
        &[],
        &["-c"],
        &["-c", "-o", "compression_type=zstd"],
        &["-o", "cluster_size=512"],
        &["-c", "-o", "cluster_size=2M"],
    ] {
        let made =
            Command::new("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2"]).args(options).args([&raw, &qcow2]).output();
        let made = made.expect("qemu-img runs");
        assert!(made.status.success(), "{options:?}: {}", String::from_utf8_lossy(&made.stderr));
        let disk = open(&qcow2).expect("a disk");
        assert!(all(&*disk) == contents, "{options:?}");
    }
    let backed = folder.0.join("backed");
    let made = Command::new("qemu-img").args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).args([&raw, &backed]).status();
    assert!(made.expect("qemu-img runs").success());
    assert!(open(&backed).is_err_and(|why| why.to_string().contains("backing file")));
}

/// An image of two clusters of 512 bytes, of which the second is in the file.
fn small() -> Vec<u8> {
    let mut image = vec![0; 4 * 512];
    image[..4].copy_from_slice(&qcow2::MAGIC);
    for (at, word) in [(4, 3), (20, 9), (28, 1024), (36, 1), (44, 512), (100, 104), (516, 1024), (1036, 1536)] {
        image[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
    }
    image[1536..].fill(7);
    image
}

fn opened(image: &[u8], name: &str) -> Result<Arc<dyn Base>, DiskError> {
    let folder = Folder::new(name);
    let path = folder.0.join("image");
    std::fs::write(&path, image)?;
    open(&path)
}

/// DK-5
#[test]
fn images_that_cannot_be_used_are_refused_with_the_reason() {
    let disk = opened(&small(), "small").expect("a disk");
    assert_eq!((disk.bytes(), read(&*disk)), (1024, Ok([vec![0; 512], vec![7; 512]].concat())));
    #[rustfmt::skip]
    let cases = [
        (4,     1,      "version"),
        (12,    4,      "backing file"),
        (32,    1,      "encrypted"),
        (76,    2,      "corrupt"),
        (76,    4,      "another file"),
        (76,    16,     "does not know"),
        (20,    8,      "impossible size"),
        (20,    22,     "impossible size"),
        (36,    0,      "cut off"),
        (40,    1,      "cut off"),
        (36,    1 << 31, "cut off"),
    ];
    for (at, word, why) in cases {
        let mut image = small();
        image[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
        let refused = opened(&image, "refused").map(|_| ()).expect_err(why);
        assert!(refused.to_string().contains(why), "{at}: {refused}");
    }
}

fn read(disk: &dyn Base) -> Result<Vec<u8>, io::ErrorKind> {
    let mut bytes = vec![1; 1024];
    disk.read(0, &mut bytes).map(|()| bytes).map_err(|error| error.kind())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damaged tables and headers are an error or other contents, and never a panic.
    #[test]
    fn a_damaged_image_never_panics(changes in proptest::collection::vec((0usize..2048, any::<u8>()), 1..8)) {
        let mut image = small();
        for (at, byte) in changes {
            image[at] = byte;
        }
        if let Ok(disk) = opened(&image, "damaged") {
            let _ = read(&*disk);
            let _ = disk.read(disk.bytes().saturating_sub(100), &mut [0; 200]);
        }
    }
}

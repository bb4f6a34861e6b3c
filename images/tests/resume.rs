//! An interrupted pull continues inside a package. The test runs the computer's apt against a local archive, which logs
//! the requests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use trapline_harness::{self as harness, tests};
use trapline_images::{PullError, Puller, Wanted};

const RELEASE: &str = "6.1.0-56-amd64";
const KERNEL_BYTES: usize = 3 << 20;
/// Bytes after which the first pull is terminated.
const SENT_BEFORE_THE_END: usize = 1 << 20;
const MODIFIED: &str = "Fri, 20 Nov 2026 10:00:00 GMT";

fn shell(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Builds an archive with a kernel that has a dependency, and busybox.
fn archive(folder: &Path) {
    let noise: Vec<u8> = (0..KERNEL_BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    fs::create_dir_all(folder.join("kernel/boot")).expect("a folder");
    fs::write(folder.join("kernel/boot").join(format!("vmlinuz-{RELEASE}")), noise).expect("a kernel");
    shell(
        folder,
        &format!(
            r#"
mkdir -p kernel/DEBIAN busybox/DEBIAN busybox/bin debian/pool debian/dists/bookworm/main/binary-amd64
echo busybox > busybox/bin/busybox
control() {{ printf 'Package: %s\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: x\n%s' "$1" "$2"; }}
control linux-image-{RELEASE} 'Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120) | linux-initramfs-tool
' > kernel/DEBIAN/control
control busybox-static '' > busybox/DEBIAN/control
for package in kernel busybox; do
    dpkg-deb -Znone --root-owner-group -b $package debian/pool/$package.deb >/dev/null
    cat $package/DEBIAN/control
    file=debian/pool/$package.deb
    printf 'Filename: pool/%s.deb\nSize: %s\nSHA256: %s\n\n' $package $(stat -c %s $file) $(sha256sum $file | cut -d' ' -f1)
done > packages
control linux-image-amd64 'Depends: linux-image-{RELEASE} (= 1)
' >> packages
printf 'Filename: pool/none.deb\nSize: 1\nSHA256: %064d\n\n' 0 >> packages
index=main/binary-amd64/Packages; mv packages debian/dists/bookworm/$index
printf 'Origin: x\nSuite: bookworm\nCodename: bookworm\nArchitectures: amd64\nComponents: main\nDate: Fri, 20 Nov 2026 10:00:00 UTC\nSHA256:\n %s %s %s\n' \
    $(sha256sum debian/dists/bookworm/$index | cut -d' ' -f1) $(stat -c %s debian/dists/bookworm/$index) $index > debian/dists/bookworm/Release
"#
        ),
    );
}

/// The requests: path and first byte.
type Asked = Arc<Mutex<Vec<(String, usize)>>>;

/// Serves the folder by HTTP. At the first download of the kernel it sends a part, then terminates the process group in the
/// file `pid`.
fn serve(folder: PathBuf, asked: Asked) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (folder, asked) = (folder.clone(), Arc::clone(&asked));
            std::thread::spawn(move || {
                // apt sends requests before the last one is answered (pipelining).
                let mut requests = BufReader::new(&stream).lines().map_while(Result::ok);
                while answer(&mut requests, &stream, &folder, &asked) {}
            });
        }
    });
    port
}

/// Answers one request; returns false when there are no more.
fn answer(requests: &mut impl Iterator<Item = String>, mut stream: &TcpStream, folder: &Path, asked: &Asked) -> bool {
    let head: Vec<String> = requests.by_ref().take_while(|line| !line.is_empty()).collect();
    let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)).map(str::to_string) else { return false };
    let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let Ok(bytes) = fs::read(folder.join(path.trim_start_matches('/'))) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").is_ok();
    };
    let is_same = header("If-Range:").is_none_or(|time| time == MODIFIED);
    let range = header("Range: bytes=").and_then(|range| range.split('-').next()?.parse::<usize>().ok());
    let start = range.filter(|start| is_same && *start < bytes.len()).unwrap_or(0);
    let first = path.ends_with("kernel.deb") && asked.lock().unwrap().iter().all(|(other, _)| *other != path);
    asked.lock().unwrap().push((path, start));
    let (total, rest) = (bytes.len(), &bytes[start..]);
    let status = match start {
        0 => "200 OK".to_string(),
        _ => format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}", total - 1),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLast-Modified: {MODIFIED}\r\nAccept-Ranges: bytes\r\n\r\n",
        rest.len()
    );
    if stream.write_all(head.as_bytes()).is_err() {
        return false;
    }
    if !first {
        return stream.write_all(rest).is_ok();
    }
    let _ = stream.write_all(&rest[..SENT_BEFORE_THE_END]);
    // apt needs time to write this part.
    let partial = || {
        let found = Command::new("find").arg(folder).args(["-path", "*/partial/*.deb", "-size", "+900k"]).output();
        found.is_ok_and(|found| !found.stdout.is_empty())
    };
    while !partial() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    shell(folder, "kill -s TERM -- -$(cat pid)");
    true
}

fn a_pull_that_ends_inside_a_package_goes_on_inside_it() {
    let folder = std::env::temp_dir().join(format!("trapline-resume-{}", std::process::id()));
    fs::create_dir_all(folder.join("tools")).expect("a folder");
    archive(&folder);
    let asked = Asked::default();
    let port = serve(folder.clone(), Arc::clone(&asked));
    for tool in ["apt-get", "apt-cache", "apt-config", "dpkg-deb"] {
        let file = folder.join("tools").join(tool);
        // The archive is unsigned. `setsid` makes a process group that can be terminated as a whole.
        let how = match tool {
            "apt-get" => format!(
                "exec setsid -w sh -c 'echo $$ > {}/pid; exec apt-get -o Acquire::AllowInsecureRepositories=true -o APT::Get::AllowUnauthenticated=true \"$@\"' sh",
                folder.display()
            ),
            tool => format!("exec {tool}"),
        };
        fs::write(&file, format!("#!/bin/sh\n{how} \"$@\"\n")).expect("a tool");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let mirror = format!("http://127.0.0.1:{port}/debian");
    let puller = Puller { cache: folder.join("cache"), mirror, tools: Some(folder.join("tools")), modules: false };
    let wanted = Wanted::parse("debian/amd64").expect("a stock kernel");

    let first = puller.pull(&wanted, &mut |_| ()).expect_err("apt was terminated");
    assert!(matches!(first, PullError::Interrupted { .. }), "{first}");
    let pulled = puller.pull(&wanted, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fs::metadata(&pulled.local.kernel).expect("the kernel").len(), KERNEL_BYTES as u64);
    let starts: Vec<usize> =
        asked.lock().unwrap().iter().filter(|(path, _)| path.ends_with("kernel.deb")).map(|(_, start)| *start).collect();
    println!("the kernel's package was asked for from bytes {starts:?} on");
    assert!(starts.len() == 2 && starts[0] == 0 && starts[1] > 900 << 10, "{starts:?}");
    let others: Vec<String> = asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert!(others.iter().all(|path| !path.contains("kmod")), "nothing else is fetched: {others:?}");
    let _ = fs::remove_dir_all(&folder);
}

fn main() -> ExitCode {
    let mut tests = tests![a_pull_that_ends_inside_a_package_goes_on_inside_it];
    for (tool, package) in [("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("setsid", "util-linux"), ("sha256sum", "coreutils")] {
        tests = tests.into_iter().map(|test| test.needs(harness::tool(tool, package))).collect();
    }
    harness::run([tests])
}

//! `--net forward=PORT`: programs of stock kernels reach a server of the host, and a recording is replayed without it.
//!
//! If a kernel is not on this computer with its modules, its tests are skipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use trapline_harness::{self as harness, Folder, Test};

/// Kernels whose devices are on four kinds of bus, in both byte orders.
const GUESTS: &[&str] = &["debian/amd64", "debian/arm64", "debian/s390x", "debian/mipsel"];

struct Said {
    status: i32,
    out: String,
    err: String,
}

/// Runs trapline with this kernel at hand. The current folder and the cache are `folder`.
fn trapline(name: &str, folder: &Path, args: &[&str]) -> Said {
    let found = harness::stock(name);
    let mut command_line = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command_line.env("TRAPLINE_IMAGES", &found.local.folder).env("XDG_CACHE_HOME", folder).current_dir(folder);
    let output = command_line.args(args).stdin(Stdio::null()).output().expect("trapline starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { status: output.status.code().expect("a status"), out: text(output.stdout), err: text(output.stderr) }
}

/// A server of the host. It counts its requests, so that a test sees that a replay makes none.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
}

const LARGE: u32 = 2_000_000;

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| ((at / 5) ^ (at >> 13)) as u8).collect()
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                thread::spawn(move || answer(connection, number));
            }
        });
        Server { port, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn answer(mut connection: TcpStream, number: usize) {
    let (mut request, mut bytes) = (Vec::new(), [0; 512]);
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read(&mut bytes) {
            Ok(read) if read > 0 => request.extend(&bytes[..read]),
            _ => return,
        }
    }
    let is_large = request.starts_with(b"GET /large ");
    let body = if is_large { large() } else { format!("answer {number} of the host\n").into_bytes() };
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    // A guest that hangs up early is the test's failure, not the server's.
    let _ = connection.write_all(&[head.as_bytes(), &body].concat());
}

/// A port at which nobody listens.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// NW-5, TT-1: two answers and a large file come, a port without a server refuses, and a port that is not forwarded too. The
/// replay shows the same without the server, with probes too.
fn a_server_of_the_host_is_reached_and_replayed(name: &'static str) {
    let folder = Folder::new(&format!("forwarded-{}", name.replace('/', "-")));
    let (server, silent) = (Server::start(), free_port());
    let at = format!("http://10.0.2.2:{}", server.port);
    let script = format!(
        "wget -q -O - {at}/one; wget -q -O - {at}/two
wget -q -O /tmp/large {at}/large && md5sum < /tmp/large
wget -O - http://10.0.2.2:{silent}/ 2>&1 | grep -c refused
wget -O - http://10.0.2.2:9/ 2>&1 | grep -c refused
exit 7\n"
    );
    std::fs::write(folder.0.join("script"), script).expect("written");
    std::fs::write(folder.0.join("large"), large()).expect("written");
    let forward = [format!("forward={}", server.port), format!("forward={silent}")];
    let net = ["--net", &forward[0], "--net", &forward[1], "--script", "script"];
    let said = trapline(name, &folder.0, &[&["run", name, "--record", "rec"][..], &net].concat());
    assert_eq!(said.status, 1, "{name}: {}{}", said.out, said.err);
    assert!(said.err.contains("status 7") && !said.err.contains("it repeats only"), "{name}: {}", said.err);
    let sum = Command::new("md5sum").arg(folder.0.join("large")).output().expect("md5sum starts");
    let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_string();
    let expected = format!("answer 1 of the host\r\nanswer 2 of the host\r\n{sum}  -\r\n1\r\n1\r\n");
    assert!(said.out.contains(&expected), "{name}: {expected} is not in\n{}", said.out);
    assert_eq!(server.requests(), 3, "{name}");

    let again = trapline(name, &folder.0, &["replay", "rec"]);
    // The first run's summary follows its console.
    assert!(again.status == 1 && said.out.starts_with(&again.out), "{name}: {}{}", again.out, again.err);
    assert!(again.out.contains(&expected) && again.err.contains("marks equal"), "{name}: {}{}", again.out, again.err);
    let probes = ["replay", "rec", "-e", "kprobe:tcp_v4_connect { @[comm] = count(); }"];
    let probed = trapline(name, &folder.0, &probes);
    assert!(probed.out.contains("@[wget]: 5"), "{name}: {}{}", probed.out, probed.err);
    assert_eq!(server.requests(), 3, "{name}: a replay reaches nothing");
}

/// NW-5: a run that is not recorded says that it does not repeat, and works in a guest that starts at its shell.
fn a_run_that_does_not_repeat_says_so(name: &'static str) {
    let folder = Folder::new("forwarded-booted");
    let server = Server::start();
    let (forward, script) =
        (format!("forward={}", server.port), format!("wget -q -O - http://10.0.2.2:{}/; exit 7", server.port));
    let said = trapline(name, &folder.0, &["run", name, "--from-boot", "--net", &forward, "--script", &script]);
    assert!(said.out.contains("answer 1 of the host"), "{}{}", said.out, said.err);
    assert!(said.err.contains("it repeats only if it is recorded"), "{}", said.err);
}

/// NW-5: commands that run a guest several times, or without an end, refuse.
fn commands_that_compare_refuse(name: &'static str) {
    let folder = Folder::new("forwarded-refused");
    #[rustfmt::skip]
    let cases: &[&[&str]] = &[
        &["verify", name, "--net", "forward=8080", "-e", "p vfs_read"],
        &["sweep", name, "--net", "forward=8080", "--out", "results"],
        &["gdb", name, "--net", "forward=8080"],
    ];
    for args in cases {
        let said = trapline(name, &folder.0, args);
        assert_eq!(said.status, 2, "{args:?}: {}{}", said.out, said.err);
        assert!(
            said.err.contains("only `trapline run` and `trapline trace` reach sockets of the host"),
            "{args:?}: {}",
            said.err
        );
    }
}

fn main() -> ExitCode {
    let with = |family: &str, test: fn(&'static str), name: &'static str| {
        let kernel = harness::complete(name, "--modules ", |local| local.module("virtio_net").is_some());
        Test::new(harness::member(family, name), move || test(name)).needs(kernel)
    };
    let reached = "a_server_of_the_host_is_reached_and_replayed";
    harness::run([
        GUESTS.iter().map(|name| with(reached, a_server_of_the_host_is_reached_and_replayed, name)).collect(),
        vec![
            with("a_run_that_does_not_repeat_says_so", a_run_that_does_not_repeat_says_so, "debian/amd64"),
            with("commands_that_compare_refuse", commands_that_compare_refuse, "debian/amd64"),
        ],
    ])
}

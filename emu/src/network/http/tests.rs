//! Requests to the web server: right, wrong and hostile ones.

use super::*;
use crate::folders;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder beside a secret that is outside of it.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn place(name: &str) -> (Place, Arc<dyn Tree>) {
    let place = Place(std::env::temp_dir().join(format!("trapline-www-{name}-{}", std::process::id())));
    let _ = fs::remove_dir_all(&place.0);
    let inside = place.0.join("in");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir_all(inside.join("a <b> & c")).unwrap();
    fs::write(place.0.join("secret"), "the secret").unwrap();
    for (name, text) in
        [("file", "hello\n"), ("empty", ""), ("sub/b", "b"), ("sub/a", "a"), ("a%2fb", "percent"), ("...", "dots")]
    {
        fs::write(inside.join(name), text).unwrap();
    }
    symlink("../secret", inside.join("link")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("file", inside.join("alias")).unwrap();
    symlink("/", inside.join("sub/root")).unwrap();
    let tree = folders::open_folder(&inside).unwrap();
    (place, tree)
}

/// The whole answer, taken in pieces of this many bytes.
fn ask(request: &[u8], tree: Option<&dyn Tree>, piece: usize) -> String {
    let mut exchange = Exchange::default();
    request.chunks(piece).for_each(|part| exchange.take(part, tree));
    let (mut answer, mut into) = (Vec::new(), vec![0; piece]);
    assert!(exchange.has_answer());
    while !exchange.is_done() {
        let held = exchange.fill(&mut into, tree).expect("a file");
        answer.extend(&into[..held]);
    }
    String::from_utf8(answer).expect("text")
}

fn get(target: &str, tree: &dyn Tree) -> String {
    ask(format!("GET {target} HTTP/1.1\r\nHost: 10.0.2.2\r\n\r\n").as_bytes(), Some(tree), 1000)
}

/// NW-3: files are shown with fixed dates, in pieces of any size.
#[test]
fn a_file_is_shown() {
    let (_place, tree) = place("file");
    let expected = "HTTP/1.1 200 OK\r\nServer: trapline\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\nConnection: close\r\n\
                    Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT\r\nContent-Type: application/octet-stream\r\n\
                    Content-Length: 6\r\n\r\nhello\n";
    for piece in [1, 7, 10_000] {
        assert_eq!(ask(b"GET /file HTTP/1.0\r\n\r\n", Some(&*tree), piece), expected);
    }
    assert_eq!(ask(b"GET /file?x=../y HTTP/1.1\n\n", Some(&*tree), 5), expected);
    assert_eq!(get("//sub//%61", &*tree).lines().last(), Some("a"));
    assert!(get("/empty", &*tree).ends_with("Content-Length: 0\r\n\r\n"));
    let head = ask(b"HEAD /file HTTP/1.1\r\n\r\n", Some(&*tree), 100);
    assert_eq!(head, expected.strip_suffix("hello\n").unwrap());
}

/// NW-3: a listing is sorted, holds no symbolic links, and cannot be broken by names.
#[test]
fn a_listing_is_sorted() {
    let (_place, tree) = place("listing");
    let answer = get("/", &*tree);
    let items: Vec<&str> = answer.lines().filter_map(|line| line.strip_prefix("<li><a href=\"")?.strip_suffix("</a>")).collect();
    let expected = [
        "...\">...",
        "a%20%3Cb%3E%20%26%20c/\">a &lt;b&gt; &amp; c/",
        "a%252fb\">a%2fb",
        "empty\">empty",
        "file\">file",
        "sub/\">sub/",
    ];
    assert_eq!(items, expected);
    assert!(get("/sub/", &*tree).contains("<title>/sub/</title>\n<ul>\n<li><a href=\"a\">a</a>\n<li><a href=\"b\">b</a>\n</ul>"));
    assert!(get("/a%20%3Cb%3E%20%26%20c", &*tree).contains("301 Moved Permanently"));
    assert!(get("/a%20%3Cb%3E%20%26%20c", &*tree).contains("\r\nLocation: /a%20%3Cb%3E%20%26%20c/\r\n"));
}

/// NW-3: no request leads out of the folder.
#[test]
fn no_request_leaves_the_folder() {
    let (_place, tree) = place("attack");
    #[rustfmt::skip]
    let cases = [
        ("/../secret",              400),
        ("/sub/../../secret",       400),
        ("/sub/../file",            400),
        ("/./file",                 400),
        ("/..",                     400),
        ("/%2e%2e/secret",          400),
        ("/%2E./secret",            400),
        ("/..%2fsecret",            400),
        ("/sub%2f..%2f..%2fsecret", 400),
        ("/sub%2fa",                400),
        ("/file%00",                400),
        ("/%zz",                    400),
        ("/%2",                     400),
        ("secret",                  400),
        ("../secret",               400),
        ("http://10.0.2.2/file",    400),
        ("/link",                   404),
        ("/link/",                  404),
        ("/alias",                  404),
        ("/up/secret",              404),
        ("/up/",                    404),
        ("/sub/root/etc/passwd",    404),
        ("/sub/root/",              404),
        ("/file/",                  404),
        ("/file/x",                 404),
        ("/etc/passwd",             404),
        ("/proc/self/environ",      404),
        ("/a%252fb",                200),
        ("/...",                    200),
    ];
    for (target, status) in cases {
        let answer = get(target, &*tree);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
        assert!(!answer.contains("the secret") && !answer.contains("root:"), "{target}: {answer}");
    }
    let long = format!("/{}", "a".repeat(5000));
    assert!(get(&long, &*tree).contains("404"));
}

/// NW-2: requests that are no requests are refused, and none takes more memory than its bound.
#[test]
fn other_requests_are_refused() {
    let (_place, tree) = place("refused");
    let endless = [&b"GET /file HTTP/1.1\r\n"[..], &b"A: b\r\n".repeat(2000)].concat();
    #[rustfmt::skip]
    let cases: [(&[u8], &str); 8] = [
        (b"POST /file HTTP/1.1\r\n\r\n",            "405 "),
        (b"PUT /new HTTP/1.1\r\n\r\nbody",          "405 "),
        (b"DELETE /file HTTP/1.1\r\n\r\n",          "405 "),
        (b"GET /file\r\n\r\n",                      "400 "),
        (b"GET /file SSH-2.0\r\n\r\n",              "400 "),
        (b"\r\n\r\n",                               "400 "),
        (b"\xff\xfe \x00 HTTP/1.1\r\n\r\n",         "405 "),
        (&endless,                                  "431 "),
    ];
    for (request, status) in cases {
        let answer = ask(request, Some(&*tree), 77);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{}: {answer}", String::from_utf8_lossy(request));
    }
    assert!(ask(b"GET / HTTP/1.1\r\n\r\n", None, 77).contains("give one by --net www=DIR"));
    let mut exchange = Exchange::default();
    (0..1000).for_each(|_| exchange.take(&[b'a'; 1000], None));
    assert_eq!(exchange.request.len(), LONGEST_REQUEST + 1);
}

/// NW-3: a file that has become shorter ends the connection instead of giving other bytes.
#[test]
fn a_shorter_file_ends_the_answer() {
    let (place, tree) = place("shorter");
    let mut exchange = Exchange::default();
    exchange.take(b"GET /file HTTP/1.1\r\n\r\n", Some(&*tree));
    fs::write(place.0.join("in/file"), "x").unwrap();
    assert_eq!(exchange.fill(&mut [0; 1000], Some(&*tree)), Err(Shorter));
}

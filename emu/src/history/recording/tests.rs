use super::*;
use proptest::prelude::*;

fn head() -> Head {
    let key = Key {
        trapline: "1".into(),
        image: Key::hash(b"kernel"),
        initrd: String::new(),
        command_line: "quiet".into(),
        cpu: String::new(),
        cpus: 2,
        ram: None,
        window: 0,
        attached: Vec::new(),
        moment: "the kernel's entry".into(),
    };
    Head { key, start: None, begins: 7, image: "tiny/arm64".into(), guest: serde_json::json!({"cpus": 2}) }
}

fn frames() -> Vec<Frame> {
    let mark = |registers| Mark { time: 102, cpu: 1, parts: [[1; 8], [2; 8], [3; 8], [4; 8]], registers };
    vec![
        Frame::Typed { at: 8, keys: b"ls\n".to_vec() },
        Frame::Typed { at: 8, keys: Vec::new() },
        Frame::Asked { at: 9, command: "p:open vfs_open".into() },
        Frame::Mark { at: 100, mark: mark(None) },
        Frame::Came { at: 101, event: vec![7; 20] },
        Frame::Ends { at: 101 },
        Frame::Mark { at: 200, mark: mark(Some([5; 8])) },
        Frame::End { at: 300, time: 305, by_guest: true, reason: "the guest powered off".into() },
    ]
}

fn file() -> Vec<u8> {
    file_in(FORMAT)
}

fn file_in(format: u32) -> Vec<u8> {
    let frames: Vec<(u8, Vec<u8>)> = frames().iter().map(|frame| (frame.kind(), frame.payload())).collect();
    let frames: Vec<(u8, &[u8])> = frames.iter().map(|(kind, payload)| (*kind, payload.as_slice())).collect();
    written_in(format, &serde_json::to_vec(&head()).expect("a head"), &frames)
}

/// TT-1
#[test]
fn a_recording_is_read_as_it_was_written() {
    let path = std::env::temp_dir().join(format!("trapline-recording-{}", std::process::id()));
    let mut recorder = Recorder::create(&path, &head()).expect("a file");
    for frame in frames() {
        recorder.write(&frame).expect("it is written");
    }
    let bytes = std::fs::read(&path).expect("the file");
    let _ = std::fs::remove_file(&path);
    assert_eq!(bytes, file());
    let recording = Recording::read(&bytes).expect("a recording");
    assert_eq!(recording, Recording { head: head(), frames: frames(), left_over: 0 });
    assert_eq!((recording.has_ended(), recording.end()), (true, 305));
}

/// TT-1: formats 1 and 2 had fewer kinds of frames, and are read as before.
#[test]
fn recordings_of_the_format_before_are_read() {
    for (format, expected) in
        [(1, Ok(8)), (2, Ok(8)), (3, Ok(8)), (0, Err(RecordingError::Format(0))), (4, Err(RecordingError::Format(4)))]
    {
        assert_eq!(Recording::read(&file_in(format)).map(|recording| recording.frames.len()), expected, "format {format}");
    }
}

/// TT-1
#[test]
fn long_input_is_written_in_several_frames() {
    let path = std::env::temp_dir().join(format!("trapline-recording-long-{}", std::process::id()));
    let mut recorder = Recorder::create(&path, &head()).expect("a file");
    let keys: Vec<u8> = (0..2 * LONGEST + 5).map(|at| at as u8).collect();
    recorder.write(&Frame::Typed { at: 9, keys: keys.clone() }).expect("it is written");
    let recording = Recording::read(&std::fs::read(&path).expect("the file")).expect("a recording");
    let _ = std::fs::remove_file(&path);
    let read = recording.frames.iter().flat_map(|frame| match frame {
        Frame::Typed { at: 9, keys } => keys.clone(),
        other => panic!("{other:?}"),
    });
    assert!(read.eq(keys) && recording.frames.len() == 3 && recording.left_over == 0);
}

/// TT-1: cut at every byte, the whole frames before the cut are read.
#[test]
fn a_recording_that_is_cut_off_has_its_whole_frames() {
    let file = file();
    let (all, mut lengths) = (frames(), Vec::new());
    for cut in 0..=file.len() {
        match Recording::read(&file[..cut]) {
            Err(RecordingError::Foreign) => assert!(cut < FRAMES_AT, "cut at {cut}"),
            Err(error) => assert_eq!(error, RecordingError::NoHead, "cut at {cut}"),
            Ok(recording) => {
                assert_eq!(recording.head, head(), "cut at {cut}");
                assert_eq!(recording.frames, all[..recording.frames.len()], "cut at {cut}");
                assert_eq!(recording.left_over == 0, !lengths.contains(&recording.frames.len()), "cut at {cut}");
                lengths.push(recording.frames.len());
            }
        }
    }
    lengths.dedup();
    assert_eq!(lengths, [0, 1, 2, 3, 4, 5, 6, 7, 8], "each frame counts from its last byte on");
}

/// TT-1: one byte changed anywhere is noticed: reading ends in front of it.
#[test]
fn a_changed_byte_is_noticed_anywhere() {
    let (file, all) = (file(), frames());
    for at in 0..file.len() {
        for bits in [1, 0x41, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= bits;
            if let Ok(recording) = Recording::read(&changed) {
                let read = recording.frames.len();
                assert!(read < all.len() && recording.frames == all[..read], "byte {at}");
                assert!(file.len() - recording.left_over <= at, "byte {at} lies behind what was read");
            }
        }
    }
}

/// TT-1
#[test]
fn frames_cannot_change_their_order() {
    let frames = frames();
    let parts: Vec<(u8, Vec<u8>)> = frames.iter().map(|frame| (frame.kind(), frame.payload())).collect();
    let head = serde_json::to_vec(&head()).expect("a head");
    let read = |order: &[usize]| {
        let parts: Vec<(u8, &[u8])> = order.iter().map(|at| (parts[*at].0, parts[*at].1.as_slice())).collect();
        Recording::read(&written(&head, &parts)).expect("a head").frames.len()
    };
    assert_eq!(
        [read(&[0, 3, 5]), read(&[3, 0, 5]), read(&[0, 7, 7]), read(&[7, 6])],
        [3, 1, 2, 1],
        "by place, and an end ends it"
    );
}

proptest! {
    /// TT-1
    #[test]
    fn any_bytes_are_a_recording_or_an_error(
        start in 0..3usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0..9u8,
    ) {
        let head = serde_json::to_vec(&head()).expect("a head");
        let bytes = match start {
            0 => bytes,
            1 => written(&bytes, &[]),
            _ => written(&head, &[(kind, &bytes)]),
        };
        if let Ok(recording) = Recording::read(&bytes) {
            let frames: Vec<(u8, Vec<u8>)> = recording.frames.iter().map(|frame| (frame.kind(), frame.payload())).collect();
            let frames: Vec<(u8, &[u8])> = frames.iter().map(|(kind, payload)| (*kind, payload.as_slice())).collect();
            let again = written(&serde_json::to_vec(&recording.head).expect("a head"), &frames);
            let again = Recording::read(&again).expect("it was read before");
            prop_assert_eq!((again.head, again.frames), (recording.head, recording.frames));
        }
    }
}

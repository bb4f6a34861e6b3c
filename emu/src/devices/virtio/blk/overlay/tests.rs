use super::super::super::testing::Pattern;
use super::*;
use proptest::prelude::*;

/// DK-2
#[test]
fn a_block_is_copied_when_a_part_is_written() {
    let mut overlay = Overlay::new(Arc::new(Pattern(10_000)));
    overlay.write(4090, &[0; 10]).expect("room");
    assert_eq!(overlay.written.len(), 2);
    let mut bytes = [1; 20];
    overlay.read(4085, &mut bytes).expect("a base");
    let expected: Vec<u8> = (4085..4105).map(|at| if (4090..4100).contains(&at) { 0 } else { Pattern::byte(at) }).collect();
    assert_eq!(bytes[..], expected);
}

/// DK-4
#[test]
fn damaged_blocks_are_refused() {
    let packed = |plain: &[u8]| text(&zstd::bulk::compress(plain, 1).expect("bytes"));
    let saved = |written: &str| serde_json::json!({"bytes": 8192, "base": "x", "written": written});
    let whole = [&1u64.to_le_bytes()[..], &[3; 4096]].concat();
    let read = |written: &str| serde_json::from_value::<Overlay>(saved(written));
    assert!(read(&packed(&whole)).is_ok_and(|overlay| overlay.is_sound()));
    let outside = [&2u64.to_le_bytes()[..], &[3; 4096]].concat();
    assert!(read(&packed(&outside)).is_ok_and(|overlay| !overlay.is_sound()), "outside of the disk");
    for (what, written) in [
        ("cut", packed(&whole[..4000])),
        ("a number cut", packed(&whole[..5])),
        ("no digits", "####".into()),
        ("odd", "AAA".into()),
        ("no frame", "AAAA".into()),
    ] {
        assert!(read(&written).is_err(), "{what}");
    }
}

proptest! {
    #[test]
    fn base_64_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(from_text(&text(&bytes)), Some(bytes));
    }

    #[test]
    fn any_text_is_bytes_or_nothing(text in ".{0,40}") {
        let _ = from_text(&text);
    }
}

#[test]
fn base_64_is_that_of_the_standard() {
    for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!(text(plain.as_bytes()), coded);
    }
}

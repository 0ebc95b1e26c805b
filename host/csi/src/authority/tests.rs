//! How the bytes of a connection are rewritten, in pieces of any length.

use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, 1][..], payload].concat()
}

/// The output for a connection of these frames, in pieces of any length.
fn passed(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let whole = [vec![b'-'; PREFACE_BYTES], frames.concat()].concat();
    let mut outcomes = (1..=whole.len()).map(|length| {
        let (mut rewriter, mut bytes) = (Rewriter::default(), whole.clone());
        bytes.chunks_mut(length).for_each(|it| rewriter.pass(it));
        bytes
    });
    let first = outcomes.next().unwrap();
    assert!(outcomes.all(|outcome| outcome == first));
    let mut rest = &first[PREFACE_BYTES..];
    let split = frames.iter().map(|frame| {
        let (one, others) = rest.split_at(frame.len());
        rest = others;
        one.to_vec()
    });
    split.collect()
}

fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| u8::try_from(text.len()).unwrap();
    [&[0x40, length(name)], name, &[length(value)], value].concat()
}

#[test]
fn the_authority_is_replaced_in_each_form_of_a_field() {
    // POST, http, and after the field a path, which stays.
    let around = |field: &[u8]| [&[0x83, 0x86], field, &[0x44, 2, b'/', b'p']].concat();
    for (sent, expected) in [
        (literal(NAME, b"%2Ftmp"), literal(NAME, b"xxxxxx")),
        (b"\x41\x06%2Ftmp".to_vec(), b"\x41\x06xxxxxx".to_vec()),
        (b"\x01\x02%2".to_vec(), b"\x01\x02xx".to_vec()),
        (b"\x11\x02%2".to_vec(), b"\x11\x02xx".to_vec()),
        // In Huffman code: replaced by plain letters.
        (b"\x41\x82\xff\x01".to_vec(), b"\x41\x02xx".to_vec()),
        (b"\x41\x00".to_vec(), b"\x41\x00".to_vec()),
    ] {
        let [sent, expected] = [sent, expected].map(|it| frame(HEADERS, 4, &around(&it)));
        assert_eq!(passed(&[sent]), [expected]);
    }
}

#[test]
fn an_authority_may_lie_across_frames() {
    // 255 bytes, encoded as 127 and 128.
    let length = b"\x41\x7f\x80\x01";
    let frames = |byte: u8| {
        [
            frame(HEADERS, 0, &[&length[..], &[byte; 200]].concat()),
            frame(CONTINUATION, 4, &[&[byte; 55][..], b"\x44\x01/"].concat()),
        ]
    };
    assert_eq!(passed(&frames(b'/')), frames(LETTER));
}

#[test]
fn all_other_bytes_stay() {
    let fields = [
        literal(b":authoritx", b"%2F"),
        literal(b":authorit", b"%2F"),
        literal(b"grpc-accept-encoding", b":authority"),
        // By index, static and dynamic, small and large; a change of the table's size.
        b"\xbe\xff\x01\x7f\x01\x01v\x0f\x02\x01v\x3f\xe1\x1f".to_vec(),
    ]
    .concat();
    let frames = [
        frame(4, 0, b"\x41\x01/"),
        frame(HEADERS, 4, &fields),
        frame(0, 1, b"\x41\x01/"),
        frame(HEADERS, 4, b""),
        frame(HEADERS, 4 | PADDED, b"\x09"),
        frame(HEADERS, 4 | PADDED, b""),
    ];
    assert_eq!(passed(&frames), frames);
}

#[test]
fn fields_are_found_behind_priority_and_before_padding() {
    let sent = frame(
        HEADERS,
        4 | PADDED | PRIORITY,
        b"\x03\x41\x41\x41\x41\x41\x41\x02%2\x41\x01/",
    );
    let expected = frame(
        HEADERS,
        4 | PADDED | PRIORITY,
        b"\x03\x41\x41\x41\x41\x41\x41\x02xx\x41\x01/",
    );
    assert_eq!(passed(&[sent.clone(), sent]), [expected.clone(), expected]);
}

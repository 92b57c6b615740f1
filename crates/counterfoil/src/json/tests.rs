//! What the reader keeps, refuses and bounds.

use super::*;

fn refused(text: &str, max_depth: usize) -> (JsonReason, usize) {
    let error = parse_str(text, max_depth).unwrap_err();
    (error.reason, error.offset)
}

#[test]
fn keeps_bytes_spellings_and_order() {
    let text = " {\"b\" : 1.50 , \"\\u0061\":[ true,null ],\"s\":\"x\\ny\"} ";
    let node = parse_str(text, 2).unwrap();
    assert_eq!(node.span(), 1..text.len() - 1);
    let members: Vec<_> = node.members().unwrap().iter().map(|m| (m.name(), m.value().raw())).collect();
    assert_eq!(members, [("b", "1.50"), ("a", "[ true,null ]"), ("s", "\"x\\ny\"")]);
    assert_eq!(&text[node.members().unwrap()[0].span()], "\"b\" : 1.50");
    assert_eq!(node.member("s").unwrap().as_str(), Some("x\ny"));
    assert_eq!(node.member("b").unwrap().content(), &Content::Number("1.50"));
    assert_eq!(node.member("a").unwrap().elements().map(<[_]>::len), Some(2));
}

#[test]
fn says_where_and_why_but_never_what() {
    let table = [
        (r#"{"secret":1,"b":2,"secret":3}"#, JsonReason::DuplicateMember, 18),
        (r#"{"s":"ab\ud800"}"#, JsonReason::LoneSurrogate, 8),
        (r#"{"s":"ab\x"}"#, JsonReason::InvalidEscape, 8),
        ("{\"s\":\"a\nb\"}", JsonReason::ControlCharacter, 7),
        ("[1,2", JsonReason::UnexpectedEnd, 4),
        ("[1 2]", JsonReason::UnexpectedByte, 3),
        ("[01]", JsonReason::InvalidNumber, 1),
        ("[1e20000]", JsonReason::ExponentTooLarge, 1),
        ("[] x", JsonReason::TrailingData, 3),
        ("\u{feff}[]", JsonReason::ByteOrderMark, 0),
        ("[[[]]]", JsonReason::TooDeep, 2),
    ];
    for (text, reason, offset) in table {
        assert_eq!(refused(text, 2), (reason, offset), "{text}");
    }
    let error = parse(b"[\"a\xFF\"]", 2).unwrap_err();
    assert_eq!((error.reason, error.offset), (JsonReason::InvalidUtf8, 3));
    let shown = parse_str(r#"{"secret":1,"secret":3}"#, 2).unwrap_err().to_string();
    assert_eq!(shown, "a member name is repeated in its object (at byte 12)");
}

#[test]
fn names_the_first_repeated_member_of_a_large_object() {
    let names = (0..100).map(|at| format!("\"{}\":0", at % 98)).collect::<Vec<_>>().join(",");
    let text = format!("{{{names}}}");
    let offset = text.rfind("\"0\"").unwrap();
    assert_eq!(refused(&text, 2), (JsonReason::DuplicateMember, offset));
}

/// The reader recurses; whatever depth a caller asks for, the stack of a small thread has to do.
#[test]
fn depth_is_bounded_whatever_is_asked_for() {
    let read = || {
        for open in ["[", "{\"a\":"] {
            let text = open.repeat(100_000);
            assert_eq!(refused(&text, usize::MAX), (JsonReason::TooDeep, open.len() * DEEPEST));
        }
        let text = "[".repeat(DEEPEST) + &"]".repeat(DEEPEST);
        assert!(parse_str(&text, usize::MAX).is_ok());
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(read).unwrap().join().unwrap();
}

#[test]
fn writes_strings_that_read_back() {
    let text: String = ('\0'..='\u{ff}').chain(['\u{2028}', '\u{ffff}', '\u{10ffff}']).collect();
    let mut written = String::new();
    write_string(&text, &mut |piece| written.push_str(piece));
    assert_eq!(parse_str(&written, 0).unwrap().as_str(), Some(&*text));
    assert!(
        written.starts_with(r#""\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e"#)
    );
}

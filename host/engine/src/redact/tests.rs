//! Tests of redaction: replaced, rejected and unchanged texts.

use super::*;

fn redactor(request: &[&str], backend: &[&str]) -> Redactor {
    let secrets = |values: &[&str]| {
        let named = values.iter().enumerate();
        Arc::new(Secrets::from_iter(
            named.map(|(n, value)| (n.to_string(), (*value).to_owned())),
        ))
    };
    Redactor::new(secrets(request), secrets(backend))
}

#[test]
fn values_of_both_scopes_are_replaced_in_a_text() {
    let redactor = redactor(&["hunter22"], &["tr0ub4dor"]);
    for (text, expected) in [
        ("login with hunter22 failed", "login with [redacted] failed"),
        (
            "tr0ub4dor, hunter22hunter22",
            "[redacted], [redacted][redacted]",
        ),
        ("nothing to hide", "nothing to hide"),
        ("", ""),
    ] {
        assert_eq!(redactor.text(text), expected);
    }
}

#[test]
fn a_value_within_another_leaves_nothing_of_the_longer_one() {
    let redactor = redactor(&["pass", "password-1"], &[]);
    assert_eq!(redactor.text("password-1"), "[redacted]");
}

#[test]
fn a_value_that_is_split_by_an_escape_sequence_is_found() {
    let redactor = redactor(&["hunter22"], &[]);
    assert_eq!(redactor.text("hun\u{1b}[31mter22"), "[redacted]");
}

#[test]
fn the_lines_and_quoted_parts_of_a_value_are_secrets_too() {
    let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6";
    let document = format!(r#"{{"api":{{"token":"{token}"}}}}"#);
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----";
    let redactor = redactor(&[&document, key], &[]);
    assert_eq!(redactor.text(token), "[redacted]");
    assert_eq!(redactor.text("MIIEvQIBADANBgkqhkiG9w0B"), "[redacted]");
    assert!(redactor.finds_secret_in(token));
}

#[test]
fn a_field_name_is_kept_in_identifiers_and_redacted_in_texts() {
    let (name, token) = (
        "monitoring.production.example",
        "eyJhbGciOiJSUzI1NiIsImtpZCI6",
    );
    for document in [
        format!(r#"{{"{name}":{{"token":"{token}"}}}}"#),
        format!(r#"{{ "{name}" : {{ "token" : "{token}" }} }}"#),
    ] {
        let redactor = redactor(&[&document], &[]);
        assert!(!redactor.finds_secret_in(format!("tokens/{name}")));
        assert_eq!(redactor.text(name), "[redacted]");
        assert!(redactor.finds_secret_in(token));
    }
    // A string that is a value anywhere is rejected.
    let both = format!(r#"{{"{token}":1,"token":"{token}"}}"#);
    assert!(redactor(&[&both], &[]).finds_secret_in(token));
}

#[test]
fn short_strings_are_not_redacted() {
    let redactor = redactor(&["yes"], &["admin"]);
    assert_eq!(redactor.text("yes, admin"), "yes, [redacted]");
    assert!(!redactor.finds_secret_in("volumes/admin/1"));
}

#[test]
fn control_characters_do_not_leave() {
    let redactor = redactor(&[], &[]);
    assert_eq!(
        redactor.text("a\u{1b}[2Jb\nc\u{1b}]0;d\u{7}\0e\r\n"),
        "ab c]0;d  e"
    );
}

#[test]
fn a_long_text_is_cut_after_its_secrets_are_replaced() {
    let redactor = redactor(&["hunter22"], &[]);
    let text = redactor.text(&format!("{}hunter22", "x".repeat(TEXT_BYTES - 4)));
    assert_eq!(text, format!("{}[red…", "x".repeat(TEXT_BYTES - 4)));
}

#[test]
fn an_escaped_value_is_found_as_rust_writes_it() {
    for value in [
        "pass\"word",
        "pass\\word",
        "tab\there",
        "two\nlines",
        "bell\u{7}",
        "nul\0",
    ] {
        let redactor = redactor(&[value], &[]);
        for text in [format!("{value:?}"), format!("Some({value:?})")] {
            let expected = text.replace(&format!("{value:?}"), "\"[redacted]\"");
            assert_eq!(redactor.text(&text), expected, "{value:?}");
        }
    }
}

#[test]
fn every_line_of_a_value_is_a_secret_but_for_the_shortest() {
    let redactor = redactor(&["hunter22\r\n  tr0ub4dor\nab\n"], &[]);
    assert_eq!(redactor.text("hunter22"), "[redacted]");
    assert_eq!(redactor.text("a tr0ub4dor"), "a [redacted]");
    assert_eq!(redactor.text("ab"), "ab");
    assert!(redactor.finds_secret_in("volume-tr0ub4dor"));
    assert!(!redactor.finds_secret_in("volume-ab"));
}

#[test]
fn values_that_overlap_leave_nothing_of_either() {
    let redactor = redactor(&["abcdef", "defghi"], &[]);
    assert_eq!(redactor.text("-abcdefghi-"), "-[redacted]-");
}

#[test]
fn the_beginning_of_a_secret_at_a_cut_is_redacted() {
    let redactor = redactor(&["hunter22"], &[]);
    for (text, expected) in [
        ("key is hunter2", "key is [redacted]"),
        ("key is hunt", "key is [redacted]"),
        ("key is hunter22", "key is [redacted]"),
        ("key is hun", "key is hun"),
        ("hunter is the key", "hunter is the key"),
        ("hunt", "[redacted]"),
        ("", ""),
    ] {
        assert_eq!(redactor.beginning(text), expected);
    }
    assert_eq!(redactor.text("we hunt"), "we hunt");
}

#[test]
fn a_text_is_cut_before_it_is_searched() {
    let long = "a".repeat(SEARCHED_BYTES - 4);
    let redactor = redactor(&["hunter22", &long[..900]], &[]);
    // The rest of the second value at the cut does not bypass the redaction.
    let text = format!("{}hunter22 and more", "-".repeat(SEARCHED_BYTES - 4));
    assert_eq!(redactor.text(&text), format!("{}…", "-".repeat(TEXT_BYTES)));
    let text = format!("{long}hunter22 and more");
    let values = (SEARCHED_BYTES - 4) / 900;
    let rest = "a".repeat((SEARCHED_BYTES - 4) % 900);
    let expected = format!("{}{rest}[redacted]…", REDACTED.repeat(values));
    assert!(expected.len() < TEXT_BYTES && rest.len() < 900);
    // Each position of such a run is the beginning of a value.
    assert_eq!(redactor.text(&text), "[redacted][redacted]…");
}

#[test]
fn every_line_of_a_large_value_is_replaced() {
    let lines: Vec<_> = (0..3000).map(|n| format!("line-{n:0>60}")).collect();
    let value = lines.join("\n");
    let redactor = redactor(&[&value], &["hunter22"]);
    for line in lines.iter().step_by(300).chain(lines.last()) {
        assert_eq!(
            redactor.text(&format!("key {line}, hunter22")),
            "key [redacted], [redacted]"
        );
        assert!(redactor.finds_secret_in(line));
    }
    assert_eq!(redactor.text("line-1"), "line-1");
    assert_eq!(redactor.text(&value), "[redacted]…");
}

#[test]
fn a_value_longer_than_a_pattern_hides_all_behind_its_start() {
    let value = format!("{:x>1500}", "end");
    let redactor = redactor(&[&value], &[]);
    assert_eq!(redactor.text(&format!("a {value} b")), "a [redacted]");
    assert!(redactor.finds_secret_in(&value));
    let short = &value[..1023];
    assert_eq!(redactor.text(short), short);
    assert_eq!(redactor.beginning(short), "[redacted]");
    assert!(!redactor.finds_secret_in(short));
}

#[test]
fn texts_are_withheld_beside_more_secrets_than_are_looked_for() {
    let lines: Vec<_> = (0..10_000).map(|n| format!("line-{n:0>60}")).collect();
    let redactor = redactor(&[&lines.join("\n"), "hunter22"], &[]);
    assert_eq!(redactor.text("anything"), WITHHELD);
    assert_eq!(redactor.beginning("anything"), WITHHELD);
    assert_eq!(redactor.text(""), "");
    // Whole values are among the first patterns.
    assert!(redactor.finds_secret_in("volume-hunter22"));
    assert!(!redactor.finds_secret_in("volume-1"));
}

#[test]
fn bytes_that_are_no_text_may_hold_a_value() {
    let redactor = redactor(&["hunter22"], &[]);
    assert!(redactor.finds_secret_in(b"\xff\xfehunter22\xff"));
    assert!(!redactor.finds_secret_in(b"\xff\xfehunter2\xff"));
}

#[test]
fn formatting_shows_no_value() {
    let shown = format!("{:?}", redactor(&["hunter22"], &["tr0ub4dor"]));
    assert_eq!(shown, "Redactor { .. }");
}

#[test]
fn what_is_learnt_during_a_call_is_redacted_from_then_on() {
    let redactor = redactor(&["tr0ub4dor"], &[]);
    let learn = |value: &str| redactor.learn([Zeroizing::new(value.to_owned())]);
    let text = "tr0ub4dor got t0ken-one and t0ken-two";
    assert_eq!(
        redactor.text(text),
        "[redacted] got t0ken-one and t0ken-two"
    );
    learn("t0ken-one");
    learn("t0ken-one");
    assert_eq!(
        redactor.text(text),
        "[redacted] got [redacted] and t0ken-two"
    );
    assert!(redactor.finds_secret_in("volumes/t0ken-one"));
    assert!(!redactor.finds_secret_in("volumes/t0ken-two"));
    for number in 0..LEARNT {
        learn(&format!("another-t0ken-{number}"));
    }
    assert_eq!(redactor.text(text), WITHHELD);
}

//! Requests of groups.

use super::*;

fn group(copies: &[(&str, &str)]) -> Result<CopyRequest, MountError> {
    let owned = |(source, target): &(&str, &str)| ((*source).to_owned(), (*target).to_owned());
    CopyRequest::group("data", &copies.iter().map(owned).collect::<Vec<_>>())
}

#[test]
fn a_group_is_equal_in_any_order() {
    let wanted = group(&[("a", "x"), ("b", "y")]).unwrap();
    for (other, is_same) in [
        (&[("b", "y"), ("a", "x")][..], true),
        (&[("a", "y"), ("b", "x")], false),
        (&[("a", "x")], false),
        (&[("a", "x"), ("b", "y"), ("c", "z")], false),
        (&[], false),
    ] {
        assert_eq!(wanted.is(&group(other).unwrap()), is_same, "{other:?}");
    }
    let elsewhere = CopyRequest::group("other name", &[("a".to_owned(), "x".to_owned())]).unwrap();
    assert!(elsewhere.is(&group(&[("a", "x")]).unwrap()));
    let pair = Pair::parse("data", "a", "x").unwrap();
    assert!(!CopyRequest::Image(pair.clone()).is(&CopyRequest::Directory(pair)));
}

#[test]
fn two_copies_to_one_target_are_rejected() {
    assert!(matches!(
        group(&[("a", "x"), ("b", "y"), ("c", "x")]),
        Err(MountError::Invalid { .. })
    ));
    assert_eq!(group(&[("a", "x"), ("a", "y")]).unwrap().pairs().len(), 2);
}

#[test]
fn a_group_has_an_end_so_that_it_leaves_descriptors_to_others() {
    let copies = |count| {
        let copies = (0..count).map(|i| (format!("a{i}"), format!("b{i}")));
        CopyRequest::group("data", &copies.collect::<Vec<_>>())
    };
    assert_eq!(copies(GROUP).unwrap().pairs().len(), GROUP);
    assert!(matches!(copies(GROUP + 1), Err(MountError::Invalid { .. })));
}

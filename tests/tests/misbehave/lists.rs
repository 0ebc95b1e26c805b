//! Lists that have no end: each page is well-formed, and leads to another one.

use crate::call::Call;
use crate::scene::{self, Scene};
use tonic::Code;

/// Told by a setting: what the plugin does in `list-volumes`, the code, and what is said.
pub(crate) const LISTED: [(&str, Code, &str); 2] = [
    (
        "empty-pages",
        Code::Internal,
        "more than 1000 of its pages have no entry",
    ),
    // No page comes near the limit.
    (
        "computing-pages",
        Code::ResourceExhausted,
        "limits.cpu (0.2 s)",
    ),
];

#[test]
fn privileged_a_list_without_end_is_bounded() {
    scene::run(async {
        for (behaviour, expected, told) in LISTED {
            let settings = format!("  settings: {{ list-volumes: {behaviour} }}\n");
            let scene = Scene::with(&settings).await;
            let refused = Call::List.with(&scene.driver, "").await.unwrap_err();
            assert_eq!(refused.code(), expected, "{behaviour}: {refused}");
            assert!(refused.message().contains(told), "{behaviour}: {refused}");
            assert!(
                refused.message().contains(scene.driver.label()),
                "{refused}"
            );
            scene.goes_on(behaviour).await;
            scene.ends_whole().await;
        }
    });
}

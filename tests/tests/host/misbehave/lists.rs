//! Lists that have no end: each page is well-formed, and leads to another one.

use crate::misbehave::call::Call;
use crate::misbehave::scene::{self, Scene};
use tonic::Code;

/// By a setting: what the plugin does in `list-volumes`, its CPU limit, the code, and a part of the message.
pub(crate) const LISTED: [(&str, &str, Code, &str); 2] = [
    // A thousand pages on a busy machine need more than the CPU time of a short call.
    (
        "empty-pages",
        "20s",
        Code::Internal,
        "more than 1000 of its pages have no entry",
    ),
    // No page comes near the limit.
    (
        "computing-pages",
        "200ms",
        Code::ResourceExhausted,
        "limits.cpu (0.2 s)",
    ),
];

#[test]
fn privileged_a_list_without_end_is_bounded() {
    scene::run(async {
        for (behaviour, cpu, expected, told) in LISTED {
            let settings = format!(
                "  settings: {{ list-volumes: {behaviour} }}\n  limits: {{ time: 60s, cpu: {cpu} }}\n"
            );
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

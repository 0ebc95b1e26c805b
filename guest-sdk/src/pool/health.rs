//! Whether a volume's content is still in its pool.
//!
//! It does not look inside: a damaged file system shows on the node.

use super::Pool;
use crate::controller::{Health, HealthStatus};
use crate::error::{Code, Error};
use crate::state;

/// What is wrong with the content at `path`. `known`: its pool, and the least bytes of an image, as the backend's record says; in a node call,
/// where a record answers `failed-precondition`, all pools are searched.
pub fn health(path: &str, known: Result<(Pool, Option<u64>), Error>) -> Result<Vec<Health>, Error> {
    let (pools, image_bytes) = match known {
        Ok((pool, bytes)) => (vec![pool], bytes),
        // A record that a newer version wrote answers so too, where there are records.
        Err(error) if error.code == Code::FailedPrecondition && !state::is_available()? => {
            (Pool::granted(), None)
        }
        Err(error) => return Err(error),
    };
    for pool in pools {
        if let Some(found) = pool.stat(path)? {
            let is_small = image_bytes.is_some_and(|bytes| found.size_bytes < bytes);
            let small = || data_loss("ContentTooSmall", "the image is smaller than the volume");
            return Ok(is_small.then(small).into_iter().collect());
        }
    }
    Ok(vec![data_loss(
        "ContentMissing",
        "the pool does not hold the volume: restore it from a snapshot or a backup, or delete it",
    )])
}

fn data_loss(reason: &str, message: &str) -> Health {
    Health::new(HealthStatus::DataLoss, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn reasons(path: &str, known: Result<(Pool, Option<u64>), Error>) -> Vec<String> {
        let found = health(path, known).unwrap();
        found.into_iter().map(|health| health.reason).collect()
    }

    #[test]
    fn content_is_there_or_missing_or_too_small() {
        testing::reset();
        testing::add_pool("others", 1000);
        testing::add_pool("volumes", 1000);
        let pool = Pool::named("volumes");
        pool.create_image("disk", 100).unwrap();
        let known = |bytes| Ok((pool.clone(), bytes));
        assert_eq!(reasons("disk", known(Some(100))), [""; 0]);
        assert_eq!(reasons("disk", known(None)), [""; 0]);
        assert_eq!(reasons("disk", known(Some(101))), ["ContentTooSmall"]);
        assert_eq!(reasons("none", known(None)), ["ContentMissing"]);
    }

    #[test]
    fn without_records_all_pools_are_searched() {
        testing::reset();
        testing::add_pool("others", 1000);
        testing::add_pool("volumes", 1000);
        Pool::named("volumes").create_image("disk", 100).unwrap();
        let no_records = || Err(Error::failed_precondition("no records"));
        let mut found = Vec::new();
        let plan = testing::record(|_| {
            found.push(reasons("disk", no_records()));
            found.push(reasons("none", no_records()));
            Ok(())
        });
        assert!(plan.is_err(), "nothing was recorded");
        assert_eq!(found, [vec![], vec!["ContentMissing".to_owned()]]);
        // On the controller the same code says that the record cannot be read.
        for error in [
            Error::not_found("no such volume"),
            Error::failed_precondition("the record has schema 2"),
        ] {
            assert_eq!(health("disk", Err(error.clone())), Err(error));
        }
    }
}

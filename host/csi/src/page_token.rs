//! The page tokens of lists, as clients see them. A token is valid only for its own list: the same driver name, the same RPC and the same filter. Any
//! other is ABORTED before the backend is called.
//!
//! A token contains the backend's token and a checksum over it and its list; the host stores nothing, so it outlives restarts and swaps and is valid
//! in every replica of a controller. The checksum has no key: it detects accidents only. A client of this socket may list anyway, and the backend
//! checks its own tokens as it would without the host. Tokens are never logged.

use crate::error::Error;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use wasmount_core::driver::HealthPosition;
use wasmount_core::names::{DriverName, INCOMING_IDENTIFIER_BYTES, VolumeId};
use wasmount_core::rpc::Rpc;

/// Prefix of the checksum's input: a later token format counts as another list.
const FORM: &str = "wasmount page token 1";

/// Bytes of the checksum. 8: one in 2^64 mistakes is not detected.
const CHECKSUM_BYTES: usize = 8;

/// Longest content, in bytes: the backend's token, a mark, and the id of a volume.
const CONTENT_BYTES: usize = 2 * INCOMING_IDENTIFIER_BYTES + 1;

/// Longest token, in bytes: four characters for three bytes.
const TOKEN_BYTES: usize = (CHECKSUM_BYTES + CONTENT_BYTES).div_ceil(3) * 4;

/// Separates the backend's token from a volume id; neither can contain it.
const MARK: char = '\0';

/// The tokens of one list.
#[derive(Debug, Clone)]
pub(crate) struct PageTokens(Sha256);

impl PageTokens {
    /// The tokens of an RPC of a driver.
    pub(crate) fn of(driver: &DriverName, rpc: Rpc) -> Self {
        let list = Self(Sha256::new());
        list.bound_to(FORM)
            .bound_to(driver.as_str())
            .bound_to(rpc.name())
    }

    /// The tokens of the same RPC with a filter: a position in one list is not valid in another.
    pub(crate) fn of_source(self, source: Option<&VolumeId>) -> Self {
        // An id is never empty.
        self.bound_to(source.map_or("", VolumeId::as_str))
    }

    fn bound_to(mut self, text: &str) -> Self {
        self.0.update(text.len().to_le_bytes());
        self.0.update(text);
        self
    }

    fn checksum(&self, content: &[u8]) -> impl Iterator<Item = u8> {
        let whole = self.0.clone().chain_update(content).finalize();
        whole.into_iter().take(CHECKSUM_BYTES)
    }

    /// The client's token for the backend's token.
    pub(crate) fn seal(&self, token: &str) -> String {
        let content = token.as_bytes();
        let bytes: Vec<u8> = self
            .checksum(content)
            .chain(content.iter().copied())
            .collect();
        BASE64.encode(bytes)
    }

    /// The backend's token.
    pub(crate) fn open(&self, token: &str) -> Result<String, Error> {
        self.content(token).ok_or(Error::UnknownToken)
    }

    fn content(&self, token: &str) -> Option<String> {
        if token.len() > TOKEN_BYTES {
            return None;
        }
        let bytes = BASE64.decode(token).ok()?;
        let (checksum, content) = bytes.split_at_checked(CHECKSUM_BYTES)?;
        let is_ours = self.checksum(content).eq(checksum.iter().copied());
        is_ours.then(|| String::from_utf8(content.to_vec()).ok())?
    }

    /// The client's token for a walk through volumes, which can stop within a page.
    pub(crate) fn seal_position(&self, position: &HealthPosition) -> String {
        let HealthPosition { page, after } = position;
        let page = page.as_deref().unwrap_or_default();
        let after = after.as_ref().map_or("", VolumeId::as_str);
        self.seal(&format!("{page}{MARK}{after}"))
    }

    /// The position where the walk stopped.
    pub(crate) fn open_position(&self, token: &str) -> Result<HealthPosition, Error> {
        let content = self.open(token)?;
        let (page, after) = content.split_once(MARK).ok_or(Error::UnknownToken)?;
        let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let after = non_empty(after).map(|id| VolumeId::parse("starting_token", id));
        Ok(HealthPosition {
            page: non_empty(page),
            after: after.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(driver: &str, rpc: Rpc) -> PageTokens {
        PageTokens::of(&DriverName::parse(driver).unwrap(), rpc)
    }

    fn id(text: &str) -> VolumeId {
        VolumeId::parse("volume_id", text).unwrap()
    }

    #[test]
    fn a_token_is_taken_only_for_the_list_that_it_was_given_for() {
        let source = id("v");
        let lists = [
            tokens("a.example.com", Rpc::ListVolumes),
            tokens("b.example.com", Rpc::ListVolumes),
            tokens("a.example.com", Rpc::ListSnapshots),
            tokens("a.example.com", Rpc::ListSnapshots).of_source(None),
            tokens("a.example.com", Rpc::ListSnapshots).of_source(Some(&source)),
            tokens("a.example.com", Rpc::ControllerListVolumeHealth),
        ];
        for (given, list) in lists.iter().enumerate() {
            let token = list.seal("next");
            for (taken, list) in lists.iter().enumerate() {
                let opened = list.open(&token).ok();
                assert_eq!(opened.as_deref(), (given == taken).then_some("next"));
            }
        }
    }

    #[test]
    fn what_is_no_token_is_aborted_and_not_repeated() {
        let list = tokens("a.example.com", Rpc::ListVolumes);
        let cut = list.seal("next").split_off(1);
        let long = list.seal(&"n".repeat(CONTENT_BYTES + 3));
        for token in ["next", "invalid-token", "", "=", "../..", "ä", &cut, &long] {
            let refused = list.open(token).unwrap_err();
            assert_eq!(refused.code(), wasmount_core::code::Code::Aborted);
            assert_eq!(
                refused.to_string(),
                "starting_token was not issued by this driver for this list: list again without a token"
            );
        }
    }

    #[test]
    fn the_longest_place_has_a_token_that_is_taken() {
        let list = tokens("a.example.com", Rpc::ControllerListVolumeHealth);
        let longest = HealthPosition {
            page: Some("p".repeat(INCOMING_IDENTIFIER_BYTES)),
            after: Some(id(&"v".repeat(INCOMING_IDENTIFIER_BYTES))),
        };
        let token = list.seal_position(&longest);
        assert!(token.len() <= TOKEN_BYTES);
        assert_eq!(list.open_position(&token).unwrap(), longest);
    }

    proptest! {
        #[test]
        fn every_token_comes_back_as_it_was(token in "\\PC{0,64}") {
            let list = tokens("a.example.com", Rpc::ListVolumes);
            prop_assert_eq!(list.open(&list.seal(&token)).unwrap(), token);
        }

        #[test]
        fn every_place_comes_back_as_it_was(page in proptest::option::of("[^\0]{1,20}"), after in proptest::option::of("[^\0]{1,20}")) {
            let list = tokens("a.example.com", Rpc::ControllerListVolumeHealth);
            let place = HealthPosition { page, after: after.as_deref().map(id) };
            prop_assert_eq!(list.open_position(&list.seal_position(&place)).unwrap(), place);
        }

        #[test]
        fn a_token_with_another_character_is_not_taken(place in 0_usize..22, other in "[A-Za-z0-9_-]") {
            let list = tokens("a.example.com", Rpc::ListVolumes);
            let mut token = list.seal("nextnext");
            let same = token.get(place..=place) == Some(other.as_str());
            token.replace_range(place..=place, &other);
            prop_assert_eq!(list.open(&token).is_ok(), same);
        }
    }
}

//! Tokens by which people and programs look in over HTTP. They are secrets: shown once, to whoever
//! asked.

use parler_protocol::{
    ClientFrame, DirectoryToken, MintAdmin, MintDirectoryToken, MintWatch, RevokeToken, RoomToken,
    ServerFrame,
};

use crate::call::unexpected;
use crate::{Client, ClientError};

impl Client {
    /// Mints a token for the directory, private cards included.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::AtCapacity`] with too many tokens.
    pub async fn mint_directory_token(
        &self,
        ttl_secs: Option<u64>,
    ) -> Result<DirectoryToken, ClientError> {
        let mint = ClientFrame::MintDirectoryToken(MintDirectoryToken { ttl_secs });
        match self.request(mint).await? {
            ServerFrame::DirectoryToken(reply) => Ok(reply),
            other => Err(unexpected("mint_directory_token", &other)),
        }
    }

    /// Mints a token for watching a room that this agent owns; with `full` for the whole room.
    ///
    /// # Errors
    /// As [`Client::mint_directory_token`]; [`parler_protocol::ErrorCode::NotOwner`] also for a
    /// room that does not exist.
    pub async fn mint_watch(
        &self,
        room: &str,
        ttl_secs: Option<u64>,
        full: bool,
    ) -> Result<RoomToken, ClientError> {
        let mint = MintWatch {
            room: room.to_owned(),
            ttl_secs,
            full: full.then_some(true),
        };
        match self.request(ClientFrame::MintWatch(mint)).await? {
            ServerFrame::Watch(reply) => Ok(reply),
            other => Err(unexpected("mint_watch", &other)),
        }
    }

    /// Mints a token that decides for the owner of a room.
    ///
    /// # Errors
    /// As [`Client::mint_watch`].
    pub async fn mint_admin(
        &self,
        room: &str,
        ttl_secs: Option<u64>,
    ) -> Result<RoomToken, ClientError> {
        let mint = MintAdmin {
            room: room.to_owned(),
            ttl_secs,
        };
        match self.request(ClientFrame::MintAdmin(mint)).await? {
            ServerFrame::Admin(reply) => Ok(reply),
            other => Err(unexpected("mint_admin", &other)),
        }
    }

    /// Revokes tokens that this agent minted or that open its rooms; how many were still good.
    ///
    /// # Errors
    /// As every call; a request that names not exactly one of token, id and room is a bad frame.
    pub async fn revoke_token(&self, which: RevokeToken) -> Result<u32, ClientError> {
        match self.request(ClientFrame::RevokeToken(which)).await? {
            ServerFrame::Revoked(reply) => Ok(reply.count),
            other => Err(unexpected("revoke_token", &other)),
        }
    }
}

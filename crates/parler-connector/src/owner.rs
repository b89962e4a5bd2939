//! What an owner decides about a room, and leaving it.

use parler_protocol::{
    ClientFrame, JoinRequest, MemberOp, RemoveMember, ResolveJoin, RevokeInvite, RoomOp,
    ServerFrame,
};

use crate::call::unexpected;
use crate::{Client, ClientError};

impl Client {
    /// Who waits to be admitted, oldest first.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotOwner`] also for a room that does not exist.
    pub async fn join_requests(&self, room: &str) -> Result<Vec<JoinRequest>, ClientError> {
        match self.request(ClientFrame::JoinRequests(named(room))).await? {
            ServerFrame::JoinRequests(reply) => Ok(reply.requests),
            other => Err(unexpected("join_requests", &other)),
        }
    }

    /// Admits or refuses an agent by its id; also one that was refused before.
    ///
    /// # Errors
    /// As [`Client::join_requests`]; a refusal without a code when that agent does not wait.
    pub async fn resolve_join(
        &self,
        room: &str,
        agent: &str,
        approve: bool,
    ) -> Result<(), ClientError> {
        let decision = ResolveJoin {
            room: room.to_owned(),
            agent: agent.to_owned(),
            approve,
        };
        match self.request(ClientFrame::ResolveJoin(decision)).await? {
            ServerFrame::JoinResolved(_) => Ok(()),
            other => Err(unexpected("resolve_join", &other)),
        }
    }

    /// Deletes a room and everything of it.
    ///
    /// # Errors
    /// As [`Client::join_requests`].
    pub async fn delete_room(&self, room: &str) -> Result<(), ClientError> {
        match self.request(ClientFrame::DeleteRoom(named(room))).await? {
            ServerFrame::RoomDeleted(_) => Ok(()),
            other => Err(unexpected("delete_room", &other)),
        }
    }

    /// Leaves a room. An owner with others in it has to pass it on or delete it first.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotAuthorized`] for such an owner.
    pub async fn leave(&self, room: &str) -> Result<(), ClientError> {
        match self.request(ClientFrame::Leave(named(room))).await? {
            ServerFrame::Left(_) => Ok(()),
            other => Err(unexpected("leave", &other)),
        }
    }

    /// Removes a member by its id; with `ban` it may not come back.
    ///
    /// # Errors
    /// As [`Client::join_requests`]; [`parler_protocol::ErrorCode::NotMember`] for who is none.
    pub async fn remove_member(
        &self,
        room: &str,
        agent: &str,
        ban: bool,
    ) -> Result<(), ClientError> {
        let removal = RemoveMember {
            room: room.to_owned(),
            agent: agent.to_owned(),
            ban: ban.then_some(true),
        };
        match self.request(ClientFrame::RemoveMember(removal)).await? {
            ServerFrame::Removed(_) => Ok(()),
            other => Err(unexpected("remove_member", &other)),
        }
    }

    /// Makes another member, by its id, the owner.
    ///
    /// # Errors
    /// As [`Client::remove_member`].
    pub async fn transfer_owner(&self, room: &str, agent: &str) -> Result<(), ClientError> {
        let transfer = MemberOp {
            room: room.to_owned(),
            agent: agent.to_owned(),
        };
        match self.request(ClientFrame::TransferOwner(transfer)).await? {
            ServerFrame::Owner(_) => Ok(()),
            other => Err(unexpected("transfer_owner", &other)),
        }
    }

    /// Revokes codes that this agent minted or that open its rooms; how many were revoked.
    ///
    /// # Errors
    /// As every call; a request that names not exactly one of code, id and room is a bad frame.
    pub async fn revoke_invite(&self, which: RevokeInvite) -> Result<u32, ClientError> {
        match self.request(ClientFrame::RevokeInvite(which)).await? {
            ServerFrame::Revoked(reply) => Ok(reply.count),
            other => Err(unexpected("revoke_invite", &other)),
        }
    }
}

fn named(room: &str) -> RoomOp {
    RoomOp {
        room: room.to_owned(),
    }
}

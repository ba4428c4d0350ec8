package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// SealedRecords stores tool servers with encrypted secrets.
type SealedRecords interface {
	CreateMCPServer(ctx context.Context, s toolserver.Record) (toolserver.Record, error)
	MCPServers(ctx context.Context, userID string) ([]toolserver.Record, error)
	MCPServer(ctx context.Context, caller domain.User, id string) (toolserver.Record, error)
	ChangeMCPServer(
		ctx context.Context,
		caller domain.User,
		id string,
		change func(*toolserver.Record) error,
	) (toolserver.Record, error)
	DeleteMCPServer(ctx context.Context, caller domain.User, id string, may func(toolserver.Record) error) error
	SessionMCPServers(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Record, error)
	MCPSession(ctx context.Context, sessionID domain.SessionID) (domain.Session, error)
	MCPConnections(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Connection, error)
	SaveMCPConnection(ctx context.Context, c toolserver.Connection) error
	ModelRefusals(ctx context.Context, sessionID domain.SessionID) ([]domain.ModelRefusal, error)
	PinMCPTools(ctx context.Context, server toolserver.Record, list []toolserver.Tool) ([]toolserver.Pin, error)
	MCPTools(ctx context.Context, serverID string) ([]toolserver.Pin, error)
	AcceptMCPTools(
		ctx context.Context, caller domain.User, id string, digests map[string]string, may func(toolserver.Record) error,
	) (toolserver.Record, error)
}

// Box encrypts values, each for one purpose.
type Box interface {
	Seal(purpose string, value []byte) ([]byte, error)
	Open(purpose string, sealed []byte) ([]byte, error)
}

// Vault stores tool servers with their environments and headers encrypted at rest.
type Vault struct {
	SealedRecords
	Box Box
}

// kept is the encrypted part of a server.
type kept struct {
	Env     map[string]string `json:"env,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func purpose(serverID string) string { return "mcp/" + serverID }

func (v Vault) seal(s *toolserver.Record) error {
	text, err := json.Marshal(kept{s.Env, s.Headers})
	if err != nil {
		return err
	}

	s.Sealed, err = v.Box.Seal(purpose(s.ID), text)

	return err
}

func (v Vault) open(s *toolserver.Record) error {
	text, err := v.Box.Open(purpose(s.ID), s.Sealed)

	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}

	if err != nil {
		return fmt.Errorf("open the secrets of tool server %s: %w", s.ID, err)
	}

	s.Env, s.Headers, s.Sealed = k.Env, k.Headers, nil

	return nil
}

func (v Vault) openAll(list []toolserver.Record) ([]toolserver.Record, error) {
	for i := range list {
		if err := v.open(&list[i]); err != nil {
			return nil, err
		}
	}

	return list, nil
}

// CreateMCPServer stores a new tool server.
func (v Vault) CreateMCPServer(ctx context.Context, s toolserver.Record) (toolserver.Record, error) {
	s.ID = domain.NewID()
	if err := v.seal(&s); err != nil {
		return s, err
	}

	made, err := v.SealedRecords.CreateMCPServer(ctx, s)
	if err != nil {
		return s, err
	}

	err = v.open(&made)

	return made, err
}

// MCPServers lists the servers that a user can see.
func (v Vault) MCPServers(ctx context.Context, userID string) ([]toolserver.Record, error) {
	list, err := v.SealedRecords.MCPServers(ctx, userID)
	if err != nil {
		return nil, err
	}

	return v.openAll(list)
}

// MCPServer reads one server that the caller can see.
func (v Vault) MCPServer(ctx context.Context, caller domain.User, id string) (toolserver.Record, error) {
	s, err := v.SealedRecords.MCPServer(ctx, caller, id)
	if err != nil {
		return s, err
	}

	err = v.open(&s)

	return s, err
}

// ChangeMCPServer changes one server that the caller can see.
func (v Vault) ChangeMCPServer(
	ctx context.Context,
	caller domain.User,
	id string,
	change func(*toolserver.Record) error,
) (toolserver.Record, error) {
	s, err := v.SealedRecords.ChangeMCPServer(ctx, caller, id, func(s *toolserver.Record) error {
		if err := v.open(s); err != nil {
			return err
		}

		if err := change(s); err != nil {
			return err
		}

		return v.seal(s)
	})
	if err != nil {
		return s, err
	}

	err = v.open(&s)

	return s, err
}

// AcceptMCPTools accepts proposed definitions of tools.
func (v Vault) AcceptMCPTools(
	ctx context.Context, caller domain.User, id string, digests map[string]string, may func(toolserver.Record) error,
) (toolserver.Record, error) {
	s, err := v.SealedRecords.AcceptMCPTools(ctx, caller, id, digests, may)
	if err != nil {
		return s, err
	}

	err = v.open(&s)

	return s, err
}

// SessionMCPServers returns the servers of a session.
func (v Vault) SessionMCPServers(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Record, error) {
	list, err := v.SealedRecords.SessionMCPServers(ctx, sessionID)
	if err != nil {
		return nil, err
	}

	return v.openAll(list)
}

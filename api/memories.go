package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Memories are what a user's agents know from earlier sessions. A memory of
// somebody else is memory_not_found.
type Memories interface {
	CreateMemory(ctx context.Context, userID string, in domain.NewMemory) (domain.Memory, error)
	Memories(ctx context.Context, q domain.MemoryQuery) (page []domain.Memory, total int, err error)
	Memory(ctx context.Context, userID string, id int64) (domain.Memory, error)
	ChangeMemory(ctx context.Context, userID string, id int64, fields []domain.MemoryField) (domain.Memory, error)
	SetMemoryDisabled(ctx context.Context, userID string, id int64, disabled bool) (domain.Memory, error)
	DeleteMemory(ctx context.Context, userID string, id int64) error
	// ChangeMemories deletes, disables or enables what of the ids is the user's.
	ChangeMemories(ctx context.Context, userID, action string, ids []int64) (count int, err error)
}

// MemoryRef is the path of an operation on one memory.
type MemoryRef struct {
	ID int64 `path:"id" minimum:"1"`
}

type newMemoryBody struct {
	Content     string             `json:"content" minLength:"1" maxLength:"500"`
	Type        *domain.MemoryType `json:"type,omitempty" nullable:"true" enum:"feedback,experience" default:"feedback"`
	SkillName   *string            `json:"skill_name,omitempty" nullable:"true" maxLength:"255"`
	RecordType  *string            `json:"record_type,omitempty" nullable:"true" enum:"memory,skill_comment"`
	Scope       *string            `json:"scope,omitempty" nullable:"true" maxLength:"255"`
	Owner       *string            `json:"owner,omitempty" nullable:"true" maxLength:"255"`
	Topic       *string            `json:"topic,omitempty" nullable:"true" maxLength:"255"`
	ExternalID  *string            `json:"external_id,omitempty" nullable:"true" maxLength:"255"`
	WriteReason *string            `json:"write_reason,omitempty" nullable:"true" minLength:"1" maxLength:"500"`
}

// memoryChange is the body of PUT: what is left out stays, null empties a field.
type memoryChange struct {
	Content     nullable[string] `json:"content,omitempty" nullable:"false" minLength:"1" maxLength:"500"`
	Type        nullable[string] `json:"type,omitempty" nullable:"false" enum:"feedback,experience"`
	SkillName   nullable[string] `json:"skill_name,omitempty" nullable:"true" maxLength:"255"`
	RecordType  nullable[string] `json:"record_type,omitempty" nullable:"true" enum:"memory,skill_comment"`
	Scope       nullable[string] `json:"scope,omitempty" nullable:"true" maxLength:"255"`
	Owner       nullable[string] `json:"owner,omitempty" nullable:"true" maxLength:"255"`
	Topic       nullable[string] `json:"topic,omitempty" nullable:"true" maxLength:"255"`
	ExternalID  nullable[string] `json:"external_id,omitempty" nullable:"true" maxLength:"255"`
	WriteReason nullable[string] `json:"write_reason,omitempty" nullable:"true" minLength:"1" maxLength:"500"`
}

func (m memoryChange) fields() ([]domain.MemoryField, error) {
	for name, f := range map[string]nullable[string]{"content": m.Content, "type": m.Type} {
		if f.present && f.value == nil {
			return nil, domain.Invalidf("body."+name, "cannot be null")
		}
	}
	var fields []domain.MemoryField
	for column, f := range map[string]nullable[string]{
		"content": m.Content, "type": m.Type, "skill_name": m.SkillName, "record_type": m.RecordType, "scope": m.Scope,
		"owner": m.Owner, "topic": m.Topic, "external_id": m.ExternalID, "write_reason": m.WriteReason,
	} {
		if f.present {
			fields = append(fields, domain.MemoryField{Column: column, Value: f.value})
		}
	}
	return fields, nil
}

func (s *server) memoryRoutes() {
	const path, one, tag = "/api/memories", "/api/memories/{id}", "Memories"
	op := func(id, method, path, summary string, scope auth.Scope) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, scope: scope}
	}
	create := op("create-memory", fiber.MethodPost, path, "Keep something for later sessions", auth.SessionsWrite)
	create.status = fiber.StatusCreated
	add(s, create, s.createMemory)
	add(s, op("list-memories", fiber.MethodGet, path, "The caller's memories, newest first", auth.SessionsRead), s.listMemories)
	add(s, op("change-memories", fiber.MethodPost, path+"/batch", "Delete, disable or enable several memories", auth.SessionsWrite), s.changeMemories)
	add(s, op("get-memory", fiber.MethodGet, one, "One memory", auth.SessionsRead),
		func(ctx context.Context, in *MemoryRef) (*body[domain.Memory], error) {
			return answer(s.Memories.Memory(ctx, callerOf(ctx).User.ID, in.ID))
		})
	add(s, op("update-memory", fiber.MethodPut, one, "Change a memory", auth.SessionsWrite), s.updateMemory)
	add(s, op("disable-memory", fiber.MethodPatch, one, "Take a memory out of use, or bring it back", auth.SessionsWrite),
		func(ctx context.Context, in *struct {
			MemoryRef
			Body struct {
				Disabled bool `json:"disabled"`
			}
		},
		) (*body[domain.Memory], error) {
			return answer(s.Memories.SetMemoryDisabled(ctx, callerOf(ctx).User.ID, in.ID, in.Body.Disabled))
		})
	add(s, op("delete-memory", fiber.MethodDelete, one, "Delete a memory", auth.SessionsWrite),
		func(ctx context.Context, in *MemoryRef) (*body[okBody], error) {
			return answer(okBody{true}, s.Memories.DeleteMemory(ctx, callerOf(ctx).User.ID, in.ID))
		})
}

func (s *server) createMemory(ctx context.Context, in *struct{ Body newMemoryBody }) (*body[domain.Memory], error) {
	b := in.Body
	memory := domain.NewMemory{
		Type: domain.MemoryFeedback, Content: domain.CleanText(b.Content), SkillName: b.SkillName, RecordType: b.RecordType,
		Scope: b.Scope, Owner: b.Owner, Topic: b.Topic, ExternalID: b.ExternalID, WriteReason: b.WriteReason,
	}
	if b.Type != nil {
		memory.Type = *b.Type
	}
	return answer(s.Memories.CreateMemory(ctx, callerOf(ctx).User.ID, memory))
}

type memoryPage struct {
	Items []domain.Memory `json:"items"`
	Total int             `json:"total"`
}

func (s *server) listMemories(ctx context.Context, in *struct {
	Keyword    string `query:"keyword" maxLength:"500" doc:"Text to find in the content, literally, in any case."`
	SkillName  string `query:"skill_name" maxLength:"255"`
	Type       string `query:"type" maxLength:"255"`
	RecordType string `query:"record_type" maxLength:"255"`
	Scope      string `query:"scope" maxLength:"255"`
	Owner      string `query:"owner" maxLength:"255"`
	Topic      string `query:"topic" maxLength:"255"`
	Status     string `query:"status" enum:"active,disabled,superseded"`
	Offset     int    `query:"offset" default:"0" minimum:"0"`
	Limit      int    `query:"limit" default:"20" minimum:"1" maximum:"100"`
},
) (*body[memoryPage], error) {
	page, total, err := s.Memories.Memories(ctx, domain.MemoryQuery{
		UserID: callerOf(ctx).User.ID, Keyword: in.Keyword, SkillName: in.SkillName, Type: in.Type, RecordType: in.RecordType,
		Scope: in.Scope, Owner: in.Owner, Topic: in.Topic, Status: in.Status, Offset: in.Offset, Limit: in.Limit,
	})
	return answer(memoryPage{orEmpty(page), total}, err)
}

func (s *server) updateMemory(ctx context.Context, in *struct {
	MemoryRef
	Body memoryChange
},
) (*body[domain.Memory], error) {
	fields, err := in.Body.fields()
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		if f.Value != nil {
			text := domain.CleanText(*f.Value)
			fields[i].Value = &text
		}
	}
	if len(fields) == 0 {
		return answer(s.Memories.Memory(ctx, callerOf(ctx).User.ID, in.ID))
	}
	return answer(s.Memories.ChangeMemory(ctx, callerOf(ctx).User.ID, in.ID, fields))
}

type memoriesChanged struct {
	OK    bool `json:"ok"`
	Count int  `json:"count" doc:"How many of the memories are the caller's."`
}

func (s *server) changeMemories(ctx context.Context, in *struct {
	Body struct {
		Action string  `json:"action" enum:"delete,disable,enable"`
		IDs    []int64 `json:"ids" minItems:"1" maxItems:"100" nullable:"false"`
	}
},
) (*body[memoriesChanged], error) {
	n, err := s.Memories.ChangeMemories(ctx, callerOf(ctx).User.ID, in.Body.Action, in.Body.IDs)
	return answer(memoriesChanged{true, n}, err)
}

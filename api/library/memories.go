package library

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/memories"
)

// MemoryRef is the path of an operation on one memory.
type MemoryRef struct {
	ID int64 `path:"id" minimum:"1" doc:"The memory." example:"17"`
}

type newMemoryBody struct {
	Content     string             `json:"content" minLength:"1" maxLength:"500" doc:"The content of the memory." example:"Release notes begin with what users see."`
	Type        *domain.MemoryType `json:"type,omitempty" nullable:"true" enum:"feedback,experience" default:"feedback" doc:"The type."`
	SkillName   *string            `json:"skill_name,omitempty" nullable:"true" maxLength:"255" doc:"The skill that it belongs to."`
	RecordType  *string            `json:"record_type,omitempty" nullable:"true" enum:"memory,skill_comment" doc:"The record type."`
	Scope       *string            `json:"scope,omitempty" nullable:"true" maxLength:"255" doc:"Its scope."`
	Owner       *string            `json:"owner,omitempty" nullable:"true" maxLength:"255" doc:"The owner."`
	Topic       *string            `json:"topic,omitempty" nullable:"true" maxLength:"255" doc:"The topic." example:"style"`
	ExternalID  *string            `json:"external_id,omitempty" nullable:"true" maxLength:"255" doc:"An id of another system."`
	WriteReason *string            `json:"write_reason,omitempty" nullable:"true" minLength:"1" maxLength:"500" doc:"The reason why it was stored."`
}

// memoryChange is the body of PUT: what is left out stays, null empties a field.
type memoryChange struct {
	Content     httpx.Nullable[string] `json:"content,omitempty" nullable:"false" minLength:"1" maxLength:"500" doc:"The content of the memory." example:"Release notes begin with what changes for users."`
	Type        httpx.Nullable[string] `json:"type,omitempty" nullable:"false" enum:"feedback,experience" doc:"The type."`
	SkillName   httpx.Nullable[string] `json:"skill_name,omitempty" nullable:"true" maxLength:"255" doc:"The skill that it belongs to."`
	RecordType  httpx.Nullable[string] `json:"record_type,omitempty" nullable:"true" enum:"memory,skill_comment" doc:"The record type."`
	Scope       httpx.Nullable[string] `json:"scope,omitempty" nullable:"true" maxLength:"255" doc:"Its scope."`
	Owner       httpx.Nullable[string] `json:"owner,omitempty" nullable:"true" maxLength:"255" doc:"The owner."`
	Topic       httpx.Nullable[string] `json:"topic,omitempty" nullable:"true" maxLength:"255" doc:"The topic."`
	ExternalID  httpx.Nullable[string] `json:"external_id,omitempty" nullable:"true" maxLength:"255" doc:"An id of another system."`
	WriteReason httpx.Nullable[string] `json:"write_reason,omitempty" nullable:"true" minLength:"1" maxLength:"500" doc:"The reason why it was stored."`
}

func (m memoryChange) fields() ([]domain.MemoryField, error) {
	for name, f := range map[string]httpx.Nullable[string]{"content": m.Content, "type": m.Type} {
		if f.Present && f.Value == nil {
			return nil, domain.Invalidf("body."+name, "cannot be null")
		}
	}

	var columns []domain.MemoryField

	for column, f := range map[string]httpx.Nullable[string]{
		"content": m.Content, "type": m.Type, "skill_name": m.SkillName, "record_type": m.RecordType, "scope": m.Scope,
		"owner": m.Owner, "topic": m.Topic, "external_id": m.ExternalID, "write_reason": m.WriteReason,
	} {
		if f.Present {
			columns = append(columns, domain.MemoryField{Column: column, Value: f.Value})
		}
	}

	return columns, nil
}

// MemoriesAPI manages memories.
type MemoriesAPI struct {
	Memories *memories.Store
}

// Register adds the operations of the area to the interface.
func (a *MemoriesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-memory", Method: fiber.MethodPost, Path: "/api/memories", Tag: "Memories",
		Summary: "Create a memory",
		Scope:   auth.SessionsWrite, Status: fiber.StatusCreated,
		Example: `{"content": "Release notes begin with what users see.", "type": "feedback", "topic": "style"}`,
	}, a.createMemory)
	httpx.Register(r, httpx.Operation{
		ID: "list-memories", Method: fiber.MethodGet, Path: "/api/memories", Tag: "Memories",
		Summary: "List the caller's memories, newest first",
		Scope:   auth.SessionsRead,
	}, a.listMemories)
	httpx.Register(r, httpx.Operation{
		ID: "change-memories", Method: fiber.MethodPost, Path: "/api/memories/batch", Tag: "Memories",
		Summary:     "Delete, disable or enable several memories",
		Description: "Ids owned by other users are ignored; count is the number of memories changed.",
		Scope:       auth.SessionsWrite,
		Example:     `{"action": "enable", "ids": [1]}`,
	}, a.changeMemories)
	httpx.Register(r, httpx.Operation{
		ID: "get-memory", Method: fiber.MethodGet, Path: "/api/memories/{id}", Tag: "Memories",
		Summary: "Get a memory",
		Scope:   auth.SessionsRead,
		Errors:  httpx.Codes{404: "memory_not_found"},
	},
		func(ctx context.Context, in *MemoryRef) (*httpx.Body[domain.Memory], error) {
			return httpx.Answer(a.Memories.Memory(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "update-memory", Method: fiber.MethodPut, Path: "/api/memories/{id}", Tag: "Memories",
		Summary: "Update a memory",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{404: "memory_not_found"},
		Example: `{"content": "Release notes begin with what changes for users."}`,
	}, a.updateMemory)
	httpx.Register(r, httpx.Operation{
		ID: "disable-memory", Method: fiber.MethodPatch, Path: "/api/memories/{id}", Tag: "Memories",
		Summary: "Disable or enable a memory",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{404: "memory_not_found"},
		Example: `{"disabled": true}`,
	},
		func(ctx context.Context, in *struct {
			MemoryRef
			Body struct {
				Disabled bool `json:"disabled" doc:"Whether it is disabled."`
			}
		},
		) (*httpx.Body[domain.Memory], error) {
			return httpx.Answer(a.Memories.SetMemoryDisabled(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.Disabled))
		})
	httpx.Register(r, httpx.Operation{
		ID: "delete-memory", Method: fiber.MethodDelete, Path: "/api/memories/{id}", Tag: "Memories",
		Summary: "Delete a memory",
		Scope:   auth.SessionsWrite, Audit: "memory.delete",
		Errors: httpx.Codes{404: "memory_not_found"},
	},
		func(ctx context.Context, in *MemoryRef) (*httpx.Body[fields.OkBody], error) {
			return httpx.Answer(fields.OkBody{OK: true}, a.Memories.DeleteMemory(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
}

func (a *MemoriesAPI) createMemory(ctx context.Context, in *struct{ Body newMemoryBody }) (*httpx.Body[domain.Memory], error) {
	b := in.Body

	memory := domain.NewMemory{
		Type: domain.MemoryFeedback, Content: domain.CleanText(b.Content), SkillName: b.SkillName, RecordType: b.RecordType,
		Scope: b.Scope, Owner: b.Owner, Topic: b.Topic, ExternalID: b.ExternalID, WriteReason: b.WriteReason,
	}
	if b.Type != nil {
		memory.Type = *b.Type
	}

	return httpx.Answer(a.Memories.CreateMemory(ctx, httpx.CallerOf(ctx).User.ID, memory))
}

type memoryPage struct {
	Items []domain.Memory `json:"items" doc:"The entries of this page."`
	Total int             `json:"total" doc:"Total number of entries." example:"1"`
}

func (a *MemoriesAPI) listMemories(ctx context.Context, in *struct {
	Keyword    string `query:"keyword" maxLength:"500" doc:"Text to find in the content, literally, in any case." example:"deploy"`
	SkillName  string `query:"skill_name" maxLength:"255" doc:"Only memories that belong to this skill." example:"code-review"`
	Type       string `query:"type" maxLength:"255" doc:"Only memories of this type." example:"feedback"`
	RecordType string `query:"record_type" maxLength:"255" doc:"Only records of this type." example:"memory"`
	Scope      string `query:"scope" maxLength:"255" doc:"Only memories with this scope." example:"project-x"`
	Owner      string `query:"owner" maxLength:"255" doc:"Only memories with this owner." example:"team-a"`
	Topic      string `query:"topic" maxLength:"255" doc:"Only memories about this topic." example:"style"`
	Status     string `query:"status" enum:"active,disabled,superseded" doc:"Only memories with this status."`
	Offset     int    `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit      int    `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[memoryPage], error) {
	page, total, err := a.Memories.Memories(ctx, domain.MemoryQuery{
		UserID: httpx.CallerOf(ctx).User.ID, Keyword: in.Keyword, SkillName: in.SkillName, Type: in.Type, RecordType: in.RecordType,
		Scope: in.Scope, Owner: in.Owner, Topic: in.Topic, Status: in.Status, Offset: in.Offset, Limit: in.Limit,
	})

	return httpx.Answer(memoryPage{fields.OrEmpty(page), total}, err)
}

func (a *MemoriesAPI) updateMemory(ctx context.Context, in *struct {
	MemoryRef
	Body memoryChange
},
) (*httpx.Body[domain.Memory], error) {
	columns, err := in.Body.fields()
	if err != nil {
		return nil, err
	}

	for i, f := range columns {
		if f.Value != nil {
			text := domain.CleanText(*f.Value)
			columns[i].Value = &text
		}
	}

	if len(columns) == 0 {
		return httpx.Answer(a.Memories.Memory(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
	}

	return httpx.Answer(a.Memories.ChangeMemory(ctx, httpx.CallerOf(ctx).User.ID, in.ID, columns))
}

type memoriesChanged struct {
	OK    bool `json:"ok" doc:"Whether it succeeded."`
	Count int  `json:"count" doc:"How many of the memories are the caller's." example:"1"`
}

func (a *MemoriesAPI) changeMemories(ctx context.Context, in *struct {
	Body struct {
		Action string  `json:"action" enum:"delete,disable,enable" doc:"The action."`
		IDs    []int64 `json:"ids" minItems:"1" maxItems:"100" nullable:"false" doc:"The ids." example:"[1]"`
	}
},
) (*httpx.Body[memoriesChanged], error) {
	n, err := a.Memories.ChangeMemories(ctx, httpx.CallerOf(ctx).User.ID, in.Body.Action, in.Body.IDs)
	if err == nil && n > 0 && in.Body.Action == "delete" {
		ids := strings.Trim(fmt.Sprint(in.Body.IDs), "[]")
		httpx.Acted(ctx, "memory.delete", ids, map[string]string{"count": strconv.Itoa(n)})
	}

	return httpx.Answer(memoriesChanged{true, n}, err)
}

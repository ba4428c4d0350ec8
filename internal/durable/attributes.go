package durable

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// Search attributes by which operators find runs; all are keywords. infra/temporal registers them
// with the namespace.
var (
	SessionID  = temporal.NewSearchAttributeKeyKeyword("SessionId")
	OwnerID    = temporal.NewSearchAttributeKeyKeyword("OwnerId")
	SolutionID = temporal.NewSearchAttributeKeyKeyword("SolutionId")
	Kind       = temporal.NewSearchAttributeKeyKeyword("Kind")
	ChatStatus = temporal.NewSearchAttributeKeyKeyword("ChatStatus")
	ParentRun  = temporal.NewSearchAttributeKeyKeyword("ParentRun")
)

// AttributeKeys are all search attributes.
var AttributeKeys = []temporal.SearchAttributeKeyKeyword{SessionID, OwnerID, SolutionID, Kind, ChatStatus, ParentRun}

// Attributes are the values of the search attributes of a workflow. Each workflow carries all of
// them: an attribute without a value is the empty text, so that a query can ask for it.
type Attributes struct {
	SessionID  string
	OwnerID    string
	SolutionID string
	Kind       string
	ChatStatus string
	// ParentRun is what the workflow works for: TaskParent, IssueParent or the workflow id of a DAG
	// run; empty: a user.
	ParentRun string
}

func (a Attributes) values() []string {
	return []string{a.SessionID, a.OwnerID, a.SolutionID, a.Kind, a.ChatStatus, a.ParentRun}
}

// Typed returns the attributes for the start of a workflow.
func (a Attributes) Typed() temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for i, value := range a.values() {
		updates = append(updates, AttributeKeys[i].ValueSet(value))
	}

	return temporal.NewSearchAttributes(updates...)
}

// Encode returns the attributes for requests that the SDK does not wrap.
func (a Attributes) Encode() *commonpb.SearchAttributes {
	fields := map[string]*commonpb.Payload{}

	for i, value := range a.values() {
		if payload, err := converter.GetDefaultDataConverter().ToPayload(value); err == nil {
			payload.Metadata["type"] = []byte("Keyword")
			fields[AttributeKeys[i].GetName()] = payload
		}
	}

	return &commonpb.SearchAttributes{IndexedFields: fields}
}

// AttributesOf returns the values of a workflow.
func AttributesOf(found temporal.SearchAttributes) Attributes {
	value := func(key temporal.SearchAttributeKeyKeyword) string {
		text, _ := found.GetKeyword(key)
		return text
	}

	return Attributes{
		SessionID: value(SessionID), OwnerID: value(OwnerID), SolutionID: value(SolutionID), Kind: value(Kind),
		ChatStatus: value(ChatStatus), ParentRun: value(ParentRun),
	}
}

// TaskParent returns the ParentRun of the runs of a scheduled task, and of their chats: the id of
// its Schedule.
func TaskParent(taskID string) string { return ScheduleID(taskID) }

// IssueParent returns the ParentRun of the runs on an issue, and of their chats.
func IssueParent(issueID string) string { return "issue/" + issueID }

// TriggerParent returns the ParentRun of the deliveries of a trigger, and of what they start.
func TriggerParent(triggerID string) string { return "trigger/" + triggerID }

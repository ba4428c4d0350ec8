package contract

import (
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// WorkflowArchive is the workflow type of the archiving of events.
const WorkflowArchive = "Archive"

// ArchiveInput starts the run that archives the events of chats that ended.
type ArchiveInput struct{}

// ArchiveChats archives one page of chats.
var ArchiveChats = durable.Activity[ArchiveChatsIn, transfer.ArchivedPage]{Name: "archive.page", Preset: durable.Files}

// ArchiveChatsIn says after which chat the page starts.
type ArchiveChatsIn struct {
	After string `json:"after"`
}

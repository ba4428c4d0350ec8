package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// archivePages bounds the pages of one run. What is left is found by the next one.
const archivePages = 200

// Archive goes once over the chats that have ended and archives their events, page
// by page.
func Archive(ctx workflow.Context, _ contract.ArchiveInput) error {
	after, archived, failed := "", 0, 0
	for page := 1; page <= archivePages; page++ {
		out, err := contract.ArchiveChats.Run(ctx, contract.ArchiveChatsIn{After: after}, fmt.Sprintf("Page %d", page))
		if err != nil {
			return err
		}

		after, archived, failed = out.After, archived+out.Archived, failed+out.Failed
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("chats archived: %d, failed and left for later: %d", archived, failed))

		if !out.More {
			return nil
		}
	}

	return nil
}

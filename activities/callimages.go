package activities

import (
	"context"
	"fmt"

	"everloop/activities/tools"
	"everloop/domain"
)

// keepImages stores the images of a result as attachments of its session. What could not
// be kept is said in the text of the result.
func (a *Activities) keepImages(ctx context.Context, call domain.LedgerCall, done *domain.FinishedCall, images []tools.Image) {
	if len(images) == 0 {
		return
	}

	images = images[:min(len(images), domain.MaxCallImages)]

	has, err := a.Ledger.ImageBytes(ctx, call.SessionID)
	if err != nil {
		a.imagesLost(call, done, len(images), err)
		return
	}

	for i, image := range images {
		if has += int64(len(image.Data)); has > domain.MaxSessionImages {
			done.Result += fmt.Sprintf("\n[%d images left out: the images of this session's results have reached %d MiB]",
				len(images)-i, domain.MaxSessionImages>>20)

			return
		}

		kept, err := a.ResultImages.KeepImage(ctx, call.SessionID, image.MIME, image.Data)
		if err != nil {
			a.imagesLost(call, done, len(images)-i, err)
			return
		}

		done.Images = append(done.Images, kept)
	}
}

func (a *Activities) imagesLost(call domain.LedgerCall, done *domain.FinishedCall, lost int, err error) {
	a.Logger.Warn("failed to keep the images of a tool result",
		"tool", call.ToolName, "session_id", call.SessionID, "chat_id", call.ChatID, "tool_call_id", call.ID, "error", err)

	done.Result += fmt.Sprintf("\n[%d images left out: they could not be kept]", lost)
}

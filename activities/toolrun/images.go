package toolrun

import (
	"context"
	"fmt"

	"everloop/activities/tools"
	"everloop/domain"
)

// keepImages stores the images of a result as attachments of its session. The text of the
// result reports images that could not be kept.
func (r *Runner) keepImages(ctx context.Context, call domain.LedgerCall, done *domain.FinishedCall, images []tools.Image) {
	if len(images) == 0 {
		return
	}

	images = images[:min(len(images), domain.MaxCallImages)]

	has, err := r.Store.ImageBytes(ctx, call.SessionID)
	if err == nil {
		err = keepWithin(has, done, images, func(image tools.Image) (domain.CallImage, error) {
			return r.Images.KeepImage(ctx, call.SessionID, image.MIME, image.Data)
		})
	}

	if err != nil {
		r.Logger.Warn("failed to keep the images of a tool result",
			"tool", call.ToolName, "session_id", call.SessionID, "chat_id", call.ChatID, "tool_call_id", call.ID, "error", err)

		done.Result += fmt.Sprintf("\n[%d images left out: they could not be kept]", len(images)-len(done.Images))
	}
}

// keepWithin keeps the images that fit into the bound of their session, which has this
// number of bytes already.
func keepWithin(
	has int64, done *domain.FinishedCall, images []tools.Image, keep func(tools.Image) (domain.CallImage, error),
) error {
	for i, image := range images {
		if has += int64(len(image.Data)); has > domain.MaxSessionImages {
			done.Result += fmt.Sprintf("\n[%d images left out: the images of this session's results have reached %d MiB]",
				len(images)-i, domain.MaxSessionImages>>20)

			return nil
		}

		kept, err := keep(image)
		if err != nil {
			return err
		}

		done.Images = append(done.Images, kept)
	}

	return nil
}

package modelcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"everloop/activities/prompt"
	"everloop/domain"
	"everloop/domain/modelretry"
)

// aboutImages matches what servers say that break instead of refusing an image.
var aboutImages = regexp.MustCompile(`(?i)image|picture|vision|multimodal|mmproj`)

// refusesImages reports whether a call may have failed because of the images in its
// request.
func refusesImages(err error) bool {
	fault, known := errors.AsType[*domain.ModelError](err)
	if !known {
		return false
	}

	switch fault.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return fault.Fault == domain.FaultRefused
	case http.StatusInternalServerError, http.StatusNotImplemented:
		return aboutImages.MatchString(fault.Message)
	default:
		return false
	}
}

// namesImages reports whether the words of a fault are about images.
func namesImages(err error) bool {
	fault, known := errors.AsType[*domain.ModelError](err)
	return known && aboutImages.MatchString(fault.Words())
}

// answerWithout calls the model again without some of the images of a request that it
// refused, then without all of them. What it refused is recorded, so that later prompts
// leave it out. Where that does not help, the fault is the first one.
func (m *modelCall) answerWithout(ctx context.Context, in prompt.Input, reply domain.Reply, refusal error) (domain.Reply, error) {
	for _, images := range suspects(in.ShownImages(), refusal) {
		m.Logger.Warn("calling the model again without images", "model", m.model.ID, "session_id", m.key.SessionID,
			"chat_id", m.key.ChatID, "images", len(images), "error", refusal)

		without, err := m.answer(ctx, prompt.Build(in.Without(images)))
		if refusesImages(err) && !m.stream.Shown() {
			continue
		}

		if err == nil {
			m.notes = append(m.notes, domain.Block{Type: domain.BlockSystemNote, Content: domain.CleanText(fmt.Sprintf(
				"The model server refused %d of the images in the conversation (%s). This answer was made without them.",
				len(images), modelretry.Reason(refusal),
			))})
			err = m.keepRefusedImages(ctx, images)
		}

		return without, err
	}

	return reply, refusal
}

// suspects returns the images to leave out of one request after the other: the newest, unless
// the request was too large, for which the older ones are left out; then all.
func suspects(turns [][]string, refusal error) [][]string {
	if len(turns) == 0 {
		return nil
	}

	all := slices.Concat(turns...)
	if len(turns) == 1 {
		return [][]string{all}
	}

	last := len(turns) - 1
	if fault, ok := errors.AsType[*domain.ModelError](refusal); ok && fault.Status == http.StatusRequestEntityTooLarge {
		return [][]string{slices.Concat(turns[:last]...), all}
	}

	return [][]string{turns[last], all}
}

// keepRefusedImages records that the model server does not take images.
func (m *modelCall) keepRefusedImages(ctx context.Context, names []string) error {
	limits := make([]domain.ModelLimit, len(names))
	for i, name := range names {
		limits[i] = domain.ModelLimit{Model: m.model.ID, SessionID: m.key.SessionID, Kind: domain.LimitImage, Subject: name}
	}

	return m.Store.KeepModelLimits(ctx, limits...)
}

// refusedImages returns the names of the images among limits.
func refusedImages(limits []domain.ModelLimit) (names []string) {
	for _, l := range limits {
		if l.Kind == domain.LimitImage {
			names = append(names, l.Subject)
		}
	}

	return names
}

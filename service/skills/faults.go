package skills

import (
	"context"
	"errors"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/internal/safezip"
	"everloop/internal/skillpack"
)

// refusal gives what is wrong with a package its place among the domain's
// errors. where names the field of the request that it came in.
func refusal(where string, err error) error {
	if invalid, ok := errors.AsType[*skillpack.Error](err); ok {
		e := domain.Newf(domain.Invalid, skill.CodeInvalid, "the package is not a valid skill: %s", invalid.Error())
		for _, problem := range invalid.Problems {
			e.Fields = append(e.Fields, domain.Field{Location: where, Message: problem})
		}

		return e
	}

	if unsafe, ok := errors.AsType[*safezip.Error](err); ok {
		kind := domain.Invalid
		if unsafe.Reason == safezip.TooLarge || unsafe.Reason == safezip.Expands || unsafe.Reason == safezip.TooManyFiles {
			kind = domain.TooLarge
		}

		return domain.Newf(kind, "invalid_skill_archive", "the package cannot be unpacked: %s", unsafe.Text)
	}

	return err
}

// problemOf says in words why a package cannot be used.
func problemOf(err error) string {
	if invalid, ok := errors.AsType[*skillpack.Error](err); ok {
		return invalid.Error()
	}

	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e.Message
	}

	if errors.Is(err, skillpack.ErrChanged) || errors.Is(err, context.DeadlineExceeded) {
		return "its files change all the time"
	}

	return "it cannot be read"
}

package transfer

import (
	"errors"

	"everloop/domain"
	"everloop/internal/safezip"
)

// CodeBadArchive is the code of an archive that is refused for what is in it;
// those of safezip say what is wrong with the ZIP itself.
const CodeBadArchive = "invalid_archive"

func badf(format string, args ...any) *domain.Error {
	return domain.Newf(domain.Invalid, CodeBadArchive, format, args...)
}

// refusal gives what is wrong with a ZIP its place among the domain's errors.
func refusal(err error) error {
	zip, ok := errors.AsType[*safezip.Error](err)
	if !ok {
		return err
	}

	kind := domain.Invalid
	if zip.Reason == safezip.TooLarge {
		kind = domain.TooLarge
	}

	return &domain.Error{Kind: kind, Code: string(zip.Reason), Message: zip.Text, Err: zip.Err}
}
